"""Label and field selectors in the syntax of kubectl.

A compiled selector decodes only the fields of an object that it needs; the rest of the text is skipped.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api import registry
from shoal.api.fields import shown
from shoal.api.names import label_value_errors, qualified_name_errors
from shoal.api.selectors import compare_integers
from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Selector
from shoal.cluster.resources import Resource, Text

Labels = Mapping[str, str]


class Requirement(NamedTuple):
    """A requirement on one label; `operator` is in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Return whether labels meet the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                (other,) = self.values
                return value is not None and compare_integers(value, self.operator.capitalize(), other)


class FieldRequirement(NamedTuple):
    """A requirement on one field: equal to a value, or not."""

    name: str
    value: str
    equal: bool


# --- labels ------------------------------------------------------------------------------------------------

_KEY: Final = r"(?P<{}>[^\s,!=<>()]+)"
_TERM: Final = re.compile(
    r"\s*(?:"
    + "|".join(
        (
            _KEY.format("set") + r"\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)",
            _KEY.format("key") + r"\s*(?P<sign>==|!=|=|>|<)\s*(?P<value>[^\s,!=<>()]*)",
            r"!\s*" + _KEY.format("absent"),
            _KEY.format("present"),
        )
    )
    + r")\s*(?:,(?=.)|$)",
    re.DOTALL,
)
_SIGNS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


@functools.lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector; BadRequestError if it is not valid."""
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise BadRequestError(
                f"unable to parse requirement: '{shown(text[position:])}' in '{shown(text)}'"
            )
        found.append(_validate(_requirement(term)))
        position = term.end()
    return tuple(found)


def _requirement(term: re.Match[str]) -> Requirement:
    part = term.groupdict()
    if part["set"] is not None:
        values = frozenset(value.strip() for value in part["values"].split(","))
        return Requirement(part["set"], part["word"], values)
    if part["key"] is not None:
        return Requirement(part["key"], _SIGNS[part["sign"]], frozenset({part["value"]}))
    if part["absent"] is not None:
        return Requirement(part["absent"], "!")
    return Requirement(part["present"], "exists")


def _validate(requirement: Requirement) -> Requirement:
    problems = list(qualified_name_errors(requirement.key, "key"))
    if requirement.operator in ("gt", "lt"):
        if not all(_INTEGER.fullmatch(value) for value in requirement.values):
            raise BadRequestError("unable to parse requirement: for 'Gt', 'Lt' the value must be an integer")
    else:
        problems += [e for value in requirement.values for e in label_value_errors(value, "values")]
    if problems:
        raise BadRequestError(f"unable to parse requirement: {'; '.join(map(str, problems))}")
    return requirement


# --- fields ------------------------------------------------------------------------------------------------

_COMMON_FIELDS: Final = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
_INVOLVED_OBJECT_FIELDS: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
_FIELDS: Final[dict[str, dict[str, str]]] = {
    "pods": {
        name: name
        for name in (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        )
    },
    "nodes": {"spec.unschedulable": "spec.unschedulable"},
    "namespaces": {"status.phase": "status.phase"},
    "services": {"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
    "secrets": {"type": "type"},
    "jobs.batch": {"status.successful": "status.succeeded"},
    "events": {f"involvedObject.{part}": f"involvedObject.{part}" for part in _INVOLVED_OBJECT_FIELDS}
    | {
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    },
}
"""The fields by which a resource can be selected, and the path of each."""

_DEFAULTS: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.succeeded": "0"}
"""Values of absent fields that do not count as an empty string."""


@registry.cached_by_kinds
def _own_fields() -> dict[str, dict[str, str]]:
    """Selectable fields of our own kinds."""
    return {
        f"{kind.plural}.{kind.group}": {path[1:]: path[1:] for path in kind.selectable}
        for kind in registry.kinds()
    }


def parse_field_selector(resource: Resource[Any], text: str) -> tuple[FieldRequirement, ...]:
    """Parse a field selector; BadRequestError if it is not valid, or the resource has no such field."""
    known = _COMMON_FIELDS | (_FIELDS.get(resource.full_name) or _own_fields().get(resource.full_name, {}))
    found = []
    for part in filter(None, _split(text)):
        term = _parse_field_requirement(part)
        if term.name not in known:
            raise BadRequestError(f"field label not supported: {shown(term.name)}")
        found.append(term._replace(name=known[term.name]))
    return tuple(found)


def _split(text: str) -> list[str]:
    """Split a selector at commas; a comma after a backslash is part of a value."""
    return re.split(r"(?<!\\),", text)


def _parse_field_requirement(part: str) -> FieldRequirement:
    sign = re.search(r"(?<!\\)(==|!=|=)", part)
    if sign is None:
        raise BadRequestError(f"invalid selector: '{shown(part)}'; can't understand '{shown(part)}'")
    value = re.sub(r"\\([\\,=])", r"\1", part[sign.end() :])
    return FieldRequirement(part[: sign.start()].strip(), value, equal=sign[0] != "!=")


# --- both --------------------------------------------------------------------------------------------------


class _MetadataLabels(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _ObjectLabels(msgspec.Struct, gc=False):
    metadata: _MetadataLabels = msgspec.field(default_factory=_MetadataLabels)


_LABELS_DECODER: Final = msgspec.json.Decoder(_ObjectLabels)


class CompiledSelector:
    """A selector of a resource, compiled to match many objects."""

    def __init__(self, resource: Resource[Any], selector: Selector) -> None:
        """Compile a selector; BadRequestError if it is not valid."""
        self.namespace: Final = selector.namespace if resource.namespaced else ""
        self._labels = parse_label_selector(selector.labels)
        self._terms = parse_field_selector(resource, selector.fields)
        self._read = [(_reader(term.name), term) for term in self._terms]
        self.everything: Final = not self._labels and not self._terms

    def matches(self, text: Text) -> bool:
        """Return whether an object with this text matches; its namespace is not checked."""
        if self._labels:
            labels = _LABELS_DECODER.decode(text).metadata.labels or {}
            if not all(requirement.matches(labels) for requirement in self._labels):
                return False
        return all((read(text) == term.value) is term.equal for read, term in self._read)


@functools.cache
def _reader(path: str) -> Callable[[Text], str]:
    """Return a function that reads one field from the text of an object, as a string."""
    *outer, last = path.split(".")
    view: type[Any] = msgspec.defstruct("View", [(last, Any, None)], gc=False)
    for name in reversed(outer):
        view = msgspec.defstruct("View", [(name, view | None, None)], gc=False)
    decode = msgspec.json.Decoder(view).decode
    names = (*outer, last)
    return lambda text: _to_string(_get_nested(decode(text), names), _DEFAULTS.get(path, ""))


def _get_nested(view: object, names: Iterable[str]) -> object:
    for name in names:
        if view is None:
            return None
        view = getattr(view, name)
    return view


def _to_string(value: object, absent: str) -> str:
    if value is None or value == "":
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)
