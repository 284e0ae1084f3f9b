"""Text to objects: YAML and JSON as kubectl reads and writes them.

The input may be hostile or huge, so its size is limited. JSON is read far faster than YAML, so its limit is
higher, and a List in JSON is decoded item by item: this is how the objects of a whole cluster come in.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import yaml

from shoal.api import plainyaml

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
        yield from plainyaml.values(text)
    except yaml.MarkedYAMLError as problem:
        line = f"line {problem.problem_mark.line + 1}: " if problem.problem_mark else ""
        raise ManifestError(f"is not YAML: {line}{problem.problem or problem.context}") from None
    except yaml.YAMLError as problem:
        raise ManifestError(f"is not YAML: {' '.join(str(problem).split())}") from None
