"""Objects from anywhere, taken in together: what is good, what is not known, and everything that is wrong.

One broken object does not hide another: all are looked at, and each error is one line that says where it
stands (`jobs.yaml#2: TYJob team/a: spec.priority: must be …`). Only views are kept, never the mappings they
were made from, so that a large cluster fits into memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from shoal.api import kinds, registry
from shoal.api.fields import FieldError, InvalidObjectError, described, printable, shown
from shoal.api.kinds import DEFAULT_NAMESPACE, Kind
from shoal.api.meta import Object

_LONGEST_NAME: Final = 253

_Identity: TypeAlias = tuple[str, object, str]
"""Kind, namespace (of any type, as long as nobody has checked it) and name: what no two objects share."""


class Unreadable(msgspec.Struct, frozen=True):
    """Stands among raw objects for a text that could not be read, and says why."""

    problem: str


class Intake(msgspec.Struct, kw_only=True):
    """What came of a number of raw objects."""

    views: list[tuple[Kind, Object]] = []
    """The good ones, in the order they came."""
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """Kinds that Shoal does not read (`Deployment apps/v1`), and how many there were of each."""
    errors: list[str] = []
    """One line each: source, object, field, message."""
    warnings: list[str] = []
    """Fields of our own kinds that mean nothing to us; one line each."""
    invalid: int = 0
    """How many objects (and texts) have errors."""


def take(raws: Iterable[tuple[str, object]]) -> Intake:
    """Look at raw objects, each with the name of its source."""
    register = _Register()
    for source, raw in raws:
        register.take(printable(source), raw)
    return register.intake


def title(kind: Kind, namespace: str, name: str) -> str:
    """An object as people call it: `TYJob default/job-a`, `Pool gpu`."""
    return f"{kind.kind} {namespace}/{name}" if kind.namespaced else f"{kind.kind} {name}"


class _Register:
    """Takes objects down, one after another, and knows where each stood."""

    def __init__(self) -> None:
        self.intake = Intake()
        self._sources: dict[_Identity, str] = {}

    def take(self, source: str, raw: object) -> None:
        if isinstance(raw, Unreadable):
            self._refuse(source, [raw.problem])
        elif not isinstance(raw, Mapping):
            self._refuse(source, [f"must be an object (a mapping), not {described(raw)}"])
        elif errors := [*_type_errors(raw)]:
            self._refuse(source, errors)
        elif kind := kinds.by_name().get((raw["apiVersion"], raw["kind"])):
            self._take_known(source, kind, raw)
        else:
            self.intake.unknown[f"{shown(raw['kind'])} {shown(raw['apiVersion'])}"] += 1

    def _take_known(self, source: str, kind: Kind, raw: Mapping[str, Any]) -> None:
        identity = _identity(kind, raw)
        place = f"{source}: {_title_of(kind, identity)}"
        errors = self._repetition_errors(identity, source)
        try:
            view = kinds.read(kind, raw)
        except InvalidObjectError as problem:
            errors += problem.errors
        if errors:
            self._refuse(place, errors)
        else:
            self.intake.views.append((kind, view))
        if kind in registry.kinds():
            paths = kinds.unknown_spec_fields(kind, raw)
            self.intake.warnings += (f"{place}: {path}: is not a field that is known" for path in paths)

    def _refuse(self, place: str, errors: Iterable[FieldError | str]) -> None:
        self.intake.errors += (f"{place}: {printable(str(error))}" for error in errors)
        self.intake.invalid += 1

    def _repetition_errors(self, identity: _Identity | None, source: str) -> list[FieldError]:
        if identity is None or not isinstance(identity[1], str):
            return []
        if identity not in self._sources:
            self._sources[identity] = source
            return []
        return [FieldError("metadata.name", f"is taken: {self._sources[identity]} has one of this name")]


def _type_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Complain about an apiVersion or kind that is missing, is no text or is not the one we know."""
    for field in ("apiVersion", "kind"):
        value = raw.get(field)
        if value is None:
            yield FieldError(field, "is required")
        elif not isinstance(value, str) or not value:
            yield FieldError(field, f"must be a string that is not empty, not {described(value)}")
    yield from _version_errors(raw.get("apiVersion"), raw.get("kind"))


def _version_errors(version: object, kind: object) -> Iterator[FieldError]:
    """Complain about another version of one of our own kinds: to skip it would lose a job silently."""
    if isinstance(version, str) and isinstance(kind, str):
        served = {(own.group, own.kind): own.api_version for own in registry.kinds()}
        ours = served.get((version.rpartition("/")[0], kind), version)
        if version != ours:
            yield FieldError("apiVersion", f"must be {ours} for a {kind}, not {described(version)}")


def _identity(kind: Kind, raw: Mapping[str, Any]) -> _Identity | None:
    """Which object this is, as far as it can be told from the unchecked mapping."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(name, str) or not name:
        return None
    return kind.kind, namespace if kind.namespaced else "", name


def _title_of(kind: Kind, identity: _Identity | None) -> str:
    if identity is None:
        return f"{kind.kind} without a name"
    _, namespace, name = identity
    return title(kind, _in_full(namespace), _in_full(name))


def _in_full(name: object) -> str:
    """A name as it stands in a message: all of it, unless it is longer than any name may be."""
    return printable(name) if isinstance(name, str) and len(name) <= _LONGEST_NAME else shown(name)
