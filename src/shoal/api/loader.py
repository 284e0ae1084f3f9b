"""Loading of raw objects from files and lists: decode and validate all of them, and collect all errors.

An invalid object does not hide another one: all are checked, and each error is one line with its location
(`jobs.yaml#2: TYJob team/a: spec.priority: must be …`). Only the typed views are kept, not the mappings that
they were decoded from, so that the objects of a large cluster fit into memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from shoal.api import kinds, registry
from shoal.api.fields import FieldError, InvalidObjectError, described, printable, shown
from shoal.api.kinds import DEFAULT_NAMESPACE, Kind
from shoal.api.meta import Object

_MAX_NAME_LENGTH: Final = 253

_ObjectKey: TypeAlias = tuple[str, object, str]
"""Unique key: kind, namespace, name. The namespace has any type as long as it is not validated."""


class UnreadableSource(msgspec.Struct, frozen=True):
    """Placeholder among raw objects for a file or document that could not be read; `problem` is the error."""

    problem: str


class LoadResult(msgspec.Struct, kw_only=True):
    """Result of loading raw objects: the valid ones, and the errors of the others."""

    views: list[tuple[Kind, Object]] = []
    """The valid objects, in the order of the input."""
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of objects of each kind that Shoal does not support (`Deployment apps/v1`)."""
    errors: list[str] = []
    """One line each: source, object, field, message."""
    warnings: list[str] = []
    """Unknown fields in objects of Shoal's own kinds, one line each."""
    invalid: int = 0
    """Number of objects (and unreadable sources) with errors."""


def load_objects(raws: Iterable[tuple[str, object]]) -> LoadResult:
    """Decode and validate raw objects; each comes with the name of its source."""
    loader = _Loader()
    for source, raw in raws:
        loader.add(printable(source), raw)
    return loader.result


def display_name(kind: Kind, namespace: str, name: str) -> str:
    """Format the name of an object for messages: `TYJob default/job-a`, `Pool gpu`."""
    return f"{kind.kind} {namespace}/{name}" if kind.namespaced else f"{kind.kind} {name}"


class _Loader:
    """Decodes objects one by one; remembers the source of each object to report duplicates."""

    def __init__(self) -> None:
        self.result = LoadResult()
        self._sources: dict[_ObjectKey, str] = {}

    def add(self, source: str, raw: object) -> None:
        if isinstance(raw, UnreadableSource):
            self._reject(source, [raw.problem])
        elif not isinstance(raw, Mapping):
            self._reject(source, [f"must be an object (a mapping), not {described(raw)}"])
        elif errors := [*_type_errors(raw)]:
            self._reject(source, errors)
        elif kind := kinds.by_name().get((raw["apiVersion"], raw["kind"])):
            self._add_known(source, kind, raw)
        else:
            self.result.unknown[f"{shown(raw['kind'])} {shown(raw['apiVersion'])}"] += 1

    def _add_known(self, source: str, kind: Kind, raw: Mapping[str, Any]) -> None:
        key = _object_key(kind, raw)
        location = f"{source}: {_display_name_of(kind, key)}"
        errors = self._duplicate_errors(key, source)
        try:
            view = kinds.read(kind, raw)
        except InvalidObjectError as problem:
            errors += problem.errors
        if errors:
            self._reject(location, errors)
        else:
            self.result.views.append((kind, view))
            self.result.warnings += (f"{location}: {warning}" for warning in kind.warnings(dict(raw)))
        if kind in registry.kinds():
            paths = kinds.unknown_spec_fields(kind, raw)
            self.result.warnings += (f"{location}: {path}: is not a known field" for path in paths)

    def _reject(self, location: str, errors: Iterable[FieldError | str]) -> None:
        self.result.errors += (f"{location}: {printable(str(error))}" for error in errors)
        self.result.invalid += 1

    def _duplicate_errors(self, key: _ObjectKey | None, source: str) -> list[FieldError]:
        if key is None or not isinstance(key[1], str):
            return []
        if key not in self._sources:
            self._sources[key] = source
            return []
        return [FieldError("metadata.name", f"is a duplicate: {self._sources[key]} has the same name")]


def _type_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors for an apiVersion or kind that is missing, empty, not a string, or not supported."""
    for field in ("apiVersion", "kind"):
        value = raw.get(field)
        if value is None:
            yield FieldError(field, "is required")
        elif not isinstance(value, str) or not value:
            yield FieldError(field, f"must be a string that is not empty, not {described(value)}")
    yield from _version_errors(raw.get("apiVersion"), raw.get("kind"))


def _version_errors(version: object, kind: object) -> Iterator[FieldError]:
    """Yield an error for another version of one of Shoal's kinds: skipping it would lose a job silently."""
    if isinstance(version, str) and isinstance(kind, str):
        served = {(own.group, own.kind): own.api_version for own in registry.kinds()}
        supported = served.get((version.rpartition("/")[0], kind), version)
        if version != supported:
            yield FieldError("apiVersion", f"must be {supported} for a {kind}, not {described(version)}")


def _object_key(kind: Kind, raw: Mapping[str, Any]) -> _ObjectKey | None:
    """The key of an object that is not validated yet; None without a usable name."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(name, str) or not name:
        return None
    return kind.kind, namespace if kind.namespaced else "", name


def _display_name_of(kind: Kind, key: _ObjectKey | None) -> str:
    if key is None:
        return f"{kind.kind} without a name"
    _, namespace, name = key
    return display_name(kind, _printable_name(namespace), _printable_name(name))


def _printable_name(name: object) -> str:
    """Format a name for messages: in full, unless it is longer than any valid name."""
    return printable(name) if isinstance(name, str) and len(name) <= _MAX_NAME_LENGTH else shown(name)
