"""Builds the status of a pod, as a kubelet writes it, from its observed state and the decision."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shoal.api.conditions import FINISHED_PHASES, set_condition
from shoal.cluster.node_status import HOST_IP, make_condition
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.kubelet.lifecycle import ContainerRun, PodDecision, PodObservation, is_sidecar

_COMPLETED: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def build_pod_status(observation: PodObservation, decision: PodDecision, ip: str) -> Object:
    """The complete status of a pod. Conditions of other writers are kept."""
    spec = observation.pod["spec"]
    status: Object = {
        "phase": decision.phase,
        "reason": decision.reason or None,
        "message": decision.message or None,
        "startTime": format_time(observation.start_time),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": _conditions(observation, decision),
        "containerStatuses": [_container_status(observation, decision, one) for one in spec["containers"]],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container_status(observation, decision, one) for one in spec["initContainers"]
        ]
    return status


def container_id(pod: Object, name: str, attempt: int) -> str:
    """The id of a run of a container."""
    return f"shoal://{pod['metadata']['uid']}/{name}/{attempt}"


# --- conditions --------------------------------------------------------------------------------------------


def _conditions(observation: PodObservation, decision: PodDecision) -> list[Object]:
    """The conditions with the kubelet's replaced; a transition time changes only with the status."""
    conditions: list[Object] = list(observation.pod.get("status", {}).get("conditions") or ())
    by_type = {each["type"]: each for each in conditions}
    for kind, holds, reason, message in _kubelet_conditions(observation, decision, by_type):
        new = make_condition(kind, holds=holds, reason=reason, message=message)
        conditions = set_condition(conditions, new, format_time(observation.now)) or conditions
        by_type[kind] = new
    return conditions


def _kubelet_conditions(
    observation: PodObservation, decision: PodDecision, conditions: Mapping[str, Object]
) -> Iterator[tuple[str, bool, str, str]]:
    completed = _COMPLETED.get(decision.phase, "")
    yield (
        "Initialized",
        decision.initialized,
        *_reason_and_message(decision.initialized, completed, "ContainersNotInitialized", ""),
    )
    unready = [] if completed else list(_unready_containers(observation))
    ready = not completed and not unready
    message = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
    yield "ContainersReady", ready, *_reason_and_message(ready, completed, "ContainersNotReady", message)
    gates = [gate["conditionType"] for gate in observation.pod["spec"].get("readinessGates", ())]
    not_true = [gate for gate in gates if conditions.get(gate, {}).get("status") != "True"]
    if ready and not_true:
        missing = ", ".join(
            f'corresponding condition of pod readiness gate "{gate}" is not True' for gate in not_true
        )
        yield "Ready", False, "ReadinessGatesNotReady", missing
    else:
        yield "Ready", ready, *_reason_and_message(ready, completed, "ContainersNotReady", message)


def _reason_and_message(holds: bool, completed: str, otherwise: str, message: str) -> tuple[str, str]:  # noqa: FBT001 - the status of the condition
    """Reason and message of a condition; both empty if it holds."""
    return (completed, "") if holds or completed else (otherwise, message)


def _unready_containers(observation: PodObservation) -> Iterator[str]:
    spec = observation.pod["spec"]
    sidecars = [one for one in spec.get("initContainers", ()) if is_sidecar(one)]
    for container in (*sidecars, *spec["containers"]):
        if not observation.health_of(container["name"]).ready:
            yield container["name"]


# --- containers --------------------------------------------------------------------------------------------


def _container_status(observation: PodObservation, decision: PodDecision, container: Object) -> Object:
    name = container["name"]
    runs = observation.runs.get(name, ())
    last = runs[-1] if runs else None
    status: Object = {
        "name": name,
        "image": container.get("image", ""),
        "imageID": "",
        "ready": _is_ready(observation, container),
        "started": observation.health_of(name).started,
        "restartCount": last.attempt if last else 0,
        "state": _state(observation, decision, name),
    }
    if last is not None:
        status["containerID"] = container_id(observation.pod, name, last.attempt)
    previous = _last_terminated(runs, is_waiting=name in decision.waiting)
    return status | ({"lastState": _terminated(observation.pod, name, previous)} if previous else {})


def _is_ready(observation: PodObservation, container: Object) -> bool:
    """Whether a container is running and ready; an init container is ready when it has succeeded."""
    last = observation.last(container["name"])
    initial = container in observation.pod["spec"].get("initContainers", ())
    if initial and not is_sidecar(container):
        return bool(last and last.exit and last.exit.code == 0)
    return observation.health_of(container["name"]).ready


def _state(observation: PodObservation, decision: PodDecision, name: str) -> Object:
    last = observation.last(name)
    if name in decision.waiting:
        reason, message = decision.waiting[name]
        return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
    if last is None and decision.phase not in FINISHED_PHASES:
        return {"waiting": {"reason": "ContainerCreating"}}
    if last is None:
        return {"waiting": {"reason": "PodInitializing"}}
    if last.exit is not None:
        return _terminated(observation.pod, name, last)
    return {"running": {"startedAt": format_time(last.started or observation.now)}}


def _last_terminated(runs: Sequence[ContainerRun], *, is_waiting: bool) -> ContainerRun | None:
    """The last ended run that `state` does not already describe."""
    ended = [run for run in runs if run.exit is not None]
    if ended and ended[-1] is runs[-1] and not is_waiting:
        ended.pop()
    return ended[-1] if ended else None


def _terminated(pod: Object, name: str, run: ContainerRun) -> Object:
    if run.exit is None:
        raise ValueError(f"run {run.attempt} of container {name} has not ended")
    ended: Object = {
        "exitCode": run.exit.code,
        "reason": run.exit.reason,
        "startedAt": format_time(run.started or run.exit.finished),
        "finishedAt": format_time(run.exit.finished),
        "containerID": container_id(pod, name, run.attempt),
    }
    if run.exit.signal:
        ended["signal"] = run.exit.signal
    return {"terminated": ended | ({"message": run.exit.message} if run.exit.message else {})}
