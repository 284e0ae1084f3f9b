"""The controller of DIJobs: from a job, its pods and its service to the changes that are due.

The phase follows from the objects in each reconcile. Changes are made in stages: the status; the service; the
removal of finalizers, and deletions; the creation of pods. No stage does what the status does not record yet,
so the controller may be killed between any two writes.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.managed import ManagedPod, ManagedService
from shoal.cluster.events import ObjectEvent
from shoal.cluster.object_store import Key
from shoal.cluster.resources import PODS, resource_of
from shoal.cluster.times import to_datetime, to_seconds
from shoal.controllers.changes import (
    Changes,
    Create,
    Write,
    delete_object,
    earliest,
    patch_status_of,
    reference_to,
    status_patch,
)
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import describe_end, has_stopped, next_attempt, pod_end, retry_time
from shoal.controllers.jobs.phases import Phase
from shoal.controllers.jobs.pods import JOB_UID, create_service, describe_pods
from shoal.controllers.jobs.tracking import MAX_COUNTED, CountedEnds, count_ends, is_tracked, release
from shoal.controllers.resources import POD, SERVICE, reader
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import TYPE
from shoal.kinds.dijob.pods import PodBuilder, attached_ranks, service_name
from shoal.kinds.dijob.ranks import generation_of, read_ranks
from shoal.kinds.dijob.types import DIJobStatus, ManagedDIJob, Worker

_ORPHANS: Final = "uid/"
"""Prefix of the keys of pods without an owner: no object has a name with a slash."""


class DIJobView(msgspec.Struct, frozen=True, kw_only=True):
    """A DIJob with its own pods and service; `job` is None if only pods of a deleted job are left."""

    job: ManagedDIJob | None
    pods: tuple[ManagedPod, ...] = ()
    orphans: tuple[ManagedPod, ...] = ()
    service: ManagedService | None = None
    holder: Callable[[str], ManagedPod | None] = lambda _: None
    """Returns the pod of a name in the job's namespace, of any owner."""


def reconcile(view: DIJobView, now: float, config: SchedulerConfig) -> Changes:
    """Create, delete and count the pods of a DIJob, and write its status."""
    job = view.job
    orphans = tuple(release(pod) for pod in view.orphans if is_tracked(pod))
    if job is None:
        return Changes(stages=(orphans,))
    if job.metadata.deletion_timestamp is not None:
        return Changes(stages=((*orphans, *map(release, filter(is_tracked, view.pods))),))
    if phases.is_finished(job.status.phase):
        changes = phases.clean_up(
            resource_of(TYPE.kind),
            job.metadata,
            view.pods,
            view.service,
            policy=job.spec.clean_pod_policy,
            completed=job.status.completion_timestamp,
            ttl=job.spec.ttl_seconds_after_finished,
            now=now,
        )
    else:
        changes = _Reconcile(job, view, now, config).changes()
    regarding = reference_to(resource_of(TYPE.kind), job.metadata)
    return replace(changes, regarding=regarding, stages=(orphans, *changes.stages))


class _Reconcile:
    """One reconcile of an unfinished job."""

    def __init__(self, job: ManagedDIJob, view: DIJobView, now: float, config: SchedulerConfig) -> None:
        self._view, self._now, self._config = view, now, config
        self._before: Final = job
        self._job: Final = _with_size(job)
        self._spec, self._status = self._job.spec, self._job.status
        self._ranks: Final = read_ranks(self._job, view.pods, config)
        self._ends: Final = count_ends(job.status.counted, view.pods)
        self._wanted: Final = frozenset(self._ranks.wanted)

    def changes(self) -> Changes:
        """Return all changes that are due."""
        failed = [pod for pod in self._ended_workers() if pod_end(pod) == "failed"]
        failures = (self._status.failures or 0) + self._cost(failed)
        due = [] if self._spec.suspend else self._due_ranks()
        phase = self._phase(failed, failures, due)
        final = phases.is_finished(phase.name)
        creates = [] if final else due
        generation = self._next_generation(creates)
        status = self._next_status(phase, failures, generation)
        if final:
            return self._changes(status, (), (), ())
        builder = PodBuilder(self._job, self._ranks, generation, self._config)
        pods = tuple(builder.create(rank, self._attempt(rank)) for rank in creates)
        return self._changes(status, self._services(pods), tuple(self._deletions()), pods)

    # --- ends ---------------------------------------------------------------------------------------------

    def _ended_workers(self) -> Iterator[ManagedPod]:
        """Pods of wanted ranks whose end is counted now. Those of a suspended job were asked to stop."""
        ranks = self._ranks
        for rank in self._counted_ranks():
            if not self._spec.suspend and rank in self._wanted:
                yield ranks.pods[rank]

    def _counted_ranks(self) -> list[int]:
        uids = {pod.metadata.uid for pod in self._ends.new}
        return [rank for rank, pod in self._ranks.pods.items() if pod.metadata.uid in uids] if uids else []

    def _cost(self, failed: list[ManagedPod]) -> int:
        """Return how many failures are added: those that fail together cost one.

        A worker that was created before the job entered its present Restarting died of the same failure.
        """
        since = phases.entered_at(self._status.conditions, "Restarting")
        return int(any(since is None or _created(pod) >= since for pod in failed))

    # --- the phase ----------------------------------------------------------------------------------------

    def _phase(self, failed: list[ManagedPod], failures: int, due: list[int]) -> Phase:  # noqa: PLR0911 - a table
        """Return the phase: the first rule that applies decides."""
        now, spec, ranks = self._status.phase or "Pending", self._spec, self._ranks
        if spec.suspend:
            return Phase("Pending", "Suspended", "The job is suspended")
        deadline = self._active_deadline()
        if deadline is not None and self._now >= deadline:
            text = f"The job was active for {spec.active_deadline_seconds} s"
            return Phase("Failed", "DeadlineExceeded", text)
        if ranks.wanted and self._wanted <= ranks.completed:
            return Phase("Succeeded", "WorkersSucceeded", f"All {len(ranks.wanted)} workers succeeded")
        if failed:
            text = ", ".join(f"{pod.metadata.name}: {describe_end(pod)}" for pod in failed[:3])
            if failures > spec.failure_limit:
                return Phase("Failed", "WorkerFailed", f"Worker failed: {text}")
            return Phase("Restarting", "WorkerFailed", f"Worker failed: {text}")
        if not ranks.wanted:
            return Phase("Pending", "ScaledToZero", "The job is scaled to 0")
        disrupted = self._disrupted_worker()
        if disrupted:
            text = f"Worker {disrupted.metadata.name} was disrupted: {describe_end(disrupted)}"
            return Phase("Restarting", "WorkerDisrupted", text)
        return self._progress(now, due)

    def _disrupted_worker(self) -> ManagedPod | None:
        """Return a pod of a wanted rank that is terminating, or was disrupted and is counted now."""
        uids = {pod.metadata.uid for pod in self._ends.new}
        for rank in self._ranks.wanted:
            pod = self._ranks.pods.get(rank)
            if pod is None or pod.active or rank in self._ranks.completed:
                continue
            if not has_stopped(pod) or (pod.metadata.uid in uids and pod_end(pod) == "disrupted"):
                return pod
        return None

    def _progress(self, now: str, due: list[int]) -> Phase:
        """Return the phase of a job none of whose workers ended."""
        missing, ready = self._ranks.missing, self._ready
        has_surplus = any(not has_stopped(pod) for pod in self._ranks.surplus)
        is_whole = ready == len(self._ranks.wanted) and not has_surplus
        workers = len(self._ranks.wanted)
        if now == "Pending":
            started = due or any(not has_stopped(pod) for pod in self._ranks.pods.values())
            return Phase("Starting", "WorkersCreated") if started else self._same("Pending", "Waiting")
        if now in ("Starting", "Restarting") and is_whole:
            return Phase("Running", "WorkersReady", f"All {workers} workers are ready")
        if now == "Starting":
            deadline = self._starting_deadline()
            if deadline is not None and self._now >= deadline:
                seconds = self._spec.starting_deadline_seconds
                problem = phases.image_problem(self._ranks.pods.values())
                why = f": {problem[1]}" if problem else ""
                return Phase(
                    "Failed",
                    "StartingDeadlineExceeded",
                    f"{ready} of {workers} workers were ready after {seconds} s{why}",
                )
        if now == "Running" and (missing or has_surplus):
            return Phase("Restarting", "WorkersMissing" if missing else "WorkersSurplus")
        problem = phases.image_problem(self._ranks.pods.values()) if now != "Running" else None
        if problem:
            return Phase(now, *problem)
        return self._same(now, "WorkersCreated")

    def _same(self, phase: str, reason: str) -> Phase:
        """Return a phase as its condition describes it already."""
        known = phases.condition(self._status.conditions, phase)
        if known and known.status == "True" and known.reason not in phases.IMAGE_PROBLEMS:
            return Phase(phase, known.reason, known.message)
        return Phase(phase, reason)

    @property
    def _ready(self) -> int:
        pods, completed = self._ranks.pods, self._ranks.completed
        return sum(
            rank in completed or ((pod := pods.get(rank)) is not None and pod.active and pod.ready)
            for rank in self._ranks.wanted
        )

    def _active_deadline(self) -> float | None:
        seconds, start = self._spec.active_deadline_seconds, self._status.start_time
        return None if seconds is None or start is None else to_seconds(start) + seconds

    def _starting_deadline(self) -> float | None:
        """Return until when all workers must be ready; None while one waits for a node."""
        seconds = self._spec.starting_deadline_seconds
        began = phases.entered_at(self._status.conditions, "Starting")
        live = [pod for pod in self._ranks.pods.values() if pod.active]
        waits = any(not pod.spec.node_name for pod in live) or any(
            not self._may_have_node(rank) for rank in self._ranks.missing
        )
        if seconds is None or began is None or waits:
            return None
        bound = [
            one.last_transition_time
            for pod in live
            for one in pod.status.conditions
            if one.type == "PodScheduled" and one.status == "True" and one.last_transition_time
        ]
        return to_seconds(max([began, *bound])) + seconds

    # --- creation -----------------------------------------------------------------------------------------

    def _may_have_node(self, rank: int) -> bool:
        allocation = self._status.allocation
        return not self._ranks.needs_allocation or (rank < len(allocation) and bool(allocation[rank]))

    def _due_ranks(self) -> list[int]:
        """Return the ranks whose pods are to be created now."""
        missing = [rank for rank in self._ranks.missing if self._may_have_node(rank)]
        ready = [rank for rank in missing if self._has_waited(rank) and self._has_peers(rank)]
        builder = PodBuilder(self._job, self._ranks, self._next_generation(ready), self._config)
        return [rank for rank in ready if self._is_free(builder.name(rank))]

    def _is_free(self, name: str) -> bool:
        """Return whether a name is free, or taken by a foreign pod: then the creation is refused."""
        pod = self._view.holder(name)
        return pod is None or not (pod.terminating or _owner(pod) == self._job.metadata.uid)

    def _has_waited(self, rank: int) -> bool:
        """Return whether a rank has no pod, or one that has ended and whose back-off is over."""
        pod = self._ranks.pods.get(rank)
        if pod is None:
            return True
        counted = not is_tracked(pod) or pod.metadata.uid in self._ends.uids
        return has_stopped(pod) and counted and self._now >= retry_time(pod)

    def _has_peers(self, rank: int) -> bool:
        """Return whether all ranks that a rank attaches to have addresses."""
        if self._spec.tasks:
            return self._first_unaddressed >= rank
        if self._spec.engine_fields.topology == "mesh":
            return self._first_unaddressed >= rank
        return all(self._has_address(one) for one in attached_ranks(self._spec, self._ranks, rank))

    @property
    def _first_unaddressed(self) -> int:
        """The lowest rank that others may wait for."""
        waited = (rank for rank in self._ranks.wanted if rank not in self._ranks.completed)
        return next((rank for rank in waited if not self._has_address(rank)), len(self._ranks.wanted) + 1)

    def _has_address(self, rank: int) -> bool:
        pod = self._ranks.pods.get(rank)
        return pod is not None and pod.active and bool(pod.status.pod_ip)

    def _attempt(self, rank: int) -> int:
        pod = self._ranks.pods.get(rank)
        return next_attempt(pod) if pod and has_stopped(pod) else 1

    def _next_generation(self, creates: list[int]) -> int:
        """Return the generation of new pods: a rank has at most one pod in each generation."""
        present = self._status.generation or 0
        return present + any(self._last_generation(rank) == present for rank in creates)

    def _last_generation(self, rank: int) -> int | None:
        pod, worker = self._ranks.pods.get(rank), self._ranks.workers.get(rank)
        if pod is not None:
            return generation_of(pod)
        return worker.generation if worker else None

    def _services(self, pods: tuple[Create, ...]) -> tuple[Create, ...]:
        """Return the creation of the service, if it is missing and pods need it."""
        needed = pods or any(not has_stopped(pod) for pod in self._view.pods)
        if self._view.service is not None or not needed:
            return ()
        meta = self._job.metadata
        return (create_service(resource_of(TYPE.kind), meta, service_name(meta)),)

    # --- deletion -----------------------------------------------------------------------------------------

    def _deletions(self) -> Iterator[ManagedPod]:
        """Yield the pods that are to be deleted: surplus ones, and ended ones whose successors may come.

        Bound surplus pods of a job that the scheduler sizes are deleted by the scheduler. A pod that is not
        counted yet is deleted later.
        """
        ranks, suspended = self._ranks, self._spec.suspend
        for surplus in (*ranks.surplus, *ranks.others):
            is_schedulers = ranks.needs_allocation and bool(surplus.spec.node_name) and not suspended
            may_go = not is_tracked(surplus) if has_stopped(surplus) else not is_schedulers
            if may_go and not surplus.terminating:
                yield surplus
        for rank in ranks.wanted:
            pod = ranks.pods.get(rank)
            if pod is None or pod.terminating or rank in ranks.completed:
                continue
            is_replaced = pod.finished and not is_tracked(pod) and self._now >= retry_time(pod)
            if is_replaced if not suspended else not pod.finished:
                yield pod

    # --- the status ---------------------------------------------------------------------------------------

    def _next_status(self, phase: Phase, failures: int, generation: int) -> DIJobStatus:
        """Return the status after this reconcile. Fields of other writers stay as they are."""
        before, now = self._status, to_datetime(self._now)
        conditions = before.conditions
        if before.phase is None and phase.name != "Pending":
            conditions = phases.enter(conditions, Phase("Pending", "Created"), self._now)
        conditions = phases.enter(conditions, phase, self._now)
        conditions = phases.suspend(conditions, suspended=self._spec.suspend, now=self._now)
        final = phases.is_finished(phase.name)
        start = None if self._spec.suspend else before.start_time
        if start is None and phase.name not in ("Pending", *FINISHED_PHASES):
            start = now
        return replace(
            before,
            phase=phase.name,
            conditions=conditions,
            generation=generation,
            failures=failures,
            counted=self._counted(self._ends),
            ready_replicas=0 if final else self._ready,
            workers=tuple(self._workers()),
            start_time=start,
            completion_timestamp=now if final else None,
            observed_generation=self._job.metadata.generation,
        )

    def _counted(self, ends: CountedEnds) -> tuple[str, ...]:
        """Return the counted uids. Dropping old ones alone is not worth a write, unless there are many."""
        before = self._before.status.counted
        drops_only = set(ends.uids) <= set(before) and len(before) < MAX_COUNTED
        return before if drops_only and not self._ends.new else ends.uids

    def _workers(self) -> Iterator[Worker]:
        """Yield the entry of every rank that is wanted, is nominated, or has a pod."""
        ranks, counted = self._ranks, set(self._counted_ranks())
        for rank in sorted({*self._wanted, *self._nominated_ranks(), *ranks.pods}):
            worker = ranks.workers.get(rank) or Worker(rank=rank)
            if rank in ranks.slots:
                name = f"{self._job.metadata.name}{ranks.slots[rank].suffix}"
                worker = worker if worker.pod == name else Worker(rank=rank, pod=name)
            pod = ranks.pods.get(rank)
            if pod is None:
                yield _without_pod(worker)
                continue
            after = _worker_of(worker, pod, completed=rank in ranks.completed)
            recreated = rank in counted and rank in self._wanted and rank not in ranks.completed
            restarts = after.restarts + (recreated and not self._spec.suspend)
            yield after if restarts == after.restarts else replace(after, restarts=restarts)

    def _nominated_ranks(self) -> Iterator[int]:
        for name in self._status.nominations if not self._spec.tasks else ():
            number = name.rpartition("-")[2]
            if number.isdigit():
                yield int(number)

    # --- the result ---------------------------------------------------------------------------------------

    def _changes(
        self,
        status: DIJobStatus,
        services: tuple[Create, ...],
        deletions: tuple[ManagedPod, ...],
        pods: tuple[Create, ...],
    ) -> Changes:
        job, resource = self._before, resource_of(TYPE.kind)
        patch = status_patch(job.status, status)
        first = (patch_status_of(resource, job.metadata, patch),) if patch else ()
        third: tuple[Write, ...] = (
            *map(release, self._ends.release),
            *(delete_object(PODS, pod.metadata) for pod in deletions),
        )
        regarding = reference_to(resource, job.metadata)
        events = [*phases.phase_events(regarding, job.status.conditions, status.conditions)]
        if deletions:
            text = describe_pods("Deleted", (pod.metadata.name for pod in deletions))
            events.append(ObjectEvent(regarding=regarding, reason="SuccessfulDelete", message=text))
        if pods:
            text = describe_pods("Created", (create.body["metadata"]["name"] for create in pods))
            events.append(ObjectEvent(regarding=regarding, reason="SuccessfulCreate", message=text))
        return Changes(
            stages=(first, services, third, pods), events=tuple(events), requeue_at=self._requeue_at(status)
        )

    def _requeue_at(self, status: DIJobStatus) -> float | None:
        """Return when time alone makes another reconcile due."""
        waiting = (self._ranks.pods.get(rank) for rank in self._ranks.missing)
        retries = (retry_time(pod) for pod in waiting if pod and has_stopped(pod))
        start, seconds = status.start_time, self._spec.active_deadline_seconds
        active = None if start is None or seconds is None else to_seconds(start) + seconds
        starting = self._starting_deadline() if status.phase == "Starting" else None
        later = [time for time in (active, starting, *retries) if time is not None and time > self._now]
        return earliest(*later)


def _with_size(job: ManagedDIJob) -> ManagedDIJob:
    """Return the job with the size that the controller decides on, if it does."""
    spec, status = job.spec, job.status
    if spec.tasks:
        size: int | None = sum(task.replicas for task in spec.tasks)
    elif spec.preemptible:
        return job
    elif status.replicas is None:
        size = spec.min_replicas
    elif status.observed_generation != job.metadata.generation:
        size = max(status.replicas, spec.min_replicas)
    else:
        return job
    return replace(job, status=replace(status, replicas=size)) if size != status.replicas else job


def _without_pod(worker: Worker) -> Worker:
    """Return the entry of a rank that has no pod now."""
    phase = worker.phase if worker.phase == "Succeeded" else ""
    if (worker.node, worker.ip, worker.phase) == ("", "", phase):
        return worker
    return replace(worker, node="", ip="", phase=phase, reason=worker.reason)


def _worker_of(worker: Worker, pod: ManagedPod, *, completed: bool) -> Worker:
    """Return the entry of a rank with its pod; the same object if nothing changed."""
    status = pod.status
    name, node, ip = pod.metadata.name, pod.spec.node_name, status.pod_ip
    if completed:
        phase = "Succeeded"
    elif has_stopped(pod):
        phase = "Failed"
    else:
        phase = "Terminating" if pod.terminating else status.phase
    if phase == "Running" and (worker.pod, worker.node, worker.ip, worker.phase) == (name, node, ip, phase):
        return worker
    reason = ""
    if phase == "Failed":
        reason = describe_end(pod)
    elif phase == "Pending":
        problem = phases.image_problem([pod])
        reason = problem[0] if problem else ""
    return replace(
        worker, pod=name, node=node, ip=ip, phase=phase, reason=reason, generation=generation_of(pod)
    )


def _created(pod: ManagedPod) -> datetime:
    return pod.metadata.creation_timestamp or to_datetime(0)


# --- the controller ----------------------------------------------------------------------------------------


def dijob_controller(stores: Stores, config: SchedulerConfig) -> Controller[DIJobView]:
    """Return the controller of DIJobs."""
    resource = resource_of(TYPE.kind).read_as(reader(ManagedDIJob))
    jobs, pods, services = stores.of(resource), stores.of(POD), stores.of(SERVICE)
    pods_by_job = pods.index(_job_of_pod)

    def get_view(key: Key) -> DIJobView | None:
        job, found = jobs.items.get(key), pods_by_job[key]
        if job is None and not found:
            return None
        uid = job.metadata.uid if job else None
        own = tuple(pod for pod in found if _owner(pod) == uid)
        orphans = tuple(pod for pod in found if _owner(pod) != uid) if len(own) < len(found) else ()
        if job is None:
            return DIJobView(job=None, orphans=orphans)
        service = services.items.get((key[0], service_name(job.metadata)))
        return DIJobView(
            job=job,
            pods=own,
            orphans=orphans,
            service=service if service and _is_controlled(service, job) else None,
            holder=lambda name: pods.items.get((key[0], name)),
        )

    return Controller(
        name="dijob-controller",
        resource=resource,
        get_view=get_view,
        reconcile=lambda view, now: reconcile(view, now, config),
        watches=(
            Watch(resource=POD, keys=_job_of_pod),
            Watch(resource=SERVICE, keys=_job_of_service),
        ),
        size=lambda view: len(view.pods),
    )


def _owner(pod: ManagedPod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner else ""


def _is_controlled(service: ManagedService, job: ManagedDIJob) -> bool:
    owner = service.metadata.controller
    return owner is not None and owner.uid == job.metadata.uid


def _job_of_pod(pod: ManagedPod) -> Iterator[Key]:
    """Yield the key of the job of a pod. A pod that lost its owner is found by the uid in its label."""
    owner = pod.metadata.controller
    if owner is not None:
        if owner.kind == TYPE.kind:
            yield pod.metadata.namespace, owner.name
    elif is_tracked(pod):
        yield pod.metadata.namespace, f"{_ORPHANS}{pod.metadata.labels.get(JOB_UID, '')}"


def _job_of_service(service: ManagedService) -> Iterator[Key]:
    owner = service.metadata.controller
    if owner is not None and owner.kind == TYPE.kind:
        yield service.metadata.namespace, owner.name
