"""One reconcile of a job: the part that is the same for all kinds.

A kind says which slots a job has, in which phase the job is, which pods are due and how they are built. From
this follow the writes, in stages: the status; service and secret; the removal of finalizers, and deletions;
the creation of pods. No stage does what the status does not record yet, so the controller may be killed
between any two writes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic

import msgspec
from msgspec.structs import replace

from shoal.api.managed import ManagedPod
from shoal.api.meta import Condition
from shoal.cluster.events import ObjectEvent
from shoal.cluster.resources import PODS, Resource
from shoal.cluster.times import to_datetime
from shoal.controllers.changes import (
    Changes,
    Create,
    NameWait,
    RequireAbsent,
    Write,
    delete_object,
    earliest,
    patch_status_of,
    reference_to,
    status_patch,
)
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import PodEnd, has_stopped, next_attempt, pod_end, retry_time
from shoal.controllers.jobs.finished import clean_up
from shoal.controllers.jobs.host_files import RoleHosts, host_file_write, host_files
from shoal.controllers.jobs.phases import Phase
from shoal.controllers.jobs.pods import create_service, pod_events
from shoal.controllers.jobs.slots import JobSlots, K
from shoal.controllers.jobs.tracking import CountedEnds, count_ends, is_tracked, release
from shoal.controllers.jobs.view import J, JobView, is_controlled


class JobReconcile(ABC, Generic[J, K]):
    """One reconcile of a job that has not finished.

    `before` is the job as it was read; `job` may differ from it in status fields that a kind has derived
    first, such as a size.
    """

    def __init__(  # noqa: PLR0913 - all that a reconcile decides by
        self, resource: Resource[J], view: JobView[J], *, before: J, job: J, slots: JobSlots[K], now: float
    ) -> None:
        self.resource: Final = resource
        self.view: Final = view
        self.before: Final = before
        self.job: Final = job
        self.slots: Final = slots
        self.now: Final = now
        self.ends: Final[CountedEnds] = count_ends(before.status.counted, view.pods)
        self._name_waits: Final[list[NameWait]] = []

    # --- what a kind decides ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def service_name(self) -> str:
        """The name of the job's headless service."""

    @abstractmethod
    def roles(self) -> Mapping[str, RoleHosts]:
        """Return the pods that each role is to have now: they are listed in the host files."""

    @abstractmethod
    def due(self) -> Sequence[K]:
        """Return the slots whose pods are to be created now, if the job neither is suspended nor ends."""

    def ending(self) -> Phase | None:
        """Return the final phase of a job that ends now, even if it is suspended."""
        return None

    @abstractmethod
    def phase(self, due: Sequence[K]) -> Phase:
        """Return the phase of a job that is not suspended."""

    @abstractmethod
    def creations(self, creates: Sequence[K]) -> Iterator[Create]:
        """Yield the creations of the pods of slots."""

    @abstractmethod
    def status(self, phase: Phase, creates: Sequence[K]) -> msgspec.Struct:
        """Return the status after this reconcile. Fields of other writers stay as they are."""

    def keeps(self, surplus: ManagedPod) -> bool:  # noqa: ARG002 - a kind may keep some
        """Return whether a surplus pod is not to be deleted by the controller."""
        return False

    def lost_pods(self) -> Iterator[str]:
        """Yield the names of pods that had not ended by the status, and are not in the view any more.

        Nothing is done for the job unless they do not exist: their slots would get a second pod.
        """
        yield from ()

    def deadlines(self, phase: Phase) -> Iterator[float | None]:  # noqa: ARG002 - a kind may have none
        """Yield times at which the clock alone makes another reconcile due."""
        yield from ()

    # --- questions that kinds ask -------------------------------------------------------------------------

    def ended(self, end: PodEnd) -> list[K]:
        """Return the slots whose pod has ended in a way, and is counted now."""
        return [slot for slot, pod in self.counted_now.items() if pod_end(pod) == end]

    def disrupted(self) -> ManagedPod | None:
        """Return a pod of a wanted slot that is terminating, or was disrupted and is counted now."""
        for slot in self.slots.missing:
            pod = self.slots.pods.get(slot)
            if pod and (not has_stopped(pod) or (slot in self.counted_now and pod_end(pod) == "disrupted")):
                return pod
        return None

    def may_follow(self, slot: K) -> bool:
        """Return whether a slot may get a pod: it has none, or that has ended and its back-off is over."""
        pod = self.slots.pods.get(slot)
        if pod is None:
            return True
        counted = not is_tracked(pod) or pod.metadata.uid in self.ends.uids
        return has_stopped(pod) and counted and self.now >= retry_time(pod)

    def is_free(self, name: str) -> bool:
        """Return whether a pod can be created under a name; if not, its end causes another reconcile.

        A name that a live pod of another owner has is free in this sense: the creation is refused, with an
        Event. A terminating pod is waited for without one. A pod that is replaced now is deleted before.
        """
        pod = self.view.pod_named(name)
        if pod is None or not (pod.terminating or is_controlled(pod, self.job.metadata.uid)):
            return True
        if self._is_replaced(pod):
            return True
        self._name_waits.append(NameWait(PODS.full_name, (self.job.metadata.namespace, name)))
        return False

    def attempt(self, slot: K) -> int:
        """Return which attempt in a row the next pod of a slot is."""
        pod = self.slots.pods.get(slot)
        return next_attempt(pod) if pod and has_stopped(pod) else 1

    def has_surplus(self) -> bool:
        """Return whether something runs in a slot that is not wanted."""
        return any(not has_stopped(self.slots.pods[slot]) for slot in self.slots.surplus)

    def same_phase(self, name: str, reason: str) -> Phase:
        """Return the present phase as its condition describes it, or else with a reason."""
        known = phases.condition(self.before.status.conditions, name)
        is_over = known and known.reason in (*phases.IMAGE_PROBLEMS, phases.SUSPENDED_PHASE.reason)
        if known and known.status == "True" and not is_over:
            return Phase(name, known.reason, known.message)
        return Phase(name, reason)

    @cached_property
    def counted_now(self) -> dict[K, ManagedPod]:
        """Wanted and abandoned slots whose pod's end is counted now."""
        if not self.ends.new:
            return {}
        uids, slots = {pod.metadata.uid for pod in self.ends.new}, self.slots
        candidates = (*slots.wanted, *(slot for slot in slots.pods if slot in slots.abandoned))
        with_pod = {slot: slots.pods[slot] for slot in candidates if slot in slots.pods}
        return {slot: pod for slot, pod in with_pod.items() if pod.metadata.uid in uids}

    # --- the result ---------------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """Return all changes that are due."""
        halted = self.ending() or (phases.SUSPENDED_PHASE if self.job.spec.suspend else None)
        due = () if halted else tuple(self.due())
        phase = halted or self.phase(due)
        final = phases.is_finished(phase.name)
        slots = () if final else due
        status = self.status(phase, slots)
        creates = tuple(self.creations(slots))
        deletions = () if final else tuple(self._deletions({*due}))
        needed = () if final else tuple(self._needed_objects(creates))
        return Changes(
            stages=self._stages(status, needed, deletions, creates),
            events=tuple(self._events(status, deletions, creates)),
            requeue_at=None if final else self._requeue_at(phase),
            waits_for=tuple(self._name_waits),
        )

    def common_fields(self, phase: Phase) -> dict[str, Any]:
        """Return the status fields that all kinds have, as they are in a phase."""
        before, suspended = self.before.status, self.job.spec.suspend
        started = None if suspended else before.start_time
        if started is None and phase.name != "Pending" and not phases.is_finished(phase.name):
            started = to_datetime(self.now)
        return {
            "conditions": self._conditions(phase),
            "counted": self.ends.recorded(before.counted),
            "start_time": started,
            "completion_timestamp": to_datetime(self.now) if phases.is_finished(phase.name) else None,
            "observed_generation": self.job.metadata.generation,
        }

    def _conditions(self, phase: Phase) -> tuple[Condition, ...]:
        known = self.before.status.conditions
        if phase.name != "Pending" and phases.condition(known, "Pending") is None:
            known = phases.enter(known, Phase("Pending", "Created"), self.now)
        entered = phases.enter(known, phase, self.now)
        return phases.suspend(entered, suspended=self.job.spec.suspend, now=self.now)

    def _deletions(self, due: Collection[K]) -> Iterator[ManagedPod]:
        """Yield the pods that are to be deleted: surplus ones, and ended ones whose successors are due."""
        suspended, slots = self.job.spec.suspend, self.slots
        surplus = (slots.pods[slot] for slot in slots.surplus)
        unwanted = (pod for pod in surplus if not self.keeps(pod) or (suspended and not pod.finished))
        for pod in (*unwanted, *slots.others):
            is_counted = not has_stopped(pod) or not is_tracked(pod)
            if is_counted and not pod.terminating:
                yield pod
        for slot in slots.wanted if suspended else slots.missing:
            old = slots.pods.get(slot)
            if old is None or old.terminating or slot in slots.completed:
                continue
            if not old.finished if suspended else slot in due and self._is_replaced(old):
                yield old

    def _is_replaced(self, old: ManagedPod) -> bool:
        """Return whether an ended pod is deleted now, so that its successor may be created under its name.

        Both happen in one reconcile, as the number of the next attempt is taken from the ended pod.
        """
        is_ended = old.finished and not old.terminating and not is_tracked(old)
        return is_ended and self.now >= retry_time(old)

    def _stages(
        self,
        status: msgspec.Struct,
        needed: tuple[Write, ...],
        deletions: Sequence[ManagedPod],
        creates: tuple[Create, ...],
    ) -> tuple[tuple[Write, ...], ...]:
        patch = status_patch(self.before.status, status)
        first = (patch_status_of(self.resource, self.before.metadata, patch),) if patch else ()
        third: tuple[Write, ...] = (
            *map(release, self.ends.release),
            *(delete_object(PODS, pod.metadata) for pod in deletions),
        )
        meta = self.job.metadata
        lost = (
            RequireAbsent(resource=PODS, name=name, namespace=meta.namespace) for name in self.lost_pods()
        )
        return tuple(lost), first, needed, third, creates

    def _needed_objects(self, creates: Sequence[Create]) -> Iterator[Write]:
        """Yield the writes of service and host files, if there are pods that need them."""
        if not creates and all(map(has_stopped, self.view.pods)):
            return
        meta, service = self.job.metadata, self.service_name
        if self.view.service is None:
            yield create_service(self.resource, meta, service)
        files = host_files(self.roles())
        write = host_file_write(self.resource, meta, service, files, self.view.hosts)
        if write:
            yield write

    def _events(
        self,
        status: Any,  # noqa: ANN401 - each kind has its own
        deletions: Sequence[ManagedPod],
        creates: Sequence[Create],
    ) -> Iterator[ObjectEvent]:
        regarding = reference_to(self.resource, self.job.metadata)
        yield from phases.phase_events(regarding, self.before.status.conditions, status.conditions)
        yield from pod_events(regarding, "Deleted", [pod.metadata.name for pod in deletions])
        yield from pod_events(regarding, "Created", [one.body["metadata"]["name"] for one in creates])

    def _requeue_at(self, phase: Phase) -> float | None:
        """Return when time alone makes another reconcile due."""
        waiting = (self.slots.pods.get(slot) for slot in self.slots.missing)
        retries = (retry_time(pod) for pod in waiting if pod and has_stopped(pod))
        times = (*self.deadlines(phase), *retries)
        return earliest(*(time for time in times if time is not None and time > self.now))


def reconcile_job(
    resource: Resource[J], view: JobView[J], now: float, progress: Callable[[J], Changes]
) -> Changes:
    """Return the changes for a job in any state; `progress` returns those for one that has not finished."""
    orphans = tuple(release(pod) for pod in view.orphans if is_tracked(pod))
    job = view.job
    if job is None:
        return Changes(stages=(orphans,))
    if job.metadata.deletion_timestamp is not None:
        return Changes(stages=((*orphans, *map(release, filter(is_tracked, view.pods))),))
    finished = phases.is_finished(job.phase)
    changes = clean_up(resource, job, view, now) if finished else progress(job)
    regarding = reference_to(resource, job.metadata)
    return replace(changes, regarding=regarding, stages=(orphans, *changes.stages))
