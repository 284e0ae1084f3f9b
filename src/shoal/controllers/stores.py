"""Stores: the objects that reflectors report, for controllers to look up by key and by index.

One store serves all controllers that read a resource. It receives changes in order and updates its indexes
before it calls the handlers, so that a controller that is triggered finds every index up to date.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from shoal.cluster.object_store import Change, Deleted, Key, version_number
from shoal.cluster.port import EVERYTHING, Selector
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import Resource

T = TypeVar("T")

ChangeHandler = Callable[[Key, T | None, T | None], None]
"""Called with each change: the key, the old object and the new one; None where there is none."""


class Index(Generic[T]):
    """Objects by values that a function computes of them."""

    def __init__(self, by: Callable[[T], Iterable[Hashable]]) -> None:
        self._by: Final = by
        self._found: Final[defaultdict[Hashable, dict[Key, T]]] = defaultdict(dict)

    def __getitem__(self, value: Hashable) -> list[T]:
        """Return the objects with a value, ordered by key."""
        found = self._found.get(value, {})
        return [found[key] for key in sorted(found)]

    def update(self, key: Key, old: T | None, new: T | None) -> None:
        """Replace an object."""
        for value in self._by(old) if old is not None else ():
            found = self._found[value]
            found.pop(key, None)
            if not found:
                del self._found[value]
        for value in self._by(new) if new is not None else ():
            self._found[value][key] = new  # type: ignore[assignment]  # not None, as there are values


class IndexedStore(Generic[T]):
    """The objects of a resource, with indexes and change handlers; a sink of reflectors."""

    def __init__(self) -> None:
        self.items: Final[dict[Key, T]] = {}
        self._versions: Final[dict[Key, int]] = {}
        self._indexes: Final[list[Index[T]]] = []
        self._handlers: Final[list[ChangeHandler[T]]] = []

    def index(self, by: Callable[[T], Iterable[Hashable]]) -> Index[T]:
        """Add an index by the values of a function; only before the store is filled."""
        index = Index(by)
        self._indexes.append(index)
        return index

    def subscribe(self, handler: ChangeHandler[T]) -> None:
        """Call a handler with every change from now on."""
        self._handlers.append(handler)

    def version(self, key: Key) -> int:
        """Return the version in which an object is stored; -1 if it is not."""
        return self._versions.get(key, -1)

    def __call__(self, changes: Sequence[Change[T]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._versions.pop(change.key, None)
                self._notify(change.key, self.items.pop(change.key, None), None)
            else:
                self._versions[change.key] = version_number(change.version)
                old = self.items.get(change.key)
                self.items[change.key] = change.item
                self._notify(change.key, old, change.item)

    def _notify(self, key: Key, old: T | None, new: T | None) -> None:
        for index in self._indexes:
            index.update(key, old, new)
        for handler in self._handlers:
            handler(key, old, new)


class Stores:
    """One store for each resource that a controller reads."""

    def __init__(self) -> None:
        self._all: Final[dict[str, tuple[Resource[Any], Selector, IndexedStore[Any]]]] = {}

    def of(self, resource: Resource[T], selector: Selector = EVERYTHING) -> IndexedStore[T]:
        """Return the store of a resource, or of the objects that the first user of the store selects.

        All users of a resource must decode it in the same way.
        """
        return self._all.setdefault(resource.full_name, (resource, selector, IndexedStore[T]()))[2]

    def follow(self, reflectors: Reflectors) -> None:
        """Let reflectors fill all stores."""
        for resource, selector, store in self._all.values():
            reflectors.follow(resource, store, selector)
