"""The status of pods, as the simulated kubelet writes it."""

from datetime import datetime
from typing import Any, Final

from shoal.api.conditions import FINISHED_PHASES, set_condition
from shoal.cluster.node_status import HOST_IP
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.simulator.kubelet.scripts import PodState

CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def parse_time(text: str) -> float:
    """Return a time of an object in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def pod_status(pod: Object, state: PodState, ip: str, started: float, now: float) -> Object:
    """Return the status of a pod; conditions of other writers are kept."""
    status: Object = {
        "phase": state.phase,
        "startTime": format_time(started),
        "hostIP": HOST_IP,
        "conditions": _conditions(pod, state, now),
        "containerStatuses": [_container(each, state, started, now) for each in pod["spec"]["containers"]],
    }
    if state.phase == "Running" or state.phase in FINISHED_PHASES:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status


def _conditions(pod: Object, state: PodState, now: float) -> list[Object]:
    conditions: list[Object] = pod.get("status", {}).get("conditions") or []
    for kind, holds in (("Initialized", True), ("Ready", state.ready), ("ContainersReady", state.ready)):
        new = {"type": kind, "status": str(holds)}
        conditions = set_condition(conditions, new, format_time(now)) or conditions
    return conditions


def _container(container: Object, state: PodState, started: float, now: float) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": state.ready,
        "started": state.phase == "Running" and state.exit_code is None,
        "restartCount": state.restarts,
        "state": _container_state(state, started, now),
    }


def _container_state(state: PodState, started: float, now: float) -> dict[str, Any]:
    if state.phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    if state.phase == "Running" and state.exit_code is not None:
        return {"waiting": {"reason": "CrashLoopBackOff"}}
    if state.phase == "Running":
        return {"running": {"startedAt": format_time(started)}}
    code = state.exit_code or 0
    times = {"startedAt": format_time(started), "finishedAt": format_time(now)}
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}
