"""JSON pointers (RFC 6901): which place in a document is meant.

JSON patches (RFC 6902): a list of steps, all of which are done, or none.

What is no list of operations at all is a bad request; one that makes no sense, or does not apply to the
object, is refused as invalid, as Kubernetes does.
"""

import copy
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError, InvalidError, TooLargeError
from shoal.cluster.patches.merge import Json

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")

END: Final = "-"
"""The place behind the last member of a list."""

Steps = tuple[str, ...]
"""The names and indices on the way from the whole document to a place."""


def steps_of(pointer: str) -> Steps:
    """The way that a pointer describes."""
    if not pointer:
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise InvalidError(f"not a JSON pointer: '{shown(pointer)}'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def found(document: Json, steps: Steps) -> Json:
    """What is at a place."""
    for step in steps:
        document = document[key(document, step)]
    return document


def key(container: Json, step: str) -> str | int:
    """The key of something that is in a container."""
    if isinstance(container, dict):
        if step in container:
            return step
        raise InvalidError(f"there is no '{shown(step)}'")
    return index(container, step, end=len(_members(container, step)) - 1)


def index(members: Json, step: str, *, end: int) -> int:
    """The index that a step says, which may be at most `end`."""
    if not _INDEX.fullmatch(step) or int(step) > end:
        raise InvalidError(f"there is no index '{shown(step)}' in a list of {len(members)}")
    return int(step)


def _members(container: Json, step: str) -> list[Json]:
    if isinstance(container, list):
        return container
    raise InvalidError(f"there is no '{shown(step)}' in something that is neither a list nor an object")


MOST_OPERATIONS: Final = 10_000
"""How many operations one patch may have, as Kubernetes has it."""

MOST_COPIED: Final = 3 * 2**20
"""How many bytes one patch may copy: copies of copies grow without limit otherwise."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One step of a patch."""

    op: str = ""
    path: str | msgspec.UnsetType = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.UNSET
    value: Any = msgspec.UNSET

    @property
    def place(self) -> Steps:
        """Where something is changed."""
        return self._steps("path", self.path)

    @property
    def source(self) -> Steps:
        """Where a value is taken from."""
        return self._steps("from", self.from_)

    @property
    def given(self) -> Json:
        """The value that is said; null is one too."""
        if self.value is msgspec.UNSET:
            raise InvalidError(f"'{self.op}' needs a 'value'")
        return copy.deepcopy(self.value)

    def _steps(self, name: str, pointer: str | msgspec.UnsetType) -> Steps:
        if isinstance(pointer, str):
            return steps_of(pointer)
        raise InvalidError(f"'{self.op}' needs a '{name}'")


def applied(target: Json, patch: Json) -> Json:
    """What `patch` makes of `target`; the two are left alone."""
    operations = _read(patch)
    document = _Document(copy.deepcopy(target))
    for number, operation in enumerate(operations):
        try:
            _DONE[operation.op](document, operation)
        except InvalidError as error:
            message = f"operation {number} ({operation.op}): {error.message}"
            raise InvalidError(message) from None
    return document.root


def _read(patch: Json) -> list[Operation]:
    try:
        operations = msgspec.convert(patch, list[Operation])
    except msgspec.ValidationError as error:
        raise BadRequestError(f"not a JSON patch: {error}") from None
    if len(operations) > MOST_OPERATIONS:
        raise TooLargeError(f"a JSON patch may have {MOST_OPERATIONS} operations, not {len(operations)}")
    for operation in operations:
        if operation.op not in _DONE:
            raise InvalidError(f"no operation of a JSON patch: '{operation.op}'")
    return operations


class _Document:
    """A document while it is being patched."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.copied = 0

    def add(self, steps: Steps, value: Json) -> None:
        """Put a value in its place; members of a list make room for it."""
        if not steps:
            self.root = value
            return
        place = found(self.root, steps[:-1])
        if isinstance(place, list):
            last = steps[-1]
            at = len(place) if last == END else index(place, last, end=len(place))
            place.insert(at, value)
        elif isinstance(place, dict):
            place[steps[-1]] = value
        else:
            raise InvalidError(f"'{steps[-1]}' cannot be added to what is neither a list nor an object")

    def replace(self, steps: Steps, value: Json) -> None:
        """Put a value in the place of another."""
        if not steps:
            self.root = value
            return
        place = found(self.root, steps[:-1])
        place[key(place, steps[-1])] = value

    def remove(self, steps: Steps) -> Json:
        """Take out what is at a place."""
        if not steps:
            raise InvalidError("the whole object cannot be removed")
        place = found(self.root, steps[:-1])
        return place.pop(key(place, steps[-1]))

    def move(self, source: Steps, steps: Steps) -> None:
        """Take out what is at one place and put it in another, which must not lie within it."""
        if steps[: len(source)] == source and steps != source:
            raise InvalidError("nothing can be moved into itself")
        self.add(steps, self.remove(source))

    def copy(self, source: Steps, steps: Steps) -> None:
        """Put a copy of what is at one place in another."""
        value = found(self.root, source)
        self.copied += len(msgspec.json.encode(value))
        if self.copied > MOST_COPIED:
            raise InvalidError(f"the patch copies more than {MOST_COPIED} bytes")
        self.add(steps, copy.deepcopy(value))

    def test(self, steps: Steps, value: Json) -> None:
        """Refuse the patch unless this value is at that place."""
        if not equal(found(self.root, steps), value):
            raise InvalidError("the test failed: there is another value")


def equal(one: Json, other: Json) -> bool:
    """Whether two values are the same in JSON, where true is not 1, but 1.0 is."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


_DONE: Final[dict[str, Callable[[_Document, Operation], object]]] = {
    "add": lambda document, said: document.add(said.place, said.given),
    "remove": lambda document, said: document.remove(said.place),
    "replace": lambda document, said: document.replace(said.place, said.given),
    "move": lambda document, said: document.move(said.source, said.place),
    "copy": lambda document, said: document.copy(said.source, said.place),
    "test": lambda document, said: document.test(said.place, said.given),
}
