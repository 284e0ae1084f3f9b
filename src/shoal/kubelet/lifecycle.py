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

from shoal.cluster.backoff import Backoff
from shoal.cluster.resources import Object
from shoal.kubelet.runtime import ExitStatus

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
TERMINAL_PHASES: Final = ("Succeeded", "Failed")
KEPT_RUNS: Final = 8
"""Turns of a container that are kept: so many tell the whole back-off, which has reached its most by then."""


class RestartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When a container that has ended is started again; all times in seconds.

    The first restart is immediate; `backoff` gives the delay of the next ones. A run that lasted longer than
    `reset_after` resets the back-off.
    """

    backoff: Backoff = Backoff(10.0, 300.0)
    reset_after: float = 600.0
    retry_delay: float = 2.0
    """Delay after a start that failed before there was a process, e.g. because a ConfigMap is missing."""


class ContainerRun(msgspec.Struct, frozen=True):
    """One run of a container."""

    attempt: int
    started: float | None = None
    exit: ExitStatus | None = None


class ContainerHealth(msgspec.Struct, frozen=True):
    """What probes say of a container that runs; what nobody asks about is well."""

    started: bool = True
    ready: bool = True
    unhealthy_reason: str = ""
    """Why it must be stopped."""


class StartFailure(msgspec.Struct, frozen=True):
    """Why a container could not be started, and when it is tried again."""

    reason: str
    message: str
    until: float


class PodObservation(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a pod."""

    pod: Object
    now: float
    runs: Mapping[str, Sequence[ContainerRun]] = {}
    health: Mapping[str, ContainerHealth] = {}
    start_failures: Mapping[str, StartFailure] = {}
    restart: RestartOptions = RestartOptions()

    def last(self, name: str) -> ContainerRun | None:
        """The newest turn of a container."""
        runs = self.runs.get(name)
        return runs[-1] if runs else None

    def is_running(self, name: str) -> bool:
        last = self.last(name)
        return last is not None and last.exit is None

    def health_of(self, name: str) -> ContainerHealth:
        """How a container is."""
        last = self.last(name)
        if last is None or last.exit is not None or last.started is None:
            return ContainerHealth(started=False, ready=False)
        return self.health.get(name, ContainerHealth())

    @property
    def running(self) -> list[str]:
        """Containers that run."""
        return [name for name in self.runs if self.is_running(name)]

    @property
    def start_time(self) -> float:
        """Since when the pod is its node's."""
        said = self.pod.get("status", {}).get("startTime")
        started = [runs[0].started for runs in self.runs.values() if runs and runs[0].started]
        return datetime.fromisoformat(said).timestamp() if said else min((*started, self.now))


class PodDecision(msgspec.Struct, kw_only=True):
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
    recheck_at: float = math.inf
    """When to look again although nothing happened."""

    def add_waiting(self, name: str, reason: str, message: str = "", until: float = math.inf) -> None:
        self.waiting[name] = reason, message
        self.recheck_at = min(self.recheck_at, until)


def decide(observation: PodObservation) -> PodDecision:
    """What is to become of a pod."""
    status = observation.pod.get("status", {})
    if status.get("phase") in TERMINAL_PHASES:
        over = PodDecision(
            phase=status["phase"], reason=status.get("reason", ""), message=status.get("message", "")
        )
        return _stopped(observation, over, "the pod has ended")
    if "deletionTimestamp" in observation.pod["metadata"]:
        return _stopped(observation, PodDecision(phase=_while_ending(observation)), "the pod was deleted")
    decision = _advance(observation)
    deadline = _deadline(observation)
    if _overdue(observation, decision, deadline):
        return _past_deadline(observation)
    if decision.phase not in TERMINAL_PHASES:
        decision.recheck_at = min(decision.recheck_at, deadline)
    return decision


def restart_delay(runs: Sequence[ContainerRun], options: RestartOptions) -> float:
    """Seconds between the end of the last of these runs and the next start of the container.

    The first restart is immediate: only runs after attempt 0 count as failures.
    """
    failures = 0
    for run in runs:
        if run.exit is None:
            continue
        if run.exit.finished - (run.started or run.exit.finished) > options.reset_after:
            failures = 0
        elif run.attempt:
            failures += 1
    return options.backoff.delay(failures)


# --- a pod that goes on ------------------------------------------------------------------------------------


def _advance(observation: PodObservation) -> PodDecision:
    """Init containers in their order, then all others side by side."""
    decision, mains = PodDecision(phase="Pending"), list(_mains(observation))
    if over := _over(observation):
        decision.phase, decision.initialized = over, True
        return _without_sidecars(observation, decision)
    _stop_the_ailing(observation, decision)
    begun = any(observation.runs.get(name) for name in mains)
    for container in observation.pod["spec"].get("initContainers", ()):
        if not _initialize(observation, container, decision) and not begun:
            return _uninitialized(observation, decision)
    decision.initialized = True
    for name in mains:
        _keep(observation, name, _policy(observation), decision)
    if all(observation.runs.get(name) for name in mains):
        decision.phase = "Running"
    return decision


def _over(observation: PodObservation) -> Phase | None:
    """How a pod has ended whose containers have all ended for good."""
    lasts = [observation.last(name) for name in _mains(observation)]
    exits = [last.exit for last in lasts if last is not None and last.exit is not None]
    if len(exits) < len(lasts) or any(_starts_again(ended, _policy(observation)) for ended in exits):
        return None
    return "Failed" if any(ended.code != 0 for ended in exits) else "Succeeded"


def _stop_the_ailing(observation: PodObservation, decision: PodDecision) -> None:
    for name in observation.running:
        if unhealthy_reason := observation.health_of(name).unhealthy_reason:
            decision.stop[name] = unhealthy_reason


def _initialize(observation: PodObservation, container: Object, decision: PodDecision) -> bool:
    """Bring one init container on; whether the next may begin."""
    name, last = container["name"], observation.last(container["name"])
    if is_sidecar(container):
        _keep(observation, name, "Always", decision)
        return observation.health_of(name).started
    if last is not None and last.exit is not None and last.exit.code == 0:
        return True
    _keep(observation, name, "Never" if _policy(observation) == "Never" else "OnFailure", decision)
    return False


def _policy(observation: PodObservation) -> str:
    return str(observation.pod["spec"].get("restartPolicy", "Always"))


def _uninitialized(observation: PodObservation, decision: PodDecision) -> PodDecision:
    """The others wait; a pod whose init container has failed for good has failed."""
    spec = observation.pod["spec"]
    for container in spec["containers"]:
        decision.add_waiting(container["name"], "PodInitializing")
    failed = [
        one["name"]
        for one in spec["initContainers"]
        if not is_sidecar(one) and _policy(observation) == "Never" and _failed(observation, one["name"])
    ]
    if not failed:
        return decision
    decision.phase = "Failed"
    return _without_sidecars(observation, decision)


def _keep(observation: PodObservation, name: str, policy: str, decision: PodDecision) -> None:
    """Start a container if it is to run and does not."""
    last, failure = observation.last(name), observation.start_failures.get(name)
    if last is not None and (last.exit is None or not _starts_again(last.exit, policy)):
        return
    if failure is not None and failure.until > observation.now:
        decision.add_waiting(name, failure.reason, failure.message, failure.until)
    elif last is None or last.exit is None:
        decision.start.append(name)
    else:
        _start_again(observation, name, last.exit, decision)


def _start_again(observation: PodObservation, name: str, ended: ExitStatus, decision: PodDecision) -> None:
    delay = restart_delay(observation.runs[name], observation.restart)
    if ended.finished + delay <= observation.now:
        decision.start.append(name)
        return
    metadata = observation.pod["metadata"]
    pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    message = f"back-off {delay:.0f}s restarting failed container={name} pod={pod}"
    decision.add_waiting(name, "CrashLoopBackOff", message, ended.finished + delay)


def _starts_again(ended: ExitStatus, policy: str) -> bool:
    return policy == "Always" or (policy == "OnFailure" and ended.code != 0)


def _failed(observation: PodObservation, name: str) -> bool:
    last = observation.last(name)
    return last is not None and last.exit is not None and last.exit.code != 0


# --- a pod that ends ---------------------------------------------------------------------------------------


def _without_sidecars(observation: PodObservation, decision: PodDecision) -> PodDecision:
    """A pod has ended when its sidecars have: until then they are stopped, and it runs."""
    decision.start.clear()
    return _stopped(observation, decision, "the pod has ended") if observation.running else decision


def _stopped(observation: PodObservation, decision: PodDecision, why: str) -> PodDecision:
    """Everything is to stop; as long as something lives the pod has not ended."""
    decision.initialized = decision.initialized or any(
        observation.runs.get(name) for name in _mains(observation)
    )
    mains = [name for name in _mains(observation) if observation.is_running(name)]
    decision.stop = dict.fromkeys(
        mains or observation.running, why
    )  # sidecars are there until the others are gone
    if (
        decision.stop
        and decision.phase in TERMINAL_PHASES
        and observation.pod.get("status", {}).get("phase") not in TERMINAL_PHASES
    ):
        decision.phase = "Running"
    return decision


def _while_ending(observation: PodObservation) -> Phase:
    """How a pod stands that was deleted: failed, unless all that it was for was done."""
    done = [observation.last(name) for name in _mains(observation)]
    return "Succeeded" if all(one and one.exit and one.exit.code == 0 for one in done) else "Failed"


def _mains(observation: PodObservation) -> Iterator[str]:
    return (container["name"] for container in observation.pod["spec"]["containers"])


def _deadline(observation: PodObservation) -> float:
    seconds = observation.pod["spec"].get("activeDeadlineSeconds")
    return math.inf if seconds is None else observation.start_time + seconds


def _overdue(observation: PodObservation, decision: PodDecision, deadline: float) -> bool:
    """Whether a pod has taken too long; one that ended before its deadline has not."""
    if decision.phase not in TERMINAL_PHASES:
        return observation.now >= deadline
    ends = [run.exit.finished for runs in observation.runs.values() for run in runs if run.exit]
    return max(ends, default=0.0) > deadline


def _past_deadline(observation: PodObservation) -> PodDecision:
    message = "Pod was active on the node longer than the specified deadline"
    return _stopped(
        observation, PodDecision(phase="Failed", reason=DEADLINE_EXCEEDED, message=message), message
    )


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container runs beside the others, for as long as they do."""
    return bool(container.get("restartPolicy") == "Always")


_KILLED: Final = 137


def container_runs(
    pod: Object, runs: Mapping[str, Sequence[ContainerRun]], now: float
) -> dict[str, Sequence[ContainerRun]]:
    """The turns of every container. What was said to have begun has begun, though no trace of it be left."""
    status = pod.get("status", {})
    told = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    lost = {
        one["name"]: (_lost(one, now),)
        for one in told
        if one.get("containerID") and not runs.get(one["name"])
    }
    return {**runs, **lost}


def _lost(status: Object, now: float) -> ContainerRun:
    """The turn of a container that is only known from what was said of it."""
    said = status["state"].get("terminated") or status.get("lastState", {}).get("terminated") or {}
    exit_ = ExitStatus(
        code=said.get("exitCode", _KILLED),
        signal=said.get("signal"),
        started=None,
        finished=_moment(said["finishedAt"]) if said.get("finishedAt") else now,
        reason=said.get("reason", "Lost"),
        message=said.get("message", "The container could not be located: its directory is gone"),
    )
    started = said.get("startedAt")
    return ContainerRun(status.get("restartCount", 0), _moment(started) if started else None, exit_)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
