"""Label selectors, node selectors, taints and tolerations: types, matching and validation."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec

from shoal.api.fields import FieldError, child, shown
from shoal.api.meta import View, cel_rule
from shoal.api.names import labels_errors, qualified_name_errors

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class LabelRequirement(View, frozen=True, kw_only=True):
    """One entry of a label selector's `matchExpressions`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


_VALUES_RULE: Final = {
    "x-kubernetes-validations": [
        cel_rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "must have values when operator is In or NotIn, and none otherwise",
        )
    ]
}


class LabelSelector(View, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A label selector; an empty one matches everything.

    Unknown fields are errors: with labels beside `matchLabels` instead of in it, it would match everything.
    """

    match_labels: dict[str, str] = {}
    match_expressions: tuple[
        Annotated[LabelRequirement, msgspec.Meta(extra_json_schema=_VALUES_RULE)], ...
    ] = ()

    def requirements(self) -> tuple[LabelRequirement, ...]:
        """Return the whole selector as expressions."""
        labels = (
            LabelRequirement(key=k, operator="In", values=(v,)) for k, v in sorted(self.match_labels.items())
        )
        return (*labels, *self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _requirement_matches(r.key, r.operator, r.values, labels) for r in self.match_expressions
        )


class NodeRequirement(View, frozen=True, kw_only=True):
    """One expression about a node's labels (or, in `matchFields`, about its name)."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """Expressions that must all match; a term without expressions matches no node."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[NodeRequirement, ...] = ()


class NodeSelector(View, frozen=True, kw_only=True):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class Taint(View, frozen=True, kw_only=True):
    """A taint of a node: pods that do not tolerate it are not scheduled there, or are evicted."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Toleration(View, frozen=True, kw_only=True):
    """A toleration of a pod: which taints it accepts."""

    key: str = ""
    operator: Literal["Exists", "Equal", "Lt", "Gt", ""] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration matches the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if not self.key:
            return False
        if self.operator in ("Lt", "Gt"):
            return compare_integers(taint.value, self.operator, self.value)
        return self.value == taint.value


def label_selector_errors(selector: LabelSelector, path: str) -> Iterator[FieldError]:
    """Yield errors for invalid labels, and for operators with the wrong number of values."""
    yield from labels_errors(selector.match_labels, child(path, "matchLabels"))
    for i, requirement in enumerate(selector.match_expressions):
        yield from _requirement_errors(requirement, child(child(path, "matchExpressions"), i))


def node_selector_errors(selector: NodeSelector, path: str) -> Iterator[FieldError]:
    """Yield errors for an empty list of terms and for invalid expressions."""
    terms = child(path, "nodeSelectorTerms")
    if not selector.node_selector_terms:
        yield FieldError(terms, "must have at least one term")
    for i, term in enumerate(selector.node_selector_terms):
        for j, requirement in enumerate(term.match_expressions):
            yield from _requirement_errors(requirement, f"{terms}[{i}].matchExpressions[{j}]")
        for j, requirement in enumerate(term.match_fields):
            yield from _match_field_errors(requirement, f"{terms}[{i}].matchFields[{j}]")


def toleration_errors(tolerations: Iterable[Toleration], path: str) -> Iterator[FieldError]:
    """Yield errors for tolerations that Kubernetes rejects."""
    for i, toleration in enumerate(tolerations):
        operator = f"{path}[{i}].operator"
        if not toleration.key and toleration.operator != "Exists":
            depends_on = (operator, f"{path}[{i}].key")
            yield FieldError(operator, "must be Exists when key is empty, which means all keys", depends_on)
        if toleration.operator == "Exists" and toleration.value:
            where = f"{path}[{i}].value"
            yield FieldError(where, "must be empty when operator is Exists", (where, operator))


def _requirement_errors(requirement: LabelRequirement | NodeRequirement, path: str) -> Iterator[FieldError]:
    yield from qualified_name_errors(requirement.key, child(path, "key"))
    values, operator = requirement.values, requirement.operator
    where = child(path, "values")
    depends_on = (where, child(path, "operator"))
    if operator in ("In", "NotIn") and not values:
        yield FieldError(where, f"must have at least one value when operator is {operator}", depends_on)
    if operator in ("Exists", "DoesNotExist") and values:
        yield FieldError(where, f"must be empty when operator is {operator}", depends_on)
    if operator in ("Gt", "Lt") and (len(values) != 1 or _parse_integer(values[0]) is None):
        message = f"must be one whole number when operator is {operator}, not {shown(list(values))}"
        yield FieldError(where, message, (*depends_on, child(where, 0)))


def _match_field_errors(requirement: NodeRequirement, path: str) -> Iterator[FieldError]:
    if requirement.key != "metadata.name":
        yield FieldError(child(path, "key"), f"must be metadata.name, not '{shown(requirement.key)}'")
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        depends_on = (child(path, "operator"), child(path, "values"))
        yield FieldError(path, "must be In or NotIn with one value", depends_on)


def _requirement_matches(key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) == (operator == "Exists")


def compare_integers(left: str, operator: str, right: str) -> bool:
    """Whether an integer is greater (`Gt`) or less (`Lt`) than another; False if one is not an integer."""
    a, b = _parse_integer(left), _parse_integer(right)
    return a is not None and b is not None and (a > b if operator == "Gt" else a < b)


def _parse_integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None
