"""Label selectors, node affinity and tolerations, as Kubernetes defines them."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
Labels = Mapping[str, str]


def selects(selector: Object | None, labels: Labels) -> bool:
    """Whether a label selector matches; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(expression(one, labels) for one in selector.get("matchExpressions") or ())


def expression(wanted: Object, labels: Labels) -> bool:
    """Whether one requirement of a selector or of node affinity matches."""
    key, operator, values = wanted["key"], wanted["operator"], wanted.get("values") or []
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return _is_number(labels.get(key)) and int(labels[key]) > int(values[0])
        case "Lt":
            return _is_number(labels.get(key)) and int(labels[key]) < int(values[0])
    raise ValueError(f"no such operator: {operator}")


def _is_number(text: str | None) -> bool:
    return text is not None and text.lstrip("-").isdigit()


def node_matches(spec: Object, node: Object) -> bool:
    """`nodeSelector` and required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(term, node["metadata"]["name"], labels) for term in required["nodeSelectorTerms"])


def _term(term: Object, name: str, labels: Labels) -> bool:
    """All requirements of a term must match; an empty term matches no node."""
    by_label = term.get("matchExpressions") or []
    by_field = term.get("matchFields") or []
    if not by_label and not by_field:
        return False
    fields = {"metadata.name": name}
    return all(expression(one, labels) for one in by_label) and all(
        expression(one, fields) for one in by_field
    )


def tolerates(spec: Object, taint: Object) -> bool:
    """Whether a pod tolerates a taint."""
    if taint["effect"] == "PreferNoSchedule":
        return True
    return any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
