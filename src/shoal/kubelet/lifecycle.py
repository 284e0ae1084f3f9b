"""What is to become of a pod, judged by what is known of it: a pure function.

`judge` is given the pod, the turns that its containers have had, and how those that run are. It says which
containers are to be started now, which are to be stopped, how the pod stands, and when to look again. Turns
come from the runtime's directories: what has ended there has ended, whoever asks, and however often.

What a pod's containers have done so far: from the runtime, and from the status where that has lost it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from shoal.cluster.resources import Object
from shoal.kubelet.runtime import Exit

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

DEADLINE: Final = "DeadlineExceeded"
ENDED: Final = ("Succeeded", "Failed")
REMEMBERED: Final = 8
"""Turns of a container that are kept: so many tell the whole back-off, which has reached its most by then."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long a container that ends over and over waits; seconds.

    It is started again at once the first time, then after `first`, then after twice as long each time, `most`
    at most. One that ran for longer than `calm` begins anew.
    """

    first: float = 10.0
    most: float = 300.0
    calm: float = 600.0
    retry: float = 2.0
    """After which what could not even be tried is tried again."""


class Turn(msgspec.Struct, frozen=True):
    """One run of a container."""

    attempt: int
    started: float | None = None
    exit: Exit | None = None


class Health(msgspec.Struct, frozen=True):
    """What probes say of a container that runs; what nobody asks about is well."""

    started: bool = True
    ready: bool = True
    ailing: str = ""
    """Why it must be stopped."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why a container could not be started, and when it is tried again."""

    reason: str
    message: str
    until: float


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a pod."""

    pod: Object
    now: float
    turns: Mapping[str, Sequence[Turn]] = {}
    health: Mapping[str, Health] = {}
    obstacles: Mapping[str, Obstacle] = {}
    pace: Pace = Pace()

    def last(self, name: str) -> Turn | None:
        """The newest turn of a container."""
        turns = self.turns.get(name)
        return turns[-1] if turns else None

    def runs(self, name: str) -> bool:
        last = self.last(name)
        return last is not None and last.exit is None

    def well(self, name: str) -> Health:
        """How a container is."""
        last = self.last(name)
        if last is None or last.exit is not None or last.started is None:
            return Health(started=False, ready=False)
        return self.health.get(name, Health())

    @property
    def living(self) -> list[str]:
        """Containers that run."""
        return [name for name in self.turns if self.runs(name)]

    @property
    def began(self) -> float:
        """Since when the pod is its node's."""
        said = self.pod.get("status", {}).get("startTime")
        first = [turns[0].started for turns in self.turns.values() if turns and turns[0].started]
        return datetime.fromisoformat(said).timestamp() if said else min((*first, self.now))


class Next(msgspec.Struct, kw_only=True):
    """What is to be done about a pod, and how it stands."""

    phase: Phase
    reason: str = ""
    message: str = ""
    initialized: bool = False
    start: list[str] = []
    stop: dict[str, str] = {}
    """Containers to be stopped, and why."""
    waiting: dict[str, tuple[str, str]] = {}
    """Why containers do not run that are to: reason and message."""
    again: float = math.inf
    """When to look again although nothing happened."""

    def wait(self, name: str, reason: str, message: str = "", until: float = math.inf) -> None:
        self.waiting[name] = reason, message
        self.again = min(self.again, until)


def judge(seen: Seen) -> Next:
    """What is to become of a pod."""
    status = seen.pod.get("status", {})
    if status.get("phase") in ENDED:
        over = Next(phase=status["phase"], reason=status.get("reason", ""), message=status.get("message", ""))
        return _stopped(seen, over, "the pod has ended")
    if "deletionTimestamp" in seen.pod["metadata"]:
        return _stopped(seen, Next(phase=_while_ending(seen)), "the pod was deleted")
    plan = _advance(seen)
    deadline = _deadline(seen)
    if _overdue(seen, plan, deadline):
        return _past_deadline(seen)
    if plan.phase not in ENDED:
        plan.again = min(plan.again, deadline)
    return plan


def back_off(turns: Sequence[Turn], pace: Pace) -> float:
    """How many seconds after its end a container waits that has had these turns."""
    wait = 0.0
    for turn in turns:
        if turn.exit is None:
            continue
        lasted = turn.exit.finished - (turn.started or turn.exit.finished)
        wait = (
            0.0 if lasted > pace.calm else min(max(wait * 2, pace.first if turn.attempt else 0.0), pace.most)
        )
    return wait


# --- a pod that goes on ------------------------------------------------------------------------------------


def _advance(seen: Seen) -> Next:
    """Init containers in their order, then all others side by side."""
    plan, mains = Next(phase="Pending"), list(_mains(seen))
    if over := _over(seen):
        plan.phase, plan.initialized = over, True
        return _without_sidecars(seen, plan)
    _stop_the_ailing(seen, plan)
    begun = any(seen.turns.get(name) for name in mains)
    for container in seen.pod["spec"].get("initContainers", ()):
        if not _initialize(seen, container, plan) and not begun:
            return _uninitialized(seen, plan)
    plan.initialized = True
    for name in mains:
        _keep(seen, name, _policy(seen), plan)
    if all(seen.turns.get(name) for name in mains):
        plan.phase = "Running"
    return plan


def _over(seen: Seen) -> Phase | None:
    """How a pod has ended whose containers have all ended for good."""
    lasts = [seen.last(name) for name in _mains(seen)]
    exits = [last.exit for last in lasts if last is not None and last.exit is not None]
    if len(exits) < len(lasts) or any(_starts_again(ended, _policy(seen)) for ended in exits):
        return None
    return "Failed" if any(ended.code != 0 for ended in exits) else "Succeeded"


def _stop_the_ailing(seen: Seen, plan: Next) -> None:
    for name in seen.living:
        if ailing := seen.well(name).ailing:
            plan.stop[name] = ailing


def _initialize(seen: Seen, container: Object, plan: Next) -> bool:
    """Bring one init container on; whether the next may begin."""
    name, last = container["name"], seen.last(container["name"])
    if is_sidecar(container):
        _keep(seen, name, "Always", plan)
        return seen.well(name).started
    if last is not None and last.exit is not None and last.exit.code == 0:
        return True
    _keep(seen, name, "Never" if _policy(seen) == "Never" else "OnFailure", plan)
    return False


def _policy(seen: Seen) -> str:
    return str(seen.pod["spec"].get("restartPolicy", "Always"))


def _uninitialized(seen: Seen, plan: Next) -> Next:
    """The others wait; a pod whose init container has failed for good has failed."""
    spec = seen.pod["spec"]
    for container in spec["containers"]:
        plan.wait(container["name"], "PodInitializing")
    failed = [
        one["name"]
        for one in spec["initContainers"]
        if not is_sidecar(one) and _policy(seen) == "Never" and _failed(seen, one["name"])
    ]
    if not failed:
        return plan
    plan.phase = "Failed"
    return _without_sidecars(seen, plan)


def _keep(seen: Seen, name: str, policy: str, plan: Next) -> None:
    """Start a container if it is to run and does not."""
    last, obstacle = seen.last(name), seen.obstacles.get(name)
    if last is not None and (last.exit is None or not _starts_again(last.exit, policy)):
        return
    if obstacle is not None and obstacle.until > seen.now:
        plan.wait(name, obstacle.reason, obstacle.message, obstacle.until)
    elif last is None or last.exit is None:
        plan.start.append(name)
    else:
        _start_again(seen, name, last.exit, plan)


def _start_again(seen: Seen, name: str, ended: Exit, plan: Next) -> None:
    wait = back_off(seen.turns[name], seen.pace)
    if ended.finished + wait <= seen.now:
        plan.start.append(name)
        return
    metadata = seen.pod["metadata"]
    pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    message = f"back-off {wait:.0f}s restarting failed container={name} pod={pod}"
    plan.wait(name, "CrashLoopBackOff", message, ended.finished + wait)


def _starts_again(ended: Exit, policy: str) -> bool:
    return policy == "Always" or (policy == "OnFailure" and ended.code != 0)


def _failed(seen: Seen, name: str) -> bool:
    last = seen.last(name)
    return last is not None and last.exit is not None and last.exit.code != 0


# --- a pod that ends ---------------------------------------------------------------------------------------


def _without_sidecars(seen: Seen, plan: Next) -> Next:
    """A pod has ended when its sidecars have: until then they are stopped, and it runs."""
    plan.start.clear()
    return _stopped(seen, plan, "the pod has ended") if seen.living else plan


def _stopped(seen: Seen, plan: Next, why: str) -> Next:
    """Everything is to stop; as long as something lives the pod has not ended."""
    plan.initialized = plan.initialized or any(seen.turns.get(name) for name in _mains(seen))
    mains = [name for name in _mains(seen) if seen.runs(name)]
    plan.stop = dict.fromkeys(mains or seen.living, why)  # sidecars are there until the others are gone
    if plan.stop and plan.phase in ENDED and seen.pod.get("status", {}).get("phase") not in ENDED:
        plan.phase = "Running"
    return plan


def _while_ending(seen: Seen) -> Phase:
    """How a pod stands that was deleted: failed, unless all that it was for was done."""
    done = [seen.last(name) for name in _mains(seen)]
    return "Succeeded" if all(one and one.exit and one.exit.code == 0 for one in done) else "Failed"


def _mains(seen: Seen) -> Iterator[str]:
    return (container["name"] for container in seen.pod["spec"]["containers"])


def _deadline(seen: Seen) -> float:
    seconds = seen.pod["spec"].get("activeDeadlineSeconds")
    return math.inf if seconds is None else seen.began + seconds


def _overdue(seen: Seen, plan: Next, deadline: float) -> bool:
    """Whether a pod has taken too long; one that ended before its deadline has not."""
    if plan.phase not in ENDED:
        return seen.now >= deadline
    ends = [turn.exit.finished for turns in seen.turns.values() for turn in turns if turn.exit]
    return max(ends, default=0.0) > deadline


def _past_deadline(seen: Seen) -> Next:
    message = "Pod was active on the node longer than the specified deadline"
    return _stopped(seen, Next(phase="Failed", reason=DEADLINE, message=message), message)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container runs beside the others, for as long as they do."""
    return bool(container.get("restartPolicy") == "Always")


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
