"""What happens next to a pod: a pure function of its observed state.

`decide` takes the pod, the runs of its containers, and the probe results of the running ones. It returns
which containers to start and to stop, the phase of the pod, and when to check again. Runs come from the
runtime's directories, or from the pod's status where a directory is lost: so the decision is the same after a
restart of the agent.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.backoff import Backoff
from shoal.cluster.resources import Object
from shoal.kubelet.runtime import ExitStatus

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
KEPT_RUNS: Final = 8
"""Runs of a container that are kept: enough for the back-off, which has reached its maximum by then."""
_KILLED_CODE: Final = 137


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
    """One run of a container, as observed."""

    attempt: int
    started: float | None = None
    exit: ExitStatus | None = None


class ContainerHealth(msgspec.Struct, frozen=True):
    """Probe results of a running container; without a probe the result is positive."""

    started: bool = True
    ready: bool = True
    unhealthy_reason: str = ""
    """Why the container must be stopped; empty if it need not be."""


class StartFailure(msgspec.Struct, frozen=True):
    """Why a container could not be started, and when to try again."""

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
        """The newest run of a container."""
        runs = self.runs.get(name)
        return runs[-1] if runs else None

    def is_running(self, name: str) -> bool:
        last = self.last(name)
        return last is not None and last.exit is None

    def health_of(self, name: str) -> ContainerHealth:
        """The health of a container; neither started nor ready if it is not running."""
        last = self.last(name)
        if last is None or last.exit is not None or last.started is None:
            return ContainerHealth(started=False, ready=False)
        return self.health.get(name, ContainerHealth())

    @property
    def running(self) -> list[str]:
        """Names of running containers."""
        return [name for name in self.runs if self.is_running(name)]

    @property
    def start_time(self) -> float:
        """When the node accepted the pod."""
        reported = self.pod.get("status", {}).get("startTime")
        started = [runs[0].started for runs in self.runs.values() if runs and runs[0].started]
        return datetime.fromisoformat(reported).timestamp() if reported else min((*started, self.now))


class PodDecision(msgspec.Struct, kw_only=True):
    """What to do with the containers of a pod, and its phase."""

    phase: Phase
    reason: str = ""
    message: str = ""
    initialized: bool = False
    start: list[str] = []
    stop: dict[str, str] = {}
    """Containers to stop, with the reason."""
    waiting: dict[str, tuple[str, str]] = {}
    """Containers that cannot run yet: reason and message."""
    recheck_at: float = math.inf
    """When to decide again even if nothing has changed."""

    def add_waiting(self, name: str, reason: str, message: str = "", until: float = math.inf) -> None:
        self.waiting[name] = reason, message
        self.recheck_at = min(self.recheck_at, until)


def decide(observation: PodObservation) -> PodDecision:
    """Decide what happens next to a pod."""
    status = observation.pod.get("status", {})
    if status.get("phase") in FINISHED_PHASES:
        ended = PodDecision(
            phase=status["phase"], reason=status.get("reason", ""), message=status.get("message", "")
        )
        return _stop_all(observation, ended, "the pod has ended")
    if "deletionTimestamp" in observation.pod["metadata"]:
        return _stop_all(
            observation, PodDecision(phase=_phase_of_deleted(observation)), "the pod was deleted"
        )
    decision = _advance(observation)
    deadline = _deadline(observation)
    if _overdue(observation, decision, deadline):
        return _past_deadline(observation)
    if decision.phase not in FINISHED_PHASES:
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


# --- active pods -------------------------------------------------------------------------------------------


def _advance(observation: PodObservation) -> PodDecision:
    """Run init containers in order, then all other containers in parallel."""
    decision, names = PodDecision(phase="Pending"), list(_main_containers(observation))
    if phase := _final_phase(observation):
        decision.phase, decision.initialized = phase, True
        return _stop_sidecars(observation, decision)
    _stop_unhealthy(observation, decision)
    started = any(observation.runs.get(name) for name in names)
    for container in observation.pod["spec"].get("initContainers", ()):
        if not _initialize(observation, container, decision) and not started:
            return _uninitialized(observation, decision)
    decision.initialized = True
    for name in names:
        _start_if_needed(observation, name, _restart_policy(observation), decision)
    if all(observation.runs.get(name) for name in names):
        decision.phase = "Running"
    return decision


def _final_phase(observation: PodObservation) -> Phase | None:
    """The final phase, if all main containers have ended for good."""
    lasts = [observation.last(name) for name in _main_containers(observation)]
    exits = [last.exit for last in lasts if last is not None and last.exit is not None]
    if len(exits) < len(lasts) or any(
        _should_restart(ended, _restart_policy(observation)) for ended in exits
    ):
        return None
    return "Failed" if any(ended.code != 0 for ended in exits) else "Succeeded"


def _stop_unhealthy(observation: PodObservation, decision: PodDecision) -> None:
    for name in observation.running:
        if unhealthy_reason := observation.health_of(name).unhealthy_reason:
            decision.stop[name] = unhealthy_reason


def _initialize(observation: PodObservation, container: Object, decision: PodDecision) -> bool:
    """Advance one init container; return whether the next one may start."""
    name, last = container["name"], observation.last(container["name"])
    if is_sidecar(container):
        _start_if_needed(observation, name, "Always", decision)
        return observation.health_of(name).started
    if last is not None and last.exit is not None and last.exit.code == 0:
        return True
    _start_if_needed(
        observation, name, "Never" if _restart_policy(observation) == "Never" else "OnFailure", decision
    )
    return False


def _restart_policy(observation: PodObservation) -> str:
    return str(observation.pod["spec"].get("restartPolicy", "Always"))


def _uninitialized(observation: PodObservation, decision: PodDecision) -> PodDecision:
    """Main containers wait for init containers; an init container that failed for good fails the pod."""
    spec = observation.pod["spec"]
    for container in spec["containers"]:
        decision.add_waiting(container["name"], "PodInitializing")
    failed = [
        one["name"]
        for one in spec["initContainers"]
        if not is_sidecar(one)
        and _restart_policy(observation) == "Never"
        and _failed(observation, one["name"])
    ]
    if not failed:
        return decision
    decision.phase = "Failed"
    return _stop_sidecars(observation, decision)


def _start_if_needed(observation: PodObservation, name: str, policy: str, decision: PodDecision) -> None:
    """Start a container that should be running and is not, unless it is in back-off."""
    last, failure = observation.last(name), observation.start_failures.get(name)
    if last is not None and (last.exit is None or not _should_restart(last.exit, policy)):
        return
    if failure is not None and failure.until > observation.now:
        decision.add_waiting(name, failure.reason, failure.message, failure.until)
    elif last is None or last.exit is None:
        decision.start.append(name)
    else:
        _restart(observation, name, last.exit, decision)


def _restart(observation: PodObservation, name: str, ended: ExitStatus, decision: PodDecision) -> None:
    delay = restart_delay(observation.runs[name], observation.restart)
    if ended.finished + delay <= observation.now:
        decision.start.append(name)
        return
    metadata = observation.pod["metadata"]
    pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    message = f"back-off {delay:.0f}s restarting failed container={name} pod={pod}"
    decision.add_waiting(name, "CrashLoopBackOff", message, ended.finished + delay)


def _should_restart(ended: ExitStatus, policy: str) -> bool:
    return policy == "Always" or (policy == "OnFailure" and ended.code != 0)


def _failed(observation: PodObservation, name: str) -> bool:
    last = observation.last(name)
    return last is not None and last.exit is not None and last.exit.code != 0


# --- ending pods -------------------------------------------------------------------------------------------


def _stop_sidecars(observation: PodObservation, decision: PodDecision) -> PodDecision:
    """The pod has ended when its sidecars have: until then they are stopped, and it is Running."""
    decision.start.clear()
    return _stop_all(observation, decision, "the pod has ended") if observation.running else decision


def _stop_all(observation: PodObservation, decision: PodDecision, reason: str) -> PodDecision:
    """Stop all containers; the pod has not ended while one is running."""
    decision.initialized = decision.initialized or any(
        observation.runs.get(name) for name in _main_containers(observation)
    )
    names = [name for name in _main_containers(observation) if observation.is_running(name)]
    # Sidecars are stopped last, when no other container is running.
    decision.stop = dict.fromkeys(names or observation.running, reason)
    if (
        decision.stop
        and decision.phase in FINISHED_PHASES
        and observation.pod.get("status", {}).get("phase") not in FINISHED_PHASES
    ):
        decision.phase = "Running"
    return decision


def _phase_of_deleted(observation: PodObservation) -> Phase:
    """The final phase of a deleted pod: Failed, unless all main containers have succeeded."""
    done = [observation.last(name) for name in _main_containers(observation)]
    return "Succeeded" if all(one and one.exit and one.exit.code == 0 for one in done) else "Failed"


def _main_containers(observation: PodObservation) -> Iterator[str]:
    return (container["name"] for container in observation.pod["spec"]["containers"])


def _deadline(observation: PodObservation) -> float:
    seconds = observation.pod["spec"].get("activeDeadlineSeconds")
    return math.inf if seconds is None else observation.start_time + seconds


def _overdue(observation: PodObservation, decision: PodDecision, deadline: float) -> bool:
    """Whether a pod has exceeded its deadline; one that ended before has not."""
    if decision.phase not in FINISHED_PHASES:
        return observation.now >= deadline
    ends = [run.exit.finished for runs in observation.runs.values() for run in runs if run.exit]
    return max(ends, default=0.0) > deadline


def _past_deadline(observation: PodObservation) -> PodDecision:
    message = "Pod was active on the node longer than the specified deadline"
    return _stop_all(
        observation, PodDecision(phase="Failed", reason=DEADLINE_EXCEEDED, message=message), message
    )


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container is a sidecar: it runs beside the main containers."""
    return bool(container.get("restartPolicy") == "Always")


def container_runs(
    pod: Object, runs: Mapping[str, Sequence[ContainerRun]], now: float
) -> dict[str, Sequence[ContainerRun]]:
    """The runs of each container.

    A container that its status says has started has started, even if its directory is lost: it is not run
    twice.
    """
    status = pod.get("status", {})
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    lost_runs = {
        one["name"]: (_lost_run(one, now),)
        for one in statuses
        if one.get("containerID") and not runs.get(one["name"])
    }
    return {**runs, **lost_runs}


def _lost_run(status: Object, now: float) -> ContainerRun:
    """The run of a container whose directory is lost, rebuilt from its status."""
    reported = status["state"].get("terminated") or status.get("lastState", {}).get("terminated") or {}
    exit_ = ExitStatus(
        code=reported.get("exitCode", _KILLED_CODE),
        signal=reported.get("signal"),
        started=None,
        finished=_parse_time(reported["finishedAt"]) if reported.get("finishedAt") else now,
        reason=reported.get("reason", "Lost"),
        message=reported.get("message", "The container could not be located: its directory is gone"),
    )
    started = reported.get("startedAt")
    return ContainerRun(status.get("restartCount", 0), _parse_time(started) if started else None, exit_)


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
