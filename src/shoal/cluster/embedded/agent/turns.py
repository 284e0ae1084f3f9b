"""What a pod's containers have done so far: from the runtime, and from the status where that has lost it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from shoal.cluster.embedded.agent.life import Turn
from shoal.cluster.embedded.runtime import Exit
from shoal.cluster.resources import Object

_KILLED: Final = 137


def turns_of(pod: Object, runs: Mapping[str, Sequence[Turn]], now: float) -> dict[str, Sequence[Turn]]:
    """The turns of every container. What was said to have begun has begun, though no trace of it be left."""
    status = pod.get("status", {})
    told = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    lost = {
        one["name"]: (_lost(one, now),)
        for one in told
        if one.get("containerID") and not runs.get(one["name"])
    }
    return {**runs, **lost}


def _lost(status: Object, now: float) -> Turn:
    """The turn of a container that is only known from what was said of it."""
    said = status["state"].get("terminated") or status.get("lastState", {}).get("terminated") or {}
    exit_ = Exit(
        code=said.get("exitCode", _KILLED),
        signal=said.get("signal"),
        started=None,
        finished=_moment(said["finishedAt"]) if said.get("finishedAt") else now,
        reason=said.get("reason", "Lost"),
        message=said.get("message", "The container could not be located: its directory is gone"),
    )
    started = said.get("startedAt")
    return Turn(status.get("restartCount", 0), _moment(started) if started else None, exit_)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
