"""What reflectors hear, kept for controllers: objects by key and by whatever else they are looked up with.

One store serves all controllers that read a resource. It is told of changes in order, and passes each on to
those who asked: first the indices, so that whoever is woken finds everything in its place.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from shoal.cluster.object_store import Change, Gone, Key, number
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import Resource

T = TypeVar("T")

Hear = Callable[[Key, T | None, T | None], None]
"""Is told of a change: whose, and what it was and is; None where it was not or is not there."""


class Index(Generic[T]):
    """Objects by something that they say about themselves."""

    def __init__(self, by: Callable[[T], Iterable[Hashable]]) -> None:
        self._by: Final = by
        self._found: Final[defaultdict[Hashable, dict[Key, T]]] = defaultdict(dict)

    def __getitem__(self, value: Hashable) -> list[T]:
        """The objects that say so, by name."""
        found = self._found.get(value, {})
        return [found[key] for key in sorted(found)]

    def update(self, key: Key, old: T | None, new: T | None) -> None:
        """Take note of a change."""
        for value in self._by(old) if old is not None else ():
            found = self._found[value]
            found.pop(key, None)
            if not found:
                del self._found[value]
        for value in self._by(new) if new is not None else ():
            self._found[value][key] = new  # type: ignore[assignment]  # not None, as there are values


class Store(Generic[T]):
    """The objects of a resource; a sink of reflectors."""

    def __init__(self) -> None:
        self.items: Final[dict[Key, T]] = {}
        self._versions: Final[dict[Key, int]] = {}
        self._indices: Final[list[Index[T]]] = []
        self._hearers: Final[list[Hear[T]]] = []

    def index(self, by: Callable[[T], Iterable[Hashable]]) -> Index[T]:
        """Objects by what a function says of them; to be asked for before anything is followed."""
        index = Index(by)
        self._indices.append(index)
        return index

    def subscribe(self, hear: Hear[T]) -> None:
        """Be told of every change from now on."""
        self._hearers.append(hear)

    def version(self, key: Key) -> int:
        """The version in which an object is known; -1 if it is not."""
        return self._versions.get(key, -1)

    def __call__(self, changes: Sequence[Change[T]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                self._versions.pop(change.key, None)
                self._tell(change.key, self.items.pop(change.key, None), None)
            else:
                self._versions[change.key] = number(change.version)
                old = self.items.get(change.key)
                self.items[change.key] = change.item
                self._tell(change.key, old, change.item)

    def _tell(self, key: Key, old: T | None, new: T | None) -> None:
        for index in self._indices:
            index.update(key, old, new)
        for hear in self._hearers:
            hear(key, old, new)


class Stores:
    """One store for each resource that somebody reads."""

    def __init__(self) -> None:
        self._all: Final[dict[str, tuple[Resource[Any], Store[Any]]]] = {}

    def of(self, resource: Resource[T]) -> Store[T]:
        """The store of a resource; all who ask for it read its objects in the same way."""
        return self._all.setdefault(resource.full_name, (resource, Store[T]()))[1]

    def follow(self, reflectors: Reflectors) -> None:
        """Have everything kept up to date."""
        for resource, store in self._all.values():
            reflectors.follow(resource, store)
