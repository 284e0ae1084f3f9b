"""Binding and eviction: how a pod gets a node, and how it is asked to leave one."""

from typing import Final

from msgspec.structs import replace

from shoal.api.core import PodDisruptionBudget
from shoal.api.decode import decode as view_of
from shoal.api.fields import FieldError
from shoal.apiserver.registry.deletion import check_preconditions, delete
from shoal.apiserver.registry.pending import Head
from shoal.apiserver.registry.records import Key, Record, decode
from shoal.apiserver.registry.write import found
from shoal.apiserver.strategies.metadata import as_text
from shoal.apiserver.strategies.table import RULES
from shoal.cluster.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InternalError,
    TooManyRequestsError,
)
from shoal.cluster.port import Deletion
from shoal.cluster.resources import BUDGETS, PODS, Object

_RULES: Final = RULES[PODS.full_name]
_NO_BUDGET_NEEDED: Final = ("Succeeded", "Failed", "Pending")
_MOST_DISRUPTED: Final = 2000
_SPENT: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_LATER: Final = 10.0
_SCHEDULED: Final = {"type": "PodScheduled", "status": "True"}
_EVICTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_NONE_ALLOWED: Final = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "InsufficientPods",
    "message": "",
}


def bind(head: Head, key: Key, node: str, uid: str) -> Record:
    """Give a pod its node."""
    pod = decode(found(head, _RULES, key).body)
    if not node:
        raise BadRequestError("the binding names no node")
    if uid and uid != pod["metadata"]["uid"]:
        raise _conflict(
            key,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}",
        )
    _check_unbound(key, pod)
    pod["spec"]["nodeName"] = node
    since = as_text(head.clock())
    _set_condition(pod, _SCHEDULED | {"lastTransitionTime": since})
    return head.put(key, pod)


def _check_unbound(key: Key, pod: Object) -> None:
    node = pod["spec"].get("nodeName")
    if pod["metadata"].get("deletionTimestamp"):
        raise _conflict(key, f"pod {key.name} is being deleted, cannot be assigned to a host")
    if node:
        raise _conflict(key, f'pod {key.name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _conflict(key, f"pod {key.name} has non-empty .spec.schedulingGates")


def _conflict(key: Key, why: str) -> ConflictError:
    return ConflictError(f'Operation cannot be fulfilled on pods/binding "{key.name}": {why}')


# --- eviction ----------------------------------------------------------------------------------------------


def evict(head: Head, key: Key, how: Deletion) -> Record:
    """Delete a pod, if its budget bears it."""
    record = found(head, _RULES, key)
    pod = decode(record.body)
    check_preconditions(_RULES, pod, how)
    phase = pod.get("status", {}).get("phase", "Pending")
    if not pod["metadata"].get("deletionTimestamp") and phase not in _NO_BUDGET_NEEDED:
        _charge_budget(head, pod)
    _set_condition(pod, _EVICTED | {"lastTransitionTime": as_text(head.clock())})
    record = head.put(key, pod)
    return delete(head, _RULES, record, replace(how, version=""))


def _set_condition(thing: Object, condition: Object) -> None:
    conditions = thing.setdefault("status", {}).setdefault("conditions", [])
    for i, other in enumerate(conditions):
        if other.get("type") == condition["type"]:
            conditions[i] = condition
            return
    conditions.append(condition)


def _charge_budget(head: Head, pod: Object) -> None:
    """Count the loss of a pod against its budget; TooManyRequestsError if there is nothing left."""
    budgets = _budgets(head, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = decode(budgets[0].body)
    if _is_free(pod, budget):
        return
    _check_budget(budget)
    _spend(head, budgets[0].key, budget, pod["metadata"]["name"])


def _budgets(head: Head, pod: Object) -> list[Record]:
    labels = pod["metadata"].get("labels") or {}
    if not labels:
        return []
    return [
        record
        for record in head.records(BUDGETS.full_name, pod["metadata"]["namespace"])
        if _covers(record, labels)
    ]


def _covers(record: Record, labels: dict[str, str]) -> bool:
    selector = view_of(PodDisruptionBudget, decode(record.body)).spec.selector
    return selector is not None and selector.matches(labels)


def _is_free(pod: Object, budget: Object) -> bool:
    """Whether a pod that does not serve anyway may go without being counted."""
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    wanted = status.get("desiredHealthy", 0)
    return bool(wanted > 0 and status.get("currentHealthy", 0) >= wanted)


def _check_budget(budget: Object) -> None:
    status, name = budget.get("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise TooManyRequestsError(_SPENT, causes=[FieldError("", why)], retry_after=_LATER)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise ForbiddenError(
            f"{BUDGETS.full_name} {name!r} is forbidden: pdb disruptions allowed is negative"
        )
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        raise ForbiddenError(f"{BUDGETS.full_name} {name!r} is forbidden: DisruptedPods map too big")
    if allowed == 0:
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        why = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise TooManyRequestsError(_SPENT, causes=[FieldError("", why)])


def _spend(head: Head, key: Key, budget: Object, pod: str) -> None:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = (status.get("disruptedPods") or {}) | {pod: as_text(head.clock())}
    if status["disruptionsAllowed"] == 0:
        observed = {"observedGeneration": status.get("observedGeneration", 0)}
        _set_condition(budget, _NONE_ALLOWED | observed | {"lastTransitionTime": as_text(head.clock())})
    head.put(key, budget)
