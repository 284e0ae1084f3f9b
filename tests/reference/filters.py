"""Whether a node can take a task: one function per filter of the specification."""

from typing import Any

from tests.reference.model import PodOnNode, Reservation, Room, Task
from tests.reference.quantities import allocatable, total
from tests.reference.selectors import node_matches, selects, tolerates

Object = dict[str, Any]


def fits(room: Room, node: Object, task: Task) -> bool:
    """All filters, in the world as it is now."""
    return (
        _is_schedulable(node) and _fits_in_principle(room, node, task) and _affinity_holds(room, node, task)
    )


def fits_when_empty(room: Room, node: Object, task: Task) -> bool:
    """For `NeverFits`: readiness and cordons are ignored, and pod affinity may be satisfied later."""
    return _fits_in_principle(room, node, task, ignore_transient=True)


def _fits_in_principle(room: Room, node: Object, task: Task, *, ignore_transient: bool = False) -> bool:
    return (
        _tolerated(node, task, ignore_transient=ignore_transient)
        and node_matches(task.spec, node)
        and _has_room(room, node, task)
        and _ports_free(room, node, task)
        and _anti_affinity_holds(room, node, task)
        and _spread(room, node, task)
    )


def fits_beside_equals(room: Room, node: Object, task: Task) -> bool:
    """Whether a node has room for a task beside the pods on it, which its ports and anti-affinity allow."""
    return (
        _has_room(room, node, task)
        and _ports_free(room, node, task)
        and _anti_affinity_holds(room, node, task)
    )


def is_ready(node: Object) -> bool:
    """Whether the Ready condition is true or absent."""
    conditions = node.get("status", {}).get("conditions") or ()
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


def is_open(node: Object, spec: Object) -> bool:
    """Whether a pod that has a node assigned could be bound to it: ready, not cordoned, taints tolerated."""
    taints = node.get("spec", {}).get("taints") or ()
    return _is_schedulable(node) and all(tolerates(spec, taint) for taint in taints)


def _is_schedulable(node: Object) -> bool:
    """Ready and not cordoned."""
    return is_ready(node) and not node.get("spec", {}).get("unschedulable", False)


def _tolerated(node: Object, task: Task, *, ignore_transient: bool) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    if ignore_transient:
        taints = [taint for taint in taints if not taint["key"].startswith("node.kubernetes.io/")]
    return all(tolerates(task.spec, taint) for taint in taints)


def _has_room(room: Room, node: Object, task: Task) -> bool:
    """Used + reserved + requested ≤ allocatable, for everything the task requests, and for `pods`."""
    name, has = node["metadata"]["name"], allocatable(node)
    kept = room.kept(name)
    taken = total([room.used(name), *(one.requests for one in kept)])
    enough = all(taken.get(r, 0) + amount <= has.get(r, 0) for r, amount in task.requests.items())
    return enough and ("pods" not in has or len(room.on(name)) + len(kept) + 1 <= has["pods"])


def _ports_free(room: Room, node: Object, task: Task) -> bool:
    name = node["metadata"]["name"]
    specs = [*(pod.spec for pod in room.on(name)), *(one.spec for one in room.kept(name))]
    taken = [port for spec in specs for port in host_ports(spec)]
    return not any(_ports_conflict(one, other) for one in host_ports(task.spec) for other in taken)


def host_ports(spec: Object) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])  # noqa: S104
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _ports_conflict(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in {one[0], other[0]})  # noqa: S104


# --- inter-pod affinity and topology spread -----------------------------------------------------------------


def _terms(spec: Object, kind: str) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def anti_affinity_terms(spec: Object) -> list[Object]:
    return _terms(spec, "podAntiAffinity")


def _term_matches(room: Room, term: Object, home: str, other: Task | PodOnNode | Reservation) -> bool:
    """Whether an affinity term of a pod in namespace `home` matches the other pod."""
    named, by_label = term.get("namespaces") or [], term.get("namespaceSelector")
    there = other.namespace in (named or ([home] if by_label is None else []))
    if by_label is not None:
        there = there or selects(by_label, room.namespaces.get(other.namespace, {}))
    return there and selects(term.get("labelSelector"), other.labels)


def _domain(node: Object, key: str) -> str | None:
    return (node["metadata"].get("labels") or {}).get(key)


def _same_domain(room: Room, node: Object, pod: PodOnNode | Reservation, key: str) -> bool:
    """Whether the node and the pod's node are in one topology domain."""
    here = _domain(node, key)
    return here is not None and here == _domain(room.nodes[pod.node], key)


def _anti_affinity_holds(room: Room, node: Object, task: Task) -> bool:
    """Required anti-affinity of the task, of the pods on nodes, and of nominated pods."""
    pods: list[PodOnNode | Reservation] = [*room.pods_on_nodes, *room.reserved]
    for pod in pods:
        for term in _terms(task.spec, "podAntiAffinity"):
            if _same_domain(room, node, pod, term["topologyKey"]) and _term_matches(
                room, term, task.namespace, pod
            ):
                return False
        for term in _terms(pod.spec, "podAntiAffinity"):
            if _same_domain(room, node, pod, term["topologyKey"]) and _term_matches(
                room, term, pod.namespace, task
            ):
                return False
    return True


def _affinity_holds(room: Room, node: Object, task: Task) -> bool:
    """Required affinity; the first pod of a group that matches its own terms may go anywhere."""
    terms = _terms(task.spec, "podAffinity")
    if not terms:
        return True
    if any(_domain(node, term["topologyKey"]) is None for term in terms):
        return False
    matching_pods = [
        pod
        for pod in room.pods_on_nodes
        if all(_term_matches(room, term, task.namespace, pod) for term in terms)
    ]
    if not matching_pods:
        return all(_term_matches(room, term, task.namespace, task) for term in terms)
    return all(
        any(_same_domain(room, node, pod, term["topologyKey"]) for pod in matching_pods) for term in terms
    )


def _spread(room: Room, node: Object, task: Task) -> bool:
    constraints = [
        one
        for one in task.spec.get("topologySpreadConstraints") or ()
        if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    keys = [one["topologyKey"] for one in constraints]
    counted = [
        other
        for other in room.nodes.values()
        if node_matches(task.spec, other) and all(_domain(other, key) is not None for key in keys)
    ]
    return all(_spread_by(room, node, task, one, counted) for one in constraints)


def _spread_by(room: Room, node: Object, task: Task, constraint: Object, counted: list[Object]) -> bool:
    """The domain with one more pod may exceed the emptiest by at most maxSkew."""
    key, selector = constraint["topologyKey"], constraint.get("labelSelector")
    here = _domain(node, key)
    if here is None:
        return False
    matching = dict.fromkeys((_domain(other, key) for other in counted), 0)
    names = {other["metadata"]["name"] for other in counted}
    for pod in room.pods_on_nodes:
        if pod.node in names and _counts(pod, task, selector):
            matching[_domain(room.nodes[pod.node], key)] += 1
    least = min(matching.values(), default=0)
    if len(matching) < constraint.get("minDomains", 1):
        least = 0
    itself = int(selects(selector, task.labels))
    return matching.get(here, 0) + itself - least <= int(constraint["maxSkew"])


def _counts(pod: PodOnNode, task: Task, selector: Object | None) -> bool:
    return pod.namespace == task.namespace and not pod.terminating and selects(selector, pod.labels)
