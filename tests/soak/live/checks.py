"""What must hold for a home with real processes: the journal's history, and what the processes recorded."""

import fcntl
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from shoal.api.disruption import DISRUPTION
from shoal.api.managed import ManagedPod, has_condition
from shoal.apiserver.registry.records import Change
from shoal.controllers.jobs.ends import pod_end
from tests.kinds.promises import JobPromises
from tests.soak.elastic import check_sizes
from tests.soak.invariants import (
    bound_pods_fit_their_node,
    deletions_are_explained,
    finished_indexes_are_not_run_again,
    job_counters_are_right,
    pods_are_not_recreated_in_a_loop,
)
from tests.soak.live.worker import SLOTS, VIOLATIONS
from tests.soak.observed_state import ObservedState

_INVARIANTS: Final = (
    bound_pods_fit_their_node,
    deletions_are_explained,
    finished_indexes_are_not_run_again,
    job_counters_are_right,
    pods_are_not_recreated_in_a_loop,
)
"""Those of the simulated days that depend neither on time nor on the simulated kubelet."""
_PODS: Final = msgspec.json.Decoder(ManagedPod)


class Entry(NamedTuple):
    """A line that a process wrote: its pod, whether it started, ended or was stopped, and the exit code."""

    pod: str
    event: str
    code: int | None
    time: float


class LiveChecker:
    """Checks the history of a home as it is read, and the records of the processes at the end."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the one that the processes write to."""
        self._directory: Final = directory
        self.state: Final = ObservedState(time.monotonic, dict)
        self.promises: Final = JobPromises([])
        self.pods: Final[dict[str, ManagedPod]] = {}
        """Every pod that ever existed, in its last version, by uid."""
        self.violations: Final[list[str]] = []

    def observe(self, changes: Sequence[Change]) -> None:
        """Check the writes since the last call."""
        self.violations.extend((*self.promises.observe(changes), *check_sizes(changes)))
        for step in self.state.apply(changes):
            for invariant in _INVARIANTS:
                self.violations.extend(invariant(self.state, step))
        for change in changes:
            if change.record.key.resource == "pods":
                pod = _PODS.decode(change.record.body)
                self.pods[pod.metadata.uid] = pod

    def unfinished(self) -> list[str]:
        """Return the jobs and pods that have not finished."""
        jobs = [job.metadata.name for job in self.state.jobs.values() if not job.end]
        pods = [pod.description for pod in self.state.pods.values() if not pod.finished]
        return [*self.promises.unfinished(), *jobs, *pods]

    def processes_agree(self) -> Iterator[str]:
        """Yield where the records of the processes contradict the history."""
        path = self._directory / VIOLATIONS
        yield from path.read_text().splitlines() if path.exists() else ()
        for file in sorted((self._directory / SLOTS).iterdir()):
            entries = [Entry(**json.loads(line)) for line in file.read_text().splitlines()]
            for problem in (*self._wrong_order(entries), *self._wrong_ends(entries), *_locked(file)):
                yield f"slot {file.name}: {problem}"

    def _wrong_order(self, entries: Sequence[Entry]) -> Iterator[str]:
        """Yield second runs of a pod, and runs after a success; a rank of a DIJob may come back as new."""
        seen: set[str] = set()
        succeeded = ""
        for entry in entries:
            if entry.event == "start":
                if entry.pod in seen:
                    yield f"pod {entry.pod} was started twice"
                if succeeded and not self._is_rank(entry.pod):
                    yield f"pod {entry.pod} was started after {succeeded} had succeeded"
                seen.add(entry.pod)
            elif entry.pod in self.pods and _ended_well(self.pods[entry.pod]):
                succeeded = entry.pod

    def _wrong_ends(self, entries: Sequence[Entry]) -> Iterator[str]:
        """Yield ends that the status of the pod does not tell, and stops that nothing asked for."""
        for entry in entries:
            pod = self.pods.get(entry.pod)
            if pod is None:
                yield f"pod {entry.pod} never existed"
            elif entry.event == "end" and not _is_stopped(pod) and _exit_codes(pod) != [entry.code]:
                yield f"pod {entry.pod} exited with {entry.code}, and is {pod.status}"
            elif entry.event == "stop" and not _is_stopped(pod):
                yield f"pod {entry.pod} was stopped, although nothing had asked for it"
        ended = [entry.pod for entry in entries if entry.event != "start"]
        for uid, pod in self.pods.items():
            started = any(entry.pod == uid for entry in entries)
            if started and uid not in ended and pod.finished and not _is_stopped(pod):
                yield f"pod {uid} is {pod.status}, and its process has recorded no end"

    def _is_rank(self, uid: str) -> bool:
        return "diengine/rank" in self.pods[uid].metadata.labels


def _ended_well(pod: ManagedPod) -> bool:
    return pod.finished and pod_end(pod) == "succeeded"


def _is_stopped(pod: ManagedPod) -> bool:
    """Return whether a pod was asked to stop."""
    return pod.terminating or has_condition(pod.status.conditions, DISRUPTION)


def _exit_codes(pod: ManagedPod) -> list[int]:
    return [one.state.terminated.exit_code for one in pod.status.container_statuses if one.state.terminated]


def _locked(file: Path) -> Iterator[str]:
    """Yield a message if a process still holds the lock of a slot."""
    with file.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield "its process is still running"
