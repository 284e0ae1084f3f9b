"""Errors that name the field they are about.

Validation never stops at the first problem: it gathers every `FieldError`, each with the path of its field
written as people write it (`spec.workerSets[0].counts`), so that one look at the message is enough.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STEP: Final = re.compile(r"[.\[]")
_PARTS: Final = re.compile(r"[0-9]+|[^0-9]+")
_WIDTH: Final = 60


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong with one field.

    `needs` are the fields whose values led to the complaint; by default the field itself. A complaint that
    needs a field of the wrong type is not made: it would be about a value nobody wrote.
    """

    path: str
    message: str
    needs: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def stands_without(self, wrong: AbstractSet[str]) -> bool:
        """Whether the complaint holds although nothing is known of the fields in `wrong`."""
        needs = (self.path,) if self.needs is None else self.needs
        return not any(path in wrong for need in needs for path in _at_or_above(need))


class InvalidObjectError(ValueError):
    """Raised when an object cannot be accepted; `errors` has everything that is wrong with it."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Keep the errors, each once, in the order of their paths."""
        plain = dict.fromkeys(FieldError(error.path, error.message) for error in errors)
        self.errors = sorted(plain, key=lambda error: (_in_order(error.path), error.path, error.message))
        super().__init__("; ".join(map(str, self.errors)))


def child(path: str, key: str | int) -> str:
    """The path of a key or an index below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """A value as it may stand in a message: on one line and short."""
    text = value if isinstance(value, str) else repr(value)
    return printable(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…")


def described(value: object) -> str:
    """A value as an error speaks of it."""
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
    """A text on one line, without anything that would drive a terminal."""
    if text.isprintable():  # nearly always
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def pluralize(count: int, noun: str) -> str:
    """So many of something: `1 pod`, `2 pods`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _at_or_above(path: str) -> Iterator[str]:
    """A path, and the paths of all that it is part of, up to the whole object."""
    yield path
    yield from (path[: end.start()] for end in _STEP.finditer(path))
    yield ""


def _in_order(path: str) -> list[tuple[int, str]]:
    """Numbers in a path count as numbers, however long they are: `[9]` comes before `[10]`."""
    return [_weight(part) for part in _PARTS.findall(path)]


def _weight(part: str) -> tuple[int, str]:
    digits = part.lstrip("0")
    return (len(digits), digits) if part[0] in "0123456789" else (-1, part)
