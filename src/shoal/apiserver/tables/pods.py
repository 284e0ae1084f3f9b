"""Pods: how many containers are ready, and in one word what is going on."""

from typing import Any, Final

from shoal.apiserver.tables.printing import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    age_of,
    condition,
    entries,
    name_of,
    part,
)
from shoal.cluster.resources import Object
from shoal.cluster.times import seconds_of, since

_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_SCHEDULING_GATED: Final = "SchedulingGated"


def _cells(pod: Object, now: float) -> list[Cell]:
    ready, total = _readiness(pod)
    gates = entries(pod, "spec", "readinessGates")
    open_gates = sum(condition(pod, str(gate.get("conditionType"))) == "True" for gate in gates)
    addresses = entries(pod, "status", "podIPs")
    return [
        name_of(pod),
        f"{ready}/{total}",
        _reason(pod),
        _restarts(pod, now),
        age_of(pod, now),
        (addresses[0].get("ip") if addresses else None) or NONE,
        part(pod, "spec", "nodeName") or NONE,
        part(pod, "status", "nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


def _conditions(pod: Object) -> list[Object]:
    """A pod that has ended is shown in another way."""
    phase = part(pod, "status", "phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


# --- containers -------------------------------------------------------------------------------------------


def _sidecars(pod: Object) -> set[str]:
    """Init containers that go on beside the others."""
    return {
        str(container.get("name"))
        for container in entries(pod, "spec", "initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _readiness(pod: Object) -> tuple[int, int]:
    sidecars = _sidecars(pod)
    total = len(entries(pod, "spec", "containers")) + len(sidecars)
    ready = sum(
        bool(status.get("ready") and status.get("started"))
        for status in _begun_init(pod)
        if status.get("name") in sidecars and not _exited_well(status)
    )
    if _past_init(pod):
        ready += sum(
            bool(status.get("ready") and part(status, "state", "running") is not None)
            for status in entries(pod, "status", "containerStatuses")
        )
    return ready, total


def _begun_init(pod: Object) -> list[Object]:
    """The init containers up to and with the first that keeps the pod waiting."""
    statuses, sidecars = entries(pod, "status", "initContainerStatuses"), _sidecars(pod)
    for number, status in enumerate(statuses):
        if _holds_up(status, sidecars):
            return statuses[: number + 1]
    return statuses


def _holds_up(status: Object, sidecars: set[str]) -> bool:
    going_on = status.get("name") in sidecars and status.get("started")
    return not _exited_well(status) and not going_on


def _exited_well(status: Object) -> bool:
    ended = part(status, "state", "terminated")
    return ended is not None and not ended.get("exitCode")


def _held_up(pod: Object) -> bool:
    return any(
        _holds_up(status, _sidecars(pod)) for status in entries(pod, "status", "initContainerStatuses")
    )


def _past_init(pod: Object) -> bool:
    return not _held_up(pod) or condition(pod, "Initialized") == "True"


# --- restarts ---------------------------------------------------------------------------------------------


def _restarts(pod: Object, now: float) -> str:
    sidecars = _sidecars(pod)
    counted = _begun_init(pod)
    if _past_init(pod):
        counted = [status for status in counted if status.get("name") in sidecars]
        counted += entries(pod, "status", "containerStatuses")
    count = sum(status.get("restartCount") or 0 for status in counted)
    ends = [part(status, "lastState", "terminated", "finishedAt") for status in counted]
    last = max((end for end in ends if end), key=lambda end: seconds_of(end) or 0.0, default=None)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


# --- reasons ----------------------------------------------------------------------------------------------


def _reason(pod: Object) -> str:
    """What a person should know first."""
    status, phase = part(pod, "status"), str(part(pod, "status", "phase") or "")
    if part(pod, "metadata", "deletionTimestamp"):
        if part(status, "reason") == "NodeLost":
            return "Unknown"
        if phase not in _ENDED:
            return "Terminating"
    return _reason_of_containers(pod, _reason_of_pod(pod, phase))


def _reason_of_pod(pod: Object, phase: str) -> str:
    for entry in entries(pod, "status", "conditions"):
        if entry.get("type") == "PodScheduled" and entry.get("reason") == _SCHEDULING_GATED:
            return _SCHEDULING_GATED
    return str(part(pod, "status", "reason") or phase)


def _reason_of_containers(pod: Object, reason: str) -> str:
    if _held_up(pod):
        reason = _reason_of_init(pod)
    if not _past_init(pod):
        return reason
    running, failed = False, ""
    for status in reversed(entries(pod, "status", "containerStatuses")):
        waiting, ended = part(status, "state", "waiting", "reason"), part(status, "state", "terminated")
        if waiting:
            reason = str(waiting)
        elif ended is not None:
            reason = _reason_of_end(ended)
            failed = reason if ended.get("exitCode") else failed
        elif status.get("ready") and part(status, "state", "running") is not None:
            running = True
    return reason if reason != "Completed" else _after_some_completed(pod, running=running, failed=failed)


def _after_some_completed(pod: Object, *, running: bool, failed: str) -> str:
    """A pod one of whose containers has completed, and the others may not have."""
    if running and condition(pod, "Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def _reason_of_init(pod: Object) -> str:
    statuses = _begun_init(pod)
    state = part(statuses[-1], "state")
    ended, waiting = part(state, "terminated"), part(state, "waiting", "reason")
    if ended is not None:
        return f"Init:{_reason_of_end(ended)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{len(statuses) - 1}/{len(entries(pod, 'spec', 'initContainers'))}"


def _reason_of_end(ended: dict[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


PRINTER: Final = Printer(
    (
        NAME,
        Column("Ready", about="How many of the containers are ready."),
        Column("Status", about="What is going on."),
        Column("Restarts", about="How often containers were started again, and when last."),
        AGE,
        Column("IP", wide=True, about="The address of the pod."),
        Column("Node", wide=True, about="The node that the pod is on."),
        Column("Nominated Node", wide=True, about="The node that room is being made on."),
        Column("Readiness Gates", wide=True, about="How many of the readiness gates are passed."),
    ),
    _cells,
    _conditions,
)
