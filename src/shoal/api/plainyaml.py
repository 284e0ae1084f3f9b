"""YAML as Kubernetes reads it, from anybody.

Values are built here from libyaml's events, without recursion: the usual loaders unfold aliases and nesting
on the C stack, and turn times and `1:30` into things that Kubernetes does not. How deep a text is nested and
how far its aliases unfold is limited, also where one hides in the other.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import yaml

_MAX_DEPTH: Final = 100
_MAX_VALUES: Final = 3_000_000
_LONGEST_NUMBER: Final = 100

_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OTHER_INT: Final = re.compile(r"[-+]?0(x[0-9a-fA-F]+|o?[0-7]+|b[01]+)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+][0-9]+")
_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_STRING_TAG: Final = "tag:yaml.org,2002:str"

_Event: TypeAlias = Any
"""What the parser sees next; its attributes depend on its class."""


def values(text: str) -> Iterator[object]:
    """The documents in a text, one by one; a YAMLError where it is not YAML, or too much."""
    return _Builder(text).documents()


class _Builder:
    """Builds values from events, with a stack of its own."""

    def __init__(self, text: str) -> None:
        self._parser = yaml.CBaseLoader(text)
        self._anchors: dict[str, _Built] = {}
        self._open: list[_Built] = []
        self._count = 0

    def documents(self) -> Iterator[object]:
        root = _Built([], None, 0)
        while (kind := type(event := self._parser.get_event())) is not yaml.StreamEndEvent:
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.DocumentStartEvent:
                self._anchors.clear()
                root = _Built([], None, 0)
                self._open = [root]
            elif kind is yaml.DocumentEndEvent:
                yield root.value[0]
            elif kind is not yaml.StreamStartEvent:
                self._take(event)

    def _scalar(self, event: _Event) -> None:
        """The usual case, kept short: most of a text is keys and plain values."""
        value = _scalar(event)
        self._count += 1
        self._check_count(event)
        if event.anchor:
            self._anchors[event.anchor] = _Built(value, event.anchor, 1)
        self._open[-1].add(value, 0, event)

    def _take(self, event: _Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._repeat(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            value: object = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._count += 1
            self._check_depth(0, event)
            self._open.append(_Built(value, event.anchor, -self._count))
        else:
            built = self._open.pop()
            built.count += self._count + 1
            built.value = _merged(built.value)
            self._add(built, event)

    def _repeat(self, event: _Event) -> None:
        built = self._anchors.get(event.anchor)
        if built is None:
            raise _error(event, f"unknown alias *{event.anchor}")
        self._count += built.count
        self._add(built, event)

    def _add(self, built: "_Built", event: _Event) -> None:
        self._check_count(event)
        self._check_depth(built.depth, event)
        if built.anchor:
            self._anchors[built.anchor] = built
        self._open[-1].add(built.value, built.depth, event)

    def _check_count(self, event: _Event) -> None:
        if self._count > _MAX_VALUES:
            raise _error(event, f"more than {_MAX_VALUES} values once its aliases are unfolded")

    def _check_depth(self, more: int, event: _Event) -> None:
        if len(self._open) + more > _MAX_DEPTH:
            raise _error(event, f"nested more than {_MAX_DEPTH} deep")


class _Built:
    """A value, finished or being filled: how many values it holds, how deep it is."""

    __slots__ = ("_key", "anchor", "count", "depth", "value")

    def __init__(self, value: Any, anchor: str | None, count: int) -> None:  # noqa: ANN401 - any YAML value
        self.value = value
        self.anchor = anchor
        self.count = count
        self.depth = 0
        self._key: str | None = None

    def add(self, value: object, depth: int, event: _Event) -> None:
        if depth >= self.depth:
            self.depth = depth + 1
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._key is None:
            self._key = _key_text(value, event)
            if self._key in self.value:
                raise _error(event, f"key {self._key} is given twice")
        else:
            self.value[self._key] = value
            self._key = None


def _merged(value: object) -> object:
    """A mapping, filled with what its merge key `<<` brings in; what stands earlier counts."""
    if not isinstance(value, dict) or "<<" not in value:
        return value
    brought = value["<<"] if isinstance(value["<<"], list) else [value["<<"]]
    if not all(isinstance(other, dict) for other in brought):
        return value
    del value["<<"]
    for other in brought:
        for key, entry in other.items():
            value.setdefault(key, entry)
    return value


def _key_text(value: object, event: _Event) -> str:
    """A key as JSON has it: keys are strings, and YAML's `1:` or `true:` become text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise _error(event, "a key must not be a list or a mapping")
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _scalar(event: _Event) -> object:
    text: str = event.value
    is_text = event.style or event.tag in ("!", _STRING_TAG)
    return text if is_text else _plain(text)


def _plain(text: str) -> object:
    """What an unquoted text means."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not (text[0].isdigit() or text[0] in "+-.") or len(text) >= _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _OTHER_INT.fullmatch(text):
        return _other_int(text)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _other_int(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-")
    return sign * (int(digits, 0) if digits[1:2] in ("x", "o", "b") else int(digits, 8))


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _error(event: _Event, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
