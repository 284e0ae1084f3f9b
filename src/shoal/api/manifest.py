"""Parsing of manifests: YAML and JSON as kubectl reads and writes them, also from untrusted sources.

The input may be hostile or huge, so its size is limited. JSON is parsed far faster than YAML, so its limit is
higher, and a List in JSON is decoded item by item: a dump of a whole cluster is read this way.

YAML values are built here from libyaml's events, without recursion. The usual loaders expand aliases and
nesting on the C stack, and convert times and `1:30` to values that Kubernetes does not. The depth of nesting
and the number of values after the expansion of aliases are limited, also for aliases that contain aliases.
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
_MAX_YAML_VALUES: Final = 3_000_000
_MAX_NUMBER_LENGTH: Final = 100

_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_RADIX_INT: Final = re.compile(r"[-+]?0(x[0-9a-fA-F]+|o?[0-7]+|b[01]+)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+][0-9]+")
_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_STRING_TAG: Final = "tag:yaml.org,2002:str"

_Event: TypeAlias = Any
"""An event of the YAML parser; its attributes depend on its class."""


def parse_yaml(text: str) -> Iterator[object]:
    """Yield the documents of a text; YAMLError where it is not YAML or exceeds a limit."""
    return _YamlBuilder(text).documents()


class _YamlBuilder:
    """Builds values from parser events, with an explicit stack instead of recursion."""

    def __init__(self, text: str) -> None:
        self._parser = yaml.CBaseLoader(text)
        self._anchors: dict[str, _YamlNode] = {}
        self._open: list[_YamlNode] = []
        self._count = 0

    def documents(self) -> Iterator[object]:
        root = _YamlNode([], None, 0)
        while (kind := type(event := self._parser.get_event())) is not yaml.StreamEndEvent:
            if kind is yaml.ScalarEvent:
                self._add_scalar(event)
            elif kind is yaml.DocumentStartEvent:
                self._anchors.clear()
                root = _YamlNode([], None, 0)
                self._open = [root]
            elif kind is yaml.DocumentEndEvent:
                yield root.value[0]
            elif kind is not yaml.StreamStartEvent:
                self._handle_event(event)

    def _add_scalar(self, event: _Event) -> None:
        """Add a key or scalar value. This is the hot path: most events are scalars."""
        value = _scalar_value(event)
        self._count += 1
        self._check_count(event)
        if event.anchor:
            self._anchors[event.anchor] = _YamlNode(value, event.anchor, 1)
        self._open[-1].add(value, 0, event)

    def _handle_event(self, event: _Event) -> None:
        """Handle an alias, or the start or end of a list or mapping."""
        if isinstance(event, yaml.AliasEvent):
            self._expand_alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            value: object = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._count += 1
            self._check_depth(0, event)
            self._open.append(_YamlNode(value, event.anchor, -self._count))
        else:
            node = self._open.pop()
            node.count += self._count + 1
            node.value = _apply_merge_key(node.value)
            self._add(node, event)

    def _expand_alias(self, event: _Event) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _yaml_error(event, f"unknown alias *{event.anchor}")
        self._count += node.count
        self._add(node, event)

    def _add(self, node: "_YamlNode", event: _Event) -> None:
        self._check_count(event)
        self._check_depth(node.depth, event)
        if node.anchor:
            self._anchors[node.anchor] = node
        self._open[-1].add(node.value, node.depth, event)

    def _check_count(self, event: _Event) -> None:
        if self._count > _MAX_YAML_VALUES:
            raise _yaml_error(event, f"more than {_MAX_YAML_VALUES} values after expansion of aliases")

    def _check_depth(self, inner_depth: int, event: _Event) -> None:
        if len(self._open) + inner_depth > _MAX_DEPTH:
            raise _yaml_error(event, f"nested more than {_MAX_DEPTH} levels deep")


class _YamlNode:
    """A value, complete or under construction, with the number of values in it and its depth of nesting."""

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
                raise _yaml_error(event, f"key {self._key} is given twice")
        else:
            self.value[self._key] = value
            self._key = None


def _apply_merge_key(value: object) -> object:
    """Replace the merge key `<<` of a mapping by the entries of the mappings it names.

    The mapping's own entries take precedence, then those of earlier mappings.
    """
    if not isinstance(value, dict) or "<<" not in value:
        return value
    sources = value["<<"] if isinstance(value["<<"], list) else [value["<<"]]
    if not all(isinstance(other, dict) for other in sources):
        return value
    del value["<<"]
    for other in sources:
        for key, entry in other.items():
            value.setdefault(key, entry)
    return value


def _key_text(value: object, event: _Event) -> str:
    """Convert a key to a string, as in JSON: YAML keys such as `1:` or `true:` become text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise _yaml_error(event, "a key must not be a list or a mapping")
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _scalar_value(event: _Event) -> object:
    text: str = event.value
    is_string = event.style or event.tag in ("!", _STRING_TAG)
    return text if is_string else _plain_scalar(text)


def _plain_scalar(text: str) -> object:
    """Return the value of an unquoted scalar: null, a boolean, a number or a string."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not (text[0].isdigit() or text[0] in "+-.") or len(text) >= _MAX_NUMBER_LENGTH:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _RADIX_INT.fullmatch(text):
        return _parse_radix_int(text)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _parse_radix_int(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-")
    return sign * (int(digits, 0) if digits[1:2] in ("x", "o", "b") else int(digits, 8))


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _yaml_error(event: _Event, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


MIB: Final = 2**20
MAX_YAML: Final = 64 * MIB
MAX_JSON: Final = 1024 * MIB
_BOM: Final = b"\xef\xbb\xbf"
_WHITESPACE: Final = re.compile(r"\s*")
_JSON_START: Final = re.compile(rb"(\xef\xbb\xbf)?\s*[{\[]")


class ManifestError(ValueError):
    """Raised when a text is not YAML or JSON, or exceeds a limit."""


def read(data: bytes) -> Iterator[tuple[str, object]]:
    """Yield all objects in a text, each with its location; ManifestError where it cannot be parsed further.

    The location is `""` for a single object, `#2` for the second of several documents, `[3]` for an item of a
    List. Objects are decoded one by one, so that a large text needs little more memory than itself.
    """
    data = data.removeprefix(_BOM)
    if not _looks_like_json(data):
        yield from _with_locations(_decode_yaml(data))
        return
    try:
        yield from _decode_json(data)
    except msgspec.DecodeError as problem:
        if len(data) > MAX_YAML:
            raise ManifestError(f"is not JSON: {problem}") from None
        several = _json_documents(data)
        # It may be YAML that starts with a brace; and errors of YAML have line numbers.
        yield from _with_locations(iter(several) if several else _decode_yaml(data))


def size_limit(start: bytes) -> int:
    """Maximum size in bytes of a text that starts like this."""
    return MAX_JSON if _looks_like_json(start) else MAX_YAML


def too_large(size: int) -> ManifestError:
    """Return the error for a text that is too large."""
    return ManifestError(
        f"has {size / MIB:.0f} MiB of text or more; YAML is read up to {MAX_YAML // MIB} MiB, "
        f"and JSON (kubectl -o json) up to {MAX_JSON // MIB} MiB"
    )


def _looks_like_json(data: bytes) -> bool:
    return _JSON_START.match(data) is not None


def _with_locations(found: Iterator[object]) -> Iterator[tuple[str, object]]:
    """Yield objects with locations; documents are numbered only if there are several."""
    documents = (document for document in found if document is not None)
    first = next(documents, None)
    if first is None:
        raise ManifestError("has no objects")
    second = next(documents, None)
    yield from _expand_list(first, "" if second is None else "#1")
    rest = documents if second is None else itertools.chain([second], documents)
    for number, document in enumerate(rest, start=2):
        yield from _expand_list(document, f"#{number}")


def _expand_list(document: object, location: str) -> Iterator[tuple[str, object]]:
    """Yield the objects of a document: itself, or the items of a List, which may inherit its kind."""
    if not isinstance(document, Mapping) or not _is_list(document.get("kind")) or "items" not in document:
        yield location, document
        return
    items = document["items"] or []
    if not isinstance(items, list):
        yield location, document
        return
    inherited = _inherited_fields(document.get("apiVersion"), document["kind"])
    for i, item in enumerate(items):
        yield from _expand_list(
            {**inherited, **item} if isinstance(item, Mapping) else item, f"{location}[{i}]"
        )


def _is_list(kind: object) -> bool:
    return isinstance(kind, str) and kind.endswith("List")


def _inherited_fields(version: object, kind: str) -> dict[str, object]:
    """Return the apiVersion and kind of items that have none; empty for a List of any kinds."""
    return {} if kind == "List" else {"apiVersion": version, "kind": kind.removesuffix("List")}


class _JsonList(msgspec.Struct, rename="camel"):
    """A List whose items are not decoded yet."""

    kind: str
    items: list[msgspec.Raw]
    api_version: str = ""


def _decode_json(data: bytes) -> Iterator[tuple[str, object]]:
    try:
        found = msgspec.json.decode(data, type=_JsonList)
    except (msgspec.ValidationError, RecursionError):
        yield from _expand_list(_decode(data), "")
        return
    if not _is_list(found.kind):
        yield from _expand_list(_decode(data), "")
        return
    inherited = _inherited_fields(found.api_version, found.kind)
    for i, raw in enumerate(found.items):
        item = _decode_item(raw)
        yield from _expand_list({**inherited, **item} if isinstance(item, Mapping) else item, f"[{i}]")


def _json_documents(data: bytes) -> list[object]:
    """Parse concatenated JSON documents, as some tools write them; empty if the text is anything else."""
    decoder, found, position = json.JSONDecoder(), list[object](), 0
    text = data.decode(errors="replace").lstrip()
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            found.append(value)
            position = _skip_whitespace(text, position)
        msgspec.json.encode(found)  # fails for a lone surrogate, which json accepts
    except (ValueError, RecursionError):
        return []
    return found


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _decode_item(raw: bytes) -> object:
    try:
        return _decode(raw)
    except msgspec.DecodeError as problem:
        raise ManifestError(f"is not JSON: {problem}") from None


def _decode(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ManifestError("is nested too deeply") from None


def _decode_yaml(data: bytes) -> Iterator[object]:
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
