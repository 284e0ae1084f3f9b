"""The status of a pod, as a kubelet writes it: made of what is known of the pod and what was judged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shoal.cluster.node_status import HOST_IP, condition
from shoal.cluster.resources import Object
from shoal.cluster.times import as_text
from shoal.kubelet.lifecycle import ENDED, Next, Seen, Turn, is_sidecar

_COMPLETED: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def status_of(seen: Seen, plan: Next, ip: str) -> Object:
    """All that is said of a pod. Conditions that others wrote stay."""
    spec = seen.pod["spec"]
    status: Object = {
        "phase": plan.phase,
        "reason": plan.reason or None,
        "message": plan.message or None,
        "startTime": as_text(seen.began),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": _conditions(seen, plan),
        "containerStatuses": [_container(seen, plan, one) for one in spec["containers"]],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [_container(seen, plan, one) for one in spec["initContainers"]]
    return status


def container_id(pod: Object, name: str, attempt: int) -> str:
    """What a run of a container is called."""
    return f"shoal://{pod['metadata']['uid']}/{name}/{attempt}"


# --- conditions --------------------------------------------------------------------------------------------


def _conditions(seen: Seen, plan: Next) -> list[Object]:
    """The old ones, with ours in their places; a time changes only with what it is the time of."""
    found = {each["type"]: each for each in seen.pod.get("status", {}).get("conditions") or ()}
    for kind, holds, reason, message in _ours(seen, plan, found):
        since = seen.now
        if found.get(kind, {}).get("status") == str(holds):
            since = 0.0
        made = condition(kind, holds=holds, since=since, reason=reason, message=message)
        if not since:
            made["lastTransitionTime"] = found[kind].get("lastTransitionTime")
        found[kind] = made
    return list(found.values())


def _ours(seen: Seen, plan: Next, found: Mapping[str, Object]) -> Iterator[tuple[str, bool, str, str]]:
    over = _COMPLETED.get(plan.phase, "")
    yield "Initialized", plan.initialized, *_why(plan.initialized, over, "ContainersNotInitialized", "")
    unready = [] if over else list(_unready(seen))
    ready = not over and not unready
    message = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
    yield "ContainersReady", ready, *_why(ready, over, "ContainersNotReady", message)
    gates = [gate["conditionType"] for gate in seen.pod["spec"].get("readinessGates", ())]
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


def _unready(seen: Seen) -> Iterator[str]:
    spec = seen.pod["spec"]
    sidecars = [one for one in spec.get("initContainers", ()) if is_sidecar(one)]
    for container in (*sidecars, *spec["containers"]):
        if not seen.well(container["name"]).ready:
            yield container["name"]


# --- containers --------------------------------------------------------------------------------------------


def _container(seen: Seen, plan: Next, container: Object) -> Object:
    name = container["name"]
    turns = seen.turns.get(name, ())
    last = turns[-1] if turns else None
    status: Object = {
        "name": name,
        "image": container.get("image", ""),
        "imageID": "",
        "ready": _is_ready(seen, container),
        "started": seen.well(name).started,
        "restartCount": last.attempt if last else 0,
        "state": _state(seen, plan, name),
    }
    if last is not None:
        status["containerID"] = container_id(seen.pod, name, last.attempt)
    before = _before(turns, waits=name in plan.waiting)
    return status | ({"lastState": _terminated(seen.pod, name, before)} if before else {})


def _is_ready(seen: Seen, container: Object) -> bool:
    """Who runs and is well; or who is to have ended, and did so well."""
    last = seen.last(container["name"])
    initial = container in seen.pod["spec"].get("initContainers", ())
    if initial and not is_sidecar(container):
        return bool(last and last.exit and last.exit.code == 0)
    return seen.well(container["name"]).ready


def _state(seen: Seen, plan: Next, name: str) -> Object:
    last = seen.last(name)
    if name in plan.waiting:
        reason, message = plan.waiting[name]
        return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
    if last is None and plan.phase not in ENDED:
        return {"waiting": {"reason": "ContainerCreating"}}
    if last is None:
        return {"waiting": {"reason": "PodInitializing"}}
    if last.exit is not None:
        return _terminated(seen.pod, name, last)
    return {"running": {"startedAt": as_text(last.started or seen.now)}}


def _before(turns: Sequence[Turn], *, waits: bool) -> Turn | None:
    """The last turn that ended and is not what the state itself tells of."""
    ended = [turn for turn in turns if turn.exit is not None]
    if ended and ended[-1] is turns[-1] and not waits:
        ended.pop()
    return ended[-1] if ended else None


def _terminated(pod: Object, name: str, turn: Turn) -> Object:
    if turn.exit is None:
        raise ValueError("it has not ended")
    ended: Object = {
        "exitCode": turn.exit.code,
        "reason": turn.exit.reason,
        "startedAt": as_text(turn.started or turn.exit.finished),
        "finishedAt": as_text(turn.exit.finished),
        "containerID": container_id(pod, name, turn.attempt),
    }
    if turn.exit.signal:
        ended["signal"] = turn.exit.signal
    return {"terminated": ended | ({"message": turn.exit.message} if turn.exit.message else {})}
