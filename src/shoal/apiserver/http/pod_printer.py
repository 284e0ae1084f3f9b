"""Printer of pods: ready containers, status and restarts, computed as kubectl does."""

from typing import Any, Final

from shoal.apiserver.http.tables import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    condition_status,
    object_age,
    object_name,
    objects_at,
    value_at,
)
from shoal.cluster.resources import Object
from shoal.cluster.times import format_age, parse_time

_FINISHED_PHASES: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_SCHEDULING_GATED: Final = "SchedulingGated"


def _cells(pod: Object, now: float) -> list[Cell]:
    ready, total = _readiness(pod)
    gates = objects_at(pod, "spec", "readinessGates")
    open_gates = sum(condition_status(pod, str(gate.get("conditionType"))) == "True" for gate in gates)
    addresses = objects_at(pod, "status", "podIPs")
    return [
        object_name(pod),
        f"{ready}/{total}",
        _reason(pod),
        _restarts(pod, now),
        object_age(pod, now),
        (addresses[0].get("ip") if addresses else None) or NONE,
        value_at(pod, "spec", "nodeName") or NONE,
        value_at(pod, "status", "nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


def _conditions(pod: Object) -> list[Object]:
    """Return the row conditions: finished pods are marked as completed."""
    phase = value_at(pod, "status", "phase")
    if phase not in _FINISHED_PHASES:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED_PHASES[phase]}]


# --- containers -------------------------------------------------------------------------------------------


def _sidecars(pod: Object) -> set[str]:
    """Return the names of sidecars: init containers that keep running."""
    return {
        str(container.get("name"))
        for container in objects_at(pod, "spec", "initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _readiness(pod: Object) -> tuple[int, int]:
    sidecars = _sidecars(pod)
    total = len(objects_at(pod, "spec", "containers")) + len(sidecars)
    ready = sum(
        bool(status.get("ready") and status.get("started"))
        for status in _started_init_statuses(pod)
        if status.get("name") in sidecars and not _succeeded(status)
    )
    if _is_initialized(pod):
        ready += sum(
            bool(status.get("ready") and value_at(status, "state", "running") is not None)
            for status in objects_at(pod, "status", "containerStatuses")
        )
    return ready, total


def _started_init_statuses(pod: Object) -> list[Object]:
    """Return the statuses of init containers up to and including the first unfinished one."""
    statuses, sidecars = objects_at(pod, "status", "initContainerStatuses"), _sidecars(pod)
    for number, status in enumerate(statuses):
        if _blocks_init(status, sidecars):
            return statuses[: number + 1]
    return statuses


def _blocks_init(status: Object, sidecars: set[str]) -> bool:
    running_sidecar = status.get("name") in sidecars and status.get("started")
    return not _succeeded(status) and not running_sidecar


def _succeeded(status: Object) -> bool:
    terminated = value_at(status, "state", "terminated")
    return terminated is not None and not terminated.get("exitCode")


def _is_initializing(pod: Object) -> bool:
    return any(
        _blocks_init(status, _sidecars(pod)) for status in objects_at(pod, "status", "initContainerStatuses")
    )


def _is_initialized(pod: Object) -> bool:
    return not _is_initializing(pod) or condition_status(pod, "Initialized") == "True"


# --- restarts ---------------------------------------------------------------------------------------------


def _restarts(pod: Object, now: float) -> str:
    sidecars = _sidecars(pod)
    statuses = _started_init_statuses(pod)
    if _is_initialized(pod):
        statuses = [status for status in statuses if status.get("name") in sidecars]
        statuses += objects_at(pod, "status", "containerStatuses")
    count = sum(status.get("restartCount") or 0 for status in statuses)
    finish_times = [value_at(status, "lastState", "terminated", "finishedAt") for status in statuses]
    last = max((end for end in finish_times if end), key=lambda end: parse_time(end) or 0.0, default=None)
    return f"{count} ({format_age(last, now)} ago)" if count and last else str(count)


# --- reasons ----------------------------------------------------------------------------------------------


def _reason(pod: Object) -> str:
    """Return the text of the status column."""
    status, phase = value_at(pod, "status"), str(value_at(pod, "status", "phase") or "")
    if value_at(pod, "metadata", "deletionTimestamp"):
        if value_at(status, "reason") == "NodeLost":
            return "Unknown"
        if phase not in _FINISHED_PHASES:
            return "Terminating"
    return _container_reason(pod, _pod_reason(pod, phase))


def _pod_reason(pod: Object, phase: str) -> str:
    for entry in objects_at(pod, "status", "conditions"):
        if entry.get("type") == "PodScheduled" and entry.get("reason") == _SCHEDULING_GATED:
            return _SCHEDULING_GATED
    return str(value_at(pod, "status", "reason") or phase)


def _container_reason(pod: Object, reason: str) -> str:
    if _is_initializing(pod):
        reason = _init_reason(pod)
    if not _is_initialized(pod):
        return reason
    running, failed = False, ""
    for status in reversed(objects_at(pod, "status", "containerStatuses")):
        waiting, terminated = (
            value_at(status, "state", "waiting", "reason"),
            value_at(status, "state", "terminated"),
        )
        if waiting:
            reason = str(waiting)
        elif terminated is not None:
            reason = _termination_reason(terminated)
            failed = reason if terminated.get("exitCode") else failed
        elif status.get("ready") and value_at(status, "state", "running") is not None:
            running = True
    return reason if reason != "Completed" else _partly_completed_reason(pod, running=running, failed=failed)


def _partly_completed_reason(pod: Object, *, running: bool, failed: str) -> str:
    """Return the reason if the last examined container has completed, but others may be running."""
    if running and condition_status(pod, "Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def _init_reason(pod: Object) -> str:
    statuses = _started_init_statuses(pod)
    state = value_at(statuses[-1], "state")
    terminated, waiting = value_at(state, "terminated"), value_at(state, "waiting", "reason")
    if terminated is not None:
        return f"Init:{_termination_reason(terminated)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{len(statuses) - 1}/{len(objects_at(pod, 'spec', 'initContainers'))}"


def _termination_reason(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


POD_PRINTER: Final = Printer(
    (
        NAME,
        Column("Ready", description="Ready containers of all."),
        Column("Status", description="Phase or reason."),
        Column("Restarts", description="Restarts of containers, and the time since the last one."),
        AGE,
        Column("IP", wide=True, description="Address of the pod."),
        Column("Node", wide=True, description="Node of the pod."),
        Column(
            "Nominated Node", wide=True, description="Node on which victims are being preempted for the pod."
        ),
        Column("Readiness Gates", wide=True, description="Passed readiness gates of all."),
    ),
    _cells,
    _conditions,
)
