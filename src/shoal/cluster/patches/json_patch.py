"""Patches that need no schema: JSON patches (RFC 6902) and merge patches (RFC 7396).

A JSON patch is a list of operations, all of which are applied, or none. As in Kubernetes, a patch that is not
a list of operations is a bad request; one that has an unknown operation, or does not apply to the object, is
invalid.
"""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError, InvalidError, TooLargeError

Json = Any
"""Any JSON value."""

# --- merge patches ----------------------------------------------------------------------------------------


def apply_merge_patch(target: Json, patch: Json) -> Json:
    """Merge objects; null removes a field, any other value replaces it.

    The arguments are not modified; the result may share parts with them.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def make_merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `before` into `after`; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = make_merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


# --- JSON pointers (RFC 6901) -----------------------------------------------------------------------------

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")

END: Final = "-"
"""The index after the last member of a list."""

Path = tuple[str, ...]
"""Field names and indices from the root of a document to a value."""


def parse_pointer(pointer: str) -> Path:
    """Parse a JSON pointer."""
    if not pointer:
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise InvalidError(f"not a JSON pointer: '{shown(pointer)}'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def value_at(document: Json, path: Path) -> Json:
    """Return the value at a path."""
    for step in path:
        document = document[resolve_key(document, step)]
    return document


def resolve_key(container: Json, step: str) -> str | int:
    """Return the key of an existing field or member of a container."""
    if isinstance(container, dict):
        if step in container:
            return step
        raise InvalidError(f"there is no '{shown(step)}'")
    return parse_index(container, step, end=len(_as_list(container, step)) - 1)


def parse_index(members: Json, step: str, *, end: int) -> int:
    """Parse an index of a list, which must not exceed `end`."""
    if not _INDEX.fullmatch(step) or int(step) > end:
        raise InvalidError(f"there is no index '{shown(step)}' in a list of {len(members)}")
    return int(step)


def _as_list(container: Json, step: str) -> list[Json]:
    if isinstance(container, list):
        return container
    raise InvalidError(f"there is no '{shown(step)}' in a value that is neither a list nor an object")


# --- JSON patches -----------------------------------------------------------------------------------------

MAX_OPERATIONS: Final = 10_000
"""Maximum number of operations in a patch, as in Kubernetes."""

MAX_COPIED_BYTES: Final = 3 * 2**20
"""Maximum number of bytes that a patch may copy: copies of copies would grow without limit."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One operation of a JSON patch."""

    op: str = ""
    path: str | msgspec.UnsetType = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.UNSET
    value: Any = msgspec.UNSET

    @property
    def target(self) -> Path:
        """The path that is changed."""
        return self._parse("path", self.path)

    @property
    def source(self) -> Path:
        """The path that a value is taken from."""
        return self._parse("from", self.from_)

    @property
    def operand(self) -> Json:
        """The value of the operation; null is a value too."""
        if self.value is msgspec.UNSET:
            raise InvalidError(f"'{self.op}' needs a 'value'")
        return copy.deepcopy(self.value)

    def _parse(self, name: str, pointer: str | msgspec.UnsetType) -> Path:
        if isinstance(pointer, str):
            return parse_pointer(pointer)
        raise InvalidError(f"'{self.op}' needs a '{name}'")


def apply_json_patch(target: Json, patch: Json) -> Json:
    """Apply a JSON patch; the arguments are not modified."""
    operations = _parse_operations(patch)
    document = _Document(copy.deepcopy(target))
    for number, operation in enumerate(operations):
        try:
            _OPERATIONS[operation.op](document, operation)
        except InvalidError as error:
            message = f"operation {number} ({operation.op}): {error.message}"
            raise InvalidError(message) from None
    return document.root


def _parse_operations(patch: Json) -> list[Operation]:
    try:
        operations = msgspec.convert(patch, list[Operation])
    except msgspec.ValidationError as error:
        raise BadRequestError(f"not a JSON patch: {error}") from None
    if len(operations) > MAX_OPERATIONS:
        raise TooLargeError(f"a JSON patch may have {MAX_OPERATIONS} operations, not {len(operations)}")
    for operation in operations:
        if operation.op not in _OPERATIONS:
            raise InvalidError(f"unknown operation of a JSON patch: '{operation.op}'")
    return operations


class _Document:
    """A document while it is being patched."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.copied_bytes = 0

    def add(self, path: Path, value: Json) -> None:
        """Set a field, or insert a member into a list."""
        if not path:
            self.root = value
            return
        container = value_at(self.root, path[:-1])
        if isinstance(container, list):
            last = path[-1]
            index = len(container) if last == END else parse_index(container, last, end=len(container))
            container.insert(index, value)
        elif isinstance(container, dict):
            container[path[-1]] = value
        else:
            raise InvalidError(f"cannot add '{path[-1]}' to a value that is neither a list nor an object")

    def replace(self, path: Path, value: Json) -> None:
        """Replace an existing value."""
        if not path:
            self.root = value
            return
        container = value_at(self.root, path[:-1])
        container[resolve_key(container, path[-1])] = value

    def remove(self, path: Path) -> Json:
        """Remove and return an existing value."""
        if not path:
            raise InvalidError("the whole object cannot be removed")
        container = value_at(self.root, path[:-1])
        key = resolve_key(container, path[-1])  # first: a container that is a scalar has no pop
        return container.pop(key)

    def move(self, source: Path, path: Path) -> None:
        """Move a value to another path, which must not be inside the value."""
        if path[: len(source)] == source and path != source:
            raise InvalidError("a value cannot be moved into itself")
        self.add(path, self.remove(source))

    def copy(self, source: Path, path: Path) -> None:
        """Copy a value to another path."""
        value = value_at(self.root, source)
        self.copied_bytes += len(msgspec.json.encode(value))
        if self.copied_bytes > MAX_COPIED_BYTES:
            raise InvalidError(f"the patch copies more than {MAX_COPIED_BYTES} bytes")
        self.add(path, copy.deepcopy(value))

    def test(self, path: Path, value: Json) -> None:
        """Reject the patch unless this value is at that path."""
        if not json_equal(value_at(self.root, path), value):
            raise InvalidError("the test failed: there is another value")


def json_equal(one: Json, other: Json) -> bool:
    """Return whether two values are equal in JSON, where true is not 1, but 1.0 is."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            json_equal(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


_OPERATIONS: Final[dict[str, Callable[[_Document, Operation], object]]] = {
    "add": lambda document, operation: document.add(operation.target, operation.operand),
    "remove": lambda document, operation: document.remove(operation.target),
    "replace": lambda document, operation: document.replace(operation.target, operation.operand),
    "move": lambda document, operation: document.move(operation.source, operation.target),
    "copy": lambda document, operation: document.copy(operation.source, operation.target),
    "test": lambda document, operation: document.test(operation.target, operation.operand),
}
