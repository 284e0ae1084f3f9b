"""Subresources of pods: a binding sets the node, an eviction deletes the pod if its budget allows.

The messages of refusals are those of a Kubernetes API server.
"""

from typing import Final

import msgspec

from shoal.api.conditions import set_condition
from shoal.api.core import PodDisruptionBudget
from shoal.api.decode import decode as decode_view
from shoal.api.fields import FieldError
from shoal.apiserver.registry.deletion import check_preconditions, delete
from shoal.apiserver.registry.pending import PendingState
from shoal.apiserver.registry.records import Key, Record, decode
from shoal.apiserver.registry.write import get_record
from shoal.apiserver.strategies.strategy import timestamp
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InternalError,
    TooManyRequestsError,
)
from shoal.cluster.port import Deletion
from shoal.cluster.resources import BUDGETS, PODS, Object

_POD_STRATEGY: Final = strategies()[PODS.full_name]
_PHASES_WITHOUT_BUDGET: Final = ("Succeeded", "Failed", "Pending")
_MAX_DISRUPTED_PODS: Final = 2000
_BUDGET_EXHAUSTED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS: Final = 10.0
_SCHEDULED_CONDITION: Final = {"type": "PodScheduled", "status": "True"}
_EVICTED_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_NO_DISRUPTIONS_CONDITION: Final = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "InsufficientPods",
    "message": "",
}


def bind(pending: PendingState, key: Key, node: str, uid: str) -> Record:
    """Bind a pod to a node, set its PodScheduled condition, and clear its nomination."""
    pod = decode(get_record(pending, _POD_STRATEGY, key).body)
    if not node:
        raise BadRequestError("the binding has no target node")
    if uid and uid != pod["metadata"]["uid"]:
        raise _conflict(
            key,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}",
        )
    _check_unbound(key, pod)
    pod["spec"]["nodeName"] = node
    pod.get("status", {}).pop("nominatedNodeName", None)
    _set_condition(pending, pod, _SCHEDULED_CONDITION)
    return pending.put(key, pod)


def _check_unbound(key: Key, pod: Object) -> None:
    node = pod["spec"].get("nodeName")
    if pod["metadata"].get("deletionTimestamp"):
        raise _conflict(key, f"pod {key.name} is being deleted, cannot be assigned to a host")
    if node:
        raise _conflict(key, f'pod {key.name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _conflict(key, f"pod {key.name} has non-empty .spec.schedulingGates")


def _conflict(key: Key, reason: str) -> ConflictError:
    return ConflictError(f'Operation cannot be fulfilled on pods/binding "{key.name}": {reason}')


def evict(pending: PendingState, key: Key, deletion: Deletion) -> Record:
    """Delete a pod if its disruption budget allows."""
    record = get_record(pending, _POD_STRATEGY, key)
    pod = decode(record.body)
    check_preconditions(_POD_STRATEGY, pod, deletion)
    phase = pod.get("status", {}).get("phase", "Pending")
    if not pod["metadata"].get("deletionTimestamp") and phase not in _PHASES_WITHOUT_BUDGET:
        _charge_budget(pending, pod)
    _set_condition(pending, pod, _EVICTED_CONDITION)
    record = pending.put(key, pod)
    return delete(pending, _POD_STRATEGY, record, msgspec.structs.replace(deletion, version=""))


def _set_condition(pending: PendingState, obj: Object, condition: Object) -> None:
    status = obj.setdefault("status", {})
    conditions = status.get("conditions") or []
    status["conditions"] = set_condition(conditions, condition, timestamp(pending.clock())) or conditions


def _charge_budget(pending: PendingState, pod: Object) -> None:
    """Count the eviction against the pod's budget; TooManyRequestsError if it allows no disruption."""
    budgets = _budgets_of(pending, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = decode(budgets[0].body)
    if _needs_no_disruption(pod, budget):
        return
    _check_disruption_allowed(budget)
    _record_disruption(pending, budgets[0].key, budget, pod["metadata"]["name"])


def _budgets_of(pending: PendingState, pod: Object) -> list[Record]:
    labels = pod["metadata"].get("labels") or {}
    if not labels:
        return []
    return [
        record
        for record in pending.records(BUDGETS.full_name, pod["metadata"]["namespace"])
        if _selects(record, labels)
    ]


def _selects(record: Record, labels: dict[str, str]) -> bool:
    selector = decode_view(PodDisruptionBudget, decode(record.body)).spec.selector
    return selector is not None and selector.matches(labels)


def _needs_no_disruption(pod: Object, budget: Object) -> bool:
    """Whether an unhealthy pod may be evicted without counting against the budget."""
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    wanted = status.get("desiredHealthy", 0)
    return bool(wanted > 0 and status.get("currentHealthy", 0) >= wanted)


def _check_disruption_allowed(budget: Object) -> None:
    status, name = budget.get("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        reason = f"The disruption budget {name} is still being processed by the server."
        raise TooManyRequestsError(
            _BUDGET_EXHAUSTED, causes=[FieldError("", reason)], retry_after=_RETRY_SECONDS
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise ForbiddenError(
            f"{BUDGETS.full_name} {name!r} is forbidden: pdb disruptions allowed is negative"
        )
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS:
        raise ForbiddenError(f"{BUDGETS.full_name} {name!r} is forbidden: DisruptedPods map too big")
    if allowed == 0:
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        reason = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise TooManyRequestsError(_BUDGET_EXHAUSTED, causes=[FieldError("", reason)])


def _record_disruption(pending: PendingState, key: Key, budget: Object, pod: str) -> None:
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = (status.get("disruptedPods") or {}) | {pod: timestamp(pending.clock())}
    if status["disruptionsAllowed"] == 0:
        observed = {"observedGeneration": status.get("observedGeneration", 0)}
        _set_condition(pending, budget, _NO_DISRUPTIONS_CONDITION | observed)
    pending.put(key, budget)
