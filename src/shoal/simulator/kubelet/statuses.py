"""What a kubelet writes about its pods."""

from datetime import datetime
from typing import Any, Final

from shoal.cluster.node_status import HOST_IP, condition
from shoal.cluster.resources import Object
from shoal.cluster.times import as_text
from shoal.simulator.kubelet.lives import Moment

CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_ENDED: Final = ("Succeeded", "Failed")


def read(text: str) -> float:
    """The time that Kubernetes wrote."""
    return datetime.fromisoformat(text).timestamp()


def pod_status(pod: Object, moment: Moment, ip: str, started: float, now: float) -> Object:
    """The status of a pod at a moment of its life; conditions that others wrote stay."""
    runs = moment.phase == "Running"
    status: Object = {
        "phase": moment.phase,
        "startTime": as_text(started),
        "hostIP": HOST_IP,
        "conditions": _conditions(pod, moment, now),
        "containerStatuses": [_container(each, moment, started, now) for each in pod["spec"]["containers"]],
    }
    if runs or moment.phase in _ENDED:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status


def _conditions(pod: Object, moment: Moment, now: float) -> list[Object]:
    """The old ones, with ours in their places; a time changes only with what it is the time of."""
    ours = {
        "Initialized": True,
        "Ready": moment.ready,
        "ContainersReady": moment.ready,
    }
    found = {each["type"]: each for each in pod.get("status", {}).get("conditions") or ()}
    for kind, holds in ours.items():
        if found.get(kind, {}).get("status") != str(holds):
            found[kind] = condition(kind, holds=holds, since=now)
    return list(found.values())


def _container(container: Object, moment: Moment, started: float, now: float) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": moment.ready,
        "started": moment.phase == "Running" and moment.exit_code is None,
        "restartCount": moment.restarts,
        "state": _state(moment, started, now),
    }


def _state(moment: Moment, started: float, now: float) -> dict[str, Any]:
    if moment.phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    if moment.phase == "Running" and moment.exit_code is not None:
        return {"waiting": {"reason": "CrashLoopBackOff"}}
    if moment.phase == "Running":
        return {"running": {"startedAt": as_text(started)}}
    code = moment.exit_code or 0
    times = {"startedAt": as_text(started), "finishedAt": as_text(now)}
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}
