"""Label and field selectors, as kubectl writes them: which objects are meant.

A selection reads of an object only what it asks for: the rest of the text is skipped, not decoded.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api import registry
from shoal.api.fields import shown
from shoal.api.names import label_value_errors, qualified_name_errors
from shoal.api.selectors import compares
from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Selector
from shoal.cluster.resources import Resource, Text

Labels = Mapping[str, str]


class Requirement(NamedTuple):
    """What one label must be: `operator` is in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Labels) -> bool:
        """Whether an object with these labels meets it."""
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
                return value is not None and compares(value, self.operator.capitalize(), other)


class FieldTerm(NamedTuple):
    """What one field must be, or must not be."""

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
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


@functools.lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """A label selector in parts; BadRequestError if it is none."""
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise BadRequestError(
                f"unable to parse requirement: '{shown(text[position:])}' in '{shown(text)}'"
            )
        found.append(_checked(_requirement(term)))
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


def _checked(requirement: Requirement) -> Requirement:
    problems = list(qualified_name_errors(requirement.key, "key"))
    if requirement.operator in ("gt", "lt"):
        if not all(_WHOLE.fullmatch(value) for value in requirement.values):
            raise BadRequestError("unable to parse requirement: for 'Gt', 'Lt' the value must be an integer")
    else:
        problems += [e for value in requirement.values for e in label_value_errors(value, "values")]
    if problems:
        raise BadRequestError(f"unable to parse requirement: {'; '.join(map(str, problems))}")
    return requirement


# --- fields ------------------------------------------------------------------------------------------------

_EVERY: Final = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
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
    "events": {f"involvedObject.{part}": f"involvedObject.{part}" for part in _INVOLVED}
    | {
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    },
}
"""By which fields the objects of a resource are selected, and where each is found."""

_ABSENT: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.succeeded": "0"}
"""What a field that is absent counts as, if not as an empty text."""


@registry.per_generation
def _own_fields() -> dict[str, dict[str, str]]:
    """Selectable fields of our own kinds."""
    return {
        f"{kind.plural}.{kind.group}": {path[1:]: path[1:] for path in kind.selectable}
        for kind in registry.kinds()
    }


def parse_field_selector(resource: Resource[Any], text: str) -> tuple[FieldTerm, ...]:
    """A field selector in parts; BadRequestError if it is none, or the resource has no such field."""
    known = _EVERY | (_FIELDS.get(resource.full_name) or _own_fields().get(resource.full_name, {}))
    found = []
    for part in filter(None, _split(text)):
        term = _term(part)
        if term.name not in known:
            raise BadRequestError(f"field label not supported: {shown(term.name)}")
        found.append(term._replace(name=known[term.name]))
    return tuple(found)


def _split(text: str) -> list[str]:
    """The parts between commas; a comma after a backslash is part of a value."""
    return re.split(r"(?<!\\),", text)


def _term(part: str) -> FieldTerm:
    sign = re.search(r"(?<!\\)(==|!=|=)", part)
    if sign is None:
        raise BadRequestError(f"invalid selector: '{shown(part)}'; can't understand '{shown(part)}'")
    value = re.sub(r"\\([\\,=])", r"\1", part[sign.end() :])
    return FieldTerm(part[: sign.start()].strip(), value, equal=sign[0] != "!=")


# --- both --------------------------------------------------------------------------------------------------


class _Labelled(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Metadata(msgspec.Struct, gc=False):
    metadata: _Labelled = msgspec.field(default_factory=_Labelled)


_labelled: Final = msgspec.json.Decoder(_Metadata)


class CompiledSelector:
    """Which objects of a resource are meant, ready to be asked of many."""

    def __init__(self, resource: Resource[Any], selector: Selector) -> None:
        """Read the selectors; BadRequestError if they make no sense."""
        self.namespace: Final = selector.namespace if resource.namespaced else ""
        self._labels = parse_label_selector(selector.labels)
        self._terms = parse_field_selector(resource, selector.fields)
        self._read = [(_reader(term.name), term) for term in self._terms]
        self.everything: Final = not self._labels and not self._terms

    def matches(self, text: Text) -> bool:
        """Whether an object with this text is meant, its namespace aside."""
        if self._labels:
            labels = _labelled.decode(text).metadata.labels or {}
            if not all(requirement.holds(labels) for requirement in self._labels):
                return False
        return all((read(text) == term.value) is term.equal for read, term in self._read)


@functools.cache
def _reader(path: str) -> Callable[[Text], str]:
    """What reads one field out of a text, as a selector sees it."""
    *outer, last = path.split(".")
    view: type[Any] = msgspec.defstruct("View", [(last, Any, None)], gc=False)
    for name in reversed(outer):
        view = msgspec.defstruct("View", [(name, view | None, None)], gc=False)
    decode = msgspec.json.Decoder(view).decode
    names = (*outer, last)
    return lambda text: _as_text(_followed(decode(text), names), _ABSENT.get(path, ""))


def _followed(view: object, names: Iterable[str]) -> object:
    for name in names:
        if view is None:
            return None
        view = getattr(view, name)
    return view


def _as_text(value: object, absent: str) -> str:
    if value is None or value == "":
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)
