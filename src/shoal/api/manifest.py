"""YAML as Kubernetes reads it, from anybody.

Values are built here from libyaml's events, without recursion: the usual loaders unfold aliases and nesting
on the C stack, and turn times and `1:30` into things that Kubernetes does not. How deep a text is nested and
how far its aliases unfold is limited, also where one hides in the other.

Text to objects: YAML and JSON as kubectl reads and writes them.

The input may be hostile or huge, so its size is limited. JSON is read far faster than YAML, so its limit is
higher, and a List in JSON is decoded item by item: this is how the objects of a whole cluster come in.
"""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
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


def parse_yaml(text: str) -> Iterator[object]:
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


MIB: Final = 2**20
MAX_YAML: Final = 64 * MIB
MAX_JSON: Final = 1024 * MIB
_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = re.compile(r"\s*")
_JSON_START: Final = re.compile(rb"(\xef\xbb\xbf)?\s*[{\[]")


class ManifestError(ValueError):
    """Raised when a text is not YAML or JSON, or is too much to read."""


def read(data: bytes) -> Iterator[tuple[str, object]]:
    """All objects in a text, each with its place in it; ManifestError where it cannot be read any further.

    The place is `""` for a single object, `#2` for the second of several documents and `[3]` for an item of
    a List. Objects are made one by one, so that a text of many costs little more than itself.
    """
    data = data.removeprefix(_BOM)
    if not _looks_like_json(data):
        yield from _places(_yaml(data))
        return
    try:
        yield from _json(data)
    except msgspec.DecodeError as problem:
        if len(data) > MAX_YAML:
            raise ManifestError(f"is not JSON: {problem}") from None
        several = _json_documents(data)
        # YAML has braces too, and its errors have lines.
        yield from _places(iter(several) if several else _yaml(data))


def size_limit(start: bytes) -> int:
    """How many bytes are read of a text that starts like this."""
    return MAX_JSON if _looks_like_json(start) else MAX_YAML


def too_large(size: int) -> ManifestError:
    """The error for a text of more bytes than are read."""
    return ManifestError(
        f"has {size / MIB:.0f} MiB of text or more; YAML is read up to {MAX_YAML // MIB} MiB, "
        f"and JSON (kubectl -o json) up to {MAX_JSON // MIB} MiB"
    )


def _looks_like_json(data: bytes) -> bool:
    return _JSON_START.match(data) is not None


def _places(found: Iterator[object]) -> Iterator[tuple[str, object]]:
    """Objects with places; a document has a number only if there are several."""
    filled = (document for document in found if document is not None)
    first = next(filled, None)
    if first is None:
        raise ManifestError("has no objects")
    second = next(filled, None)
    yield from _placed(first, "" if second is None else "#1")
    rest = filled if second is None else itertools.chain([second], filled)
    for number, document in enumerate(rest, start=2):
        yield from _placed(document, f"#{number}")


def _placed(document: object, place: str) -> Iterator[tuple[str, object]]:
    """The objects in a document: itself, or the items of a List, which may lack the kind of their list."""
    if not isinstance(document, Mapping) or not _is_list(document.get("kind")) or "items" not in document:
        yield place, document
        return
    items = document["items"] or []
    if not isinstance(items, list):
        yield place, document
        return
    common = _common(document.get("apiVersion"), document["kind"])
    for i, item in enumerate(items):
        yield from _placed({**common, **item} if isinstance(item, Mapping) else item, f"{place}[{i}]")


def _is_list(kind: object) -> bool:
    return isinstance(kind, str) and kind.endswith("List")


def _common(version: object, kind: str) -> dict[str, object]:
    """What the items of a list may leave to it."""
    return {} if kind == "List" else {"apiVersion": version, "kind": kind.removesuffix("List")}


class _JsonList(msgspec.Struct, rename="camel"):
    """A List whose items are not decoded yet."""

    kind: str
    items: list[msgspec.Raw]
    api_version: str = ""


def _json(data: bytes) -> Iterator[tuple[str, object]]:
    try:
        found = msgspec.json.decode(data, type=_JsonList)
    except (msgspec.ValidationError, RecursionError):
        yield from _placed(_decoded(data), "")
        return
    if not _is_list(found.kind):
        yield from _placed(_decoded(data), "")
        return
    common = _common(found.api_version, found.kind)
    for i, raw in enumerate(found.items):
        item = _item(raw)
        yield from _placed({**common, **item} if isinstance(item, Mapping) else item, f"[{i}]")


def _json_documents(data: bytes) -> list[object]:
    """JSON documents one after another, as some tools write them; none if it is anything else."""
    decoder, found, position = json.JSONDecoder(), list[object](), 0
    text = data.decode(errors="replace").lstrip()
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            found.append(value)
            position = _after_blanks(text, position)
        msgspec.json.encode(found)  # half of a surrogate pair is read here, and could not be written
    except (ValueError, RecursionError):
        return []
    return found


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _item(raw: bytes) -> object:
    try:
        return _decoded(raw)
    except msgspec.DecodeError as problem:
        raise ManifestError(f"is not JSON: {problem}") from None


def _decoded(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ManifestError("is nested too deeply") from None


def _yaml(data: bytes) -> Iterator[object]:
    if len(data) > MAX_YAML:
        raise too_large(len(data))
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise ManifestError(f"is not text in UTF-8 (byte {problem.start})") from None
    try:
        yield from parse_yaml(text)
    except yaml.MarkedYAMLError as problem:
        line = f"line {problem.problem_mark.line + 1}: " if problem.problem_mark else ""
        raise ManifestError(f"is not YAML: {line}{problem.problem or problem.context}") from None
    except yaml.YAMLError as problem:
        raise ManifestError(f"is not YAML: {' '.join(str(problem).split())}") from None
