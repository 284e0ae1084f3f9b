"""The status of a pod, as a kubelet writes it: made of what is known of the pod and what was judged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shoal.cluster.node_status import HOST_IP, make_condition
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.kubelet.lifecycle import TERMINAL_PHASES, ContainerRun, PodDecision, PodObservation, is_sidecar

_COMPLETED: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def build_pod_status(observation: PodObservation, decision: PodDecision, ip: str) -> Object:
    """All that is said of a pod. Conditions that others wrote stay."""
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
        "containerStatuses": [_container(observation, decision, one) for one in spec["containers"]],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(observation, decision, one) for one in spec["initContainers"]
        ]
    return status


def container_id(pod: Object, name: str, attempt: int) -> str:
    """What a run of a container is called."""
    return f"shoal://{pod['metadata']['uid']}/{name}/{attempt}"


# --- conditions --------------------------------------------------------------------------------------------


def _conditions(observation: PodObservation, decision: PodDecision) -> list[Object]:
    """The old ones, with ours in their places; a time changes only with what it is the time of."""
    found = {each["type"]: each for each in observation.pod.get("status", {}).get("conditions") or ()}
    for kind, holds, reason, message in _ours(observation, decision, found):
        since = observation.now
        if found.get(kind, {}).get("status") == str(holds):
            since = 0.0
        made = make_condition(kind, holds=holds, since=since, reason=reason, message=message)
        if not since:
            made["lastTransitionTime"] = found[kind].get("lastTransitionTime")
        found[kind] = made
    return list(found.values())


def _ours(
    observation: PodObservation, decision: PodDecision, found: Mapping[str, Object]
) -> Iterator[tuple[str, bool, str, str]]:
    over = _COMPLETED.get(decision.phase, "")
    yield (
        "Initialized",
        decision.initialized,
        *_why(decision.initialized, over, "ContainersNotInitialized", ""),
    )
    unready = [] if over else list(_unready(observation))
    ready = not over and not unready
    message = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
    yield "ContainersReady", ready, *_why(ready, over, "ContainersNotReady", message)
    gates = [gate["conditionType"] for gate in observation.pod["spec"].get("readinessGates", ())]
    shut = [gate for gate in gates if found.get(gate, {}).get("status") != "True"]
    if ready and shut:
        missing = ", ".join(
            f'corresponding condition of pod readiness gate "{gate}" is not True' for gate in shut
        )
        yield "Ready", False, "ReadinessGatesNotReady", missing
    else:
        yield "Ready", ready, *_why(ready, over, "ContainersNotReady", message)


def _why(holds: bool, over: str, otherwise: str, message: str) -> tuple[str, str]:  # noqa: FBT001 - one fact of many
    """The reason of a condition, and what it says: nothing where all is well."""
    return (over, "") if holds or over else (otherwise, message)


def _unready(observation: PodObservation) -> Iterator[str]:
    spec = observation.pod["spec"]
    sidecars = [one for one in spec.get("initContainers", ()) if is_sidecar(one)]
    for container in (*sidecars, *spec["containers"]):
        if not observation.health_of(container["name"]).ready:
            yield container["name"]


# --- containers --------------------------------------------------------------------------------------------


def _container(observation: PodObservation, decision: PodDecision, container: Object) -> Object:
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
    before = _before(runs, waits=name in decision.waiting)
    return status | ({"lastState": _terminated(observation.pod, name, before)} if before else {})


def _is_ready(observation: PodObservation, container: Object) -> bool:
    """Who runs and is well; or who is to have ended, and did so well."""
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
    if last is None and decision.phase not in TERMINAL_PHASES:
        return {"waiting": {"reason": "ContainerCreating"}}
    if last is None:
        return {"waiting": {"reason": "PodInitializing"}}
    if last.exit is not None:
        return _terminated(observation.pod, name, last)
    return {"running": {"startedAt": format_time(last.started or observation.now)}}


def _before(runs: Sequence[ContainerRun], *, waits: bool) -> ContainerRun | None:
    """The last turn that ended and is not what the state itself tells of."""
    ended = [run for run in runs if run.exit is not None]
    if ended and ended[-1] is runs[-1] and not waits:
        ended.pop()
    return ended[-1] if ended else None


def _terminated(pod: Object, name: str, run: ContainerRun) -> Object:
    if run.exit is None:
        raise ValueError("it has not ended")
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
