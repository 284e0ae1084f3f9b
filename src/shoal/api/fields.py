"""Validation errors with field paths, and the formatting of values in messages.

Validation does not stop at the first error: it collects every `FieldError`, each with the path of its field
(`spec.workerSets[0].counts`), so that a user can correct all of them at once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PATH_SEPARATOR: Final = re.compile(r"[.\[]")
_NUMBERS_AND_TEXT: Final = re.compile(r"[0-9]+|[^0-9]+")
_MAX_SHOWN: Final = 60


class FieldError(msgspec.Struct, frozen=True):
    """One error of one field.

    `depends_on` are the paths of the fields whose values led to the error; by default the field itself. An
    error that depends on a field of the wrong type is dropped: it would be about the placeholder value.
    """

    path: str
    message: str
    depends_on: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def is_independent_of(self, invalid: AbstractSet[str]) -> bool:
        """Whether the error holds whatever the values of the `invalid` paths are."""
        paths = (self.path,) if self.depends_on is None else self.depends_on
        return not any(ancestor in invalid for path in paths for ancestor in _with_ancestors(path))


class InvalidObjectError(ValueError):
    """Raised when an object is invalid; `errors` has all its errors."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Remove duplicate errors and sort the others by path."""
        unique = dict.fromkeys(FieldError(error.path, error.message) for error in errors)
        self.errors = sorted(unique, key=lambda error: (_sort_key(error.path), error.path, error.message))
        super().__init__("; ".join(map(str, self.errors)))


def child(path: str, key: str | int) -> str:
    """Return the path of a key or an index below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """Format a value for a message: on one line, and shortened to 60 characters."""
    text = value if isinstance(value, str) else repr(value)
    return printable(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


def described(value: object) -> str:
    """Describe a value for an error message: `a list`, `'text'`, `null`, `5`."""
    match value:
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"'{shown(value)}'"
        case bool():
            return str(value).lower()
        case _:
            return "null" if value is None else shown(value)


def printable(text: str) -> str:
    """Escape line breaks and control characters: the text is one line, and safe to print to a terminal."""
    if text.isprintable():  # nearly always
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def pluralize(count: int, noun: str) -> str:
    """Format a count with its noun: `1 pod`, `2 pods`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _with_ancestors(path: str) -> Iterator[str]:
    """Yield a path and the paths of all its ancestors, up to the object itself (the empty path)."""
    yield path
    yield from (path[: end.start()] for end in _PATH_SEPARATOR.finditer(path))
    yield ""


def _sort_key(path: str) -> list[tuple[int, str]]:
    """Natural sort order: numbers in a path of any length compare as numbers, so `[9]` is before `[10]`."""
    return [_part_key(part) for part in _NUMBERS_AND_TEXT.findall(path)]


def _part_key(part: str) -> tuple[int, str]:
    digits = part.lstrip("0")
    return (len(digits), digits) if part[0] in "0123456789" else (-1, part)
