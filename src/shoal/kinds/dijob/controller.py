"""The controller of DIJobs: from a job, its pods and its service to the changes that are due.

Pure. The phase follows from the objects in each reconcile: rules are tried in order, and the first that
applies decides.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from shoal.api.indexes import format_indexes
from shoal.api.managed import ManagedPod
from shoal.cluster.resources import Resource, resource_of
from shoal.cluster.times import to_seconds
from shoal.controllers.changes import Changes, Create
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import describe_end, describe_ends, has_stopped
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.phases import Phase
from shoal.controllers.jobs.reconcile import JobReconcile, reconcile_job
from shoal.controllers.jobs.view import JobView, job_controller
from shoal.controllers.resources import reader
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import TYPE
from shoal.kinds.dijob.pods import PodBuilder, attached_ranks, service_name
from shoal.kinds.dijob.ranks import Ranks, generation_of, read_ranks
from shoal.kinds.dijob.status import cost_of, is_lost, with_size, workers_of
from shoal.kinds.dijob.types import DIJobStatus, ManagedDIJob, Worker

_READ_DIJOB: Final = reader(ManagedDIJob)


def dijob_controller(stores: Stores, config: SchedulerConfig) -> Controller[JobView[ManagedDIJob]]:
    """Return the controller of DIJobs."""
    return job_controller(
        "dijob-controller", _resource(), service_name, lambda view, now: reconcile(view, now, config), stores
    )


def reconcile(view: JobView[ManagedDIJob], now: float, config: SchedulerConfig) -> Changes:
    """Create, delete and count the pods of a DIJob, and write its status."""
    return reconcile_job(
        _resource(), view, now, lambda job: _DIJobReconcile(view, job, now, config).changes()
    )


def _resource() -> Resource[ManagedDIJob]:
    return resource_of(TYPE.kind).read_as(_READ_DIJOB)


def _ranks_text(ranks: Collection[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_indexes(ranks)}"


class _DIJobReconcile(JobReconcile[ManagedDIJob, int]):
    """One reconcile of a DIJob that has not finished; its slots are the ranks."""

    def __init__(
        self, view: JobView[ManagedDIJob], before: ManagedDIJob, now: float, config: SchedulerConfig
    ) -> None:
        job = with_size(before, config)
        self._config: Final = config
        self._ranks: Final[Ranks] = read_ranks(job, view.pods, config)
        super().__init__(_resource(), view, before=before, job=job, slots=self._ranks.slots, now=now)

    @property
    def service_name(self) -> str:
        return service_name(self.job.metadata)

    def keeps(self, surplus: ManagedPod) -> bool:
        """Keep what the scheduler deletes: bound pods of a job that it sizes."""
        return self._ranks.is_elastic and bool(surplus.spec.node_name) and not has_stopped(surplus)

    @cached_property
    def counted_now(self) -> dict[int, ManagedPod]:
        """Wanted ranks whose pod's end is counted now. Those of a suspended job were asked to stop."""
        return {} if self.job.spec.suspend else super().counted_now

    def lost_pods(self) -> Iterator[str]:
        for rank, worker in self._ranks.workers.items():
            if rank not in self.slots.pods and is_lost(worker) and not self.view.pod_named(worker.pod):
                yield worker.pod

    # --- the phase ----------------------------------------------------------------------------------------

    def phase(self, due: Sequence[int]) -> Phase:
        """Return the phase: the first rule that applies decides."""
        return (
            self._past_active_deadline()
            or self._succeeded()
            or self._failed()
            or self._scaled_to_zero()
            or self._restarted_by_disruption()
            or self._running()
            or self._past_starting_deadline()
            or self._started(due)
            or self._resized()
            or self._short_of_image()
            or self._unchanged()
        )

    @property
    def _phase_now(self) -> str:
        return self.before.status.phase or "Pending"

    def _past_active_deadline(self) -> Phase | None:
        deadline = self._active_deadline
        if deadline is None or self.now < deadline:
            return None
        text = f"The job was active for {self.job.spec.active_deadline_seconds} s"
        return Phase("Failed", "DeadlineExceeded", text)

    def _succeeded(self) -> Phase | None:
        wanted = self.slots.wanted
        if not wanted or not self.slots.completed.issuperset(wanted):
            return None
        return Phase("Succeeded", "WorkersSucceeded", f"{len(wanted)} of {len(wanted)} workers succeeded")

    def _failed(self) -> Phase | None:
        failed = self._failed_pods
        if not failed:
            return None
        name = "Failed" if self._failures > self.job.spec.failure_limit else "Restarting"
        return Phase(name, "WorkerFailed", f"Worker failed: {describe_ends(failed)}")

    def _scaled_to_zero(self) -> Phase | None:
        return None if self.slots.wanted else Phase("Pending", "ScaledToZero", "The job is scaled to 0")

    def _restarted_by_disruption(self) -> Phase | None:
        """A job that is Pending has no workers; pods that still terminate are from before."""
        pod = self.disrupted() if self._phase_now != "Pending" else None
        if pod is None:
            return None
        text = f"Worker {pod.metadata.name} was disrupted: {describe_end(pod)}"
        return Phase("Restarting", "WorkerDisrupted", text)

    def _running(self) -> Phase | None:
        workers = len(self.slots.wanted)
        whole = self._ready == workers and not self.has_surplus()
        if not whole or self._phase_now not in ("Starting", "Restarting"):
            return None
        return Phase("Running", "WorkersReady", f"{workers} of {workers} workers are ready")

    def _past_starting_deadline(self) -> Phase | None:
        deadline = self._starting_deadline if self._phase_now == "Starting" else None
        if deadline is None or self.now < deadline:
            return None
        problem = phases.image_problem(self.slots.pods.values())
        workers, seconds = len(self.slots.wanted), self.job.spec.starting_deadline_seconds
        text = f"{self._ready} of {workers} workers were ready after {seconds} s"
        return Phase("Failed", "StartingDeadlineExceeded", f"{text}: {problem[1]}" if problem else text)

    def _started(self, due: Sequence[int]) -> Phase | None:
        """From the first worker on: one that cannot start would keep a star job from its deadline."""
        if self._phase_now != "Pending" or not (due or any(map(self.slots.is_live, self.slots.wanted))):
            return None
        return Phase("Starting", "WorkersCreated", f"Creating workers: {_ranks_text(self.slots.wanted)}")

    def _resized(self) -> Phase | None:
        if self._phase_now != "Running":
            return None
        if missing := self.slots.missing:
            return Phase("Restarting", "WorkersMissing", f"Creating workers: {_ranks_text(missing)}")
        if self.has_surplus():
            text = f"Removing workers: {_ranks_text(self.slots.surplus)}"
            return Phase("Restarting", "WorkersSurplus", text)
        return None

    def _short_of_image(self) -> Phase | None:
        waits = self._phase_now in ("Starting", "Restarting")
        problem = phases.image_problem(self.slots.pods.values()) if waits else None
        return Phase(self._phase_now, *problem) if problem else None

    def _unchanged(self) -> Phase:
        """Return the present phase. The reason why a job became Pending does not apply any more."""
        if self._phase_now == "Pending":
            return Phase("Pending", "Waiting", "No worker can be created yet")
        if self._phase_now == "Starting":
            text = f"{self._ready} of {len(self.slots.wanted)} workers are ready"
            return Phase("Starting", "WorkersCreated", text)
        return self.same_phase(self._phase_now, "WorkersCreated")

    @cached_property
    def _failed_pods(self) -> list[ManagedPod]:
        """Pods that failed, as counted now."""
        return [self.slots.pods[rank] for rank in self.ended("failed")]

    @cached_property
    def _failures(self) -> int:
        since = phases.entered_at(self.before.status.conditions, "Restarting")
        return (self.before.status.failures or 0) + cost_of(self._failed_pods, since)

    @cached_property
    def _ready(self) -> int:
        return sum(map(self.slots.is_ready, self.slots.wanted))

    # --- deadlines ----------------------------------------------------------------------------------------

    def deadlines(self, phase: Phase) -> Iterator[float | None]:
        yield self._active_deadline
        yield self._starting_deadline if phase.name == "Starting" else None

    @property
    def _active_deadline(self) -> float | None:
        seconds, start = self.job.spec.active_deadline_seconds, self.before.status.start_time
        return None if seconds is None or start is None else to_seconds(start) + seconds

    @cached_property
    def _starting_deadline(self) -> float | None:
        """Until when all workers must be ready; None while one has no node: waiting is not starting."""
        seconds = self.job.spec.starting_deadline_seconds
        began = phases.entered_at(self.before.status.conditions, "Starting")
        if seconds is None or began is None or self._waits_for_node:
            return None
        bound = filter(None, map(phases.bound_at, self.slots.pods.values()))
        return to_seconds(max([began, *bound])) + seconds

    @property
    def _waits_for_node(self) -> bool:
        live = (pod for pod in self.slots.pods.values() if pod.active)
        return any(not pod.spec.node_name for pod in live) or not all(
            map(self._may_have_node, self.slots.missing)
        )

    # --- creation -----------------------------------------------------------------------------------------

    def due(self) -> Sequence[int]:
        missing = [rank for rank in self.slots.missing if self._may_have_node(rank)]
        ready = [rank for rank in missing if self.may_follow(rank) and self._has_peers(rank)]
        builder = self._builder(ready)
        return [rank for rank in ready if self.is_free(builder.name(rank))]

    def creations(self, creates: Sequence[int]) -> Iterator[Create]:
        builder = self._builder(creates)
        for rank in creates:
            yield builder.create(rank, self.attempt(rank), self._restarts(rank))

    def roles(self) -> Mapping[str, RoleHosts]:
        return self._builder(()).roles()

    def _restarts(self, rank: int) -> int:
        """Return how often a rank was recreated, this time included."""
        return self._workers[rank].restarts

    def _may_have_node(self, rank: int) -> bool:
        nodes = self.before.status.allocation
        return not self._ranks.is_elastic or (rank < len(nodes) and bool(nodes[rank]))

    def _has_peers(self, rank: int) -> bool:
        """Return whether all ranks that a rank attaches to have addresses.

        In tasks form the command line decides on the topology, so all lower ranks count.
        """
        if self.job.spec.tasks or self.job.spec.engine_fields.topology == "mesh":
            return self._first_without_address >= rank
        return all(map(self.slots.has_address, attached_ranks(self.job.spec, self.slots, rank)))

    @cached_property
    def _first_without_address(self) -> float:
        """The lowest rank that has no address yet. Completed ranks are not waited for."""
        waited = (rank for rank in self.slots.wanted if rank not in self.slots.completed)
        return next((rank for rank in waited if not self.slots.has_address(rank)), float("inf"))

    def _builder(self, creates: Sequence[int]) -> PodBuilder:
        return PodBuilder(self.job, self._ranks, self._next_generation(creates), self._config)

    def _next_generation(self, creates: Sequence[int]) -> int:
        """Return the generation of new pods: a rank has at most one pod in each generation."""
        present = self.before.status.generation or 0
        return present + any(self._last_generation(rank) == present for rank in creates)

    def _last_generation(self, rank: int) -> int | None:
        pod, worker = self.slots.pods.get(rank), self._ranks.workers.get(rank)
        known = generation_of(pod) if pod else None
        return worker.generation if known is None and worker else known

    # --- the status ---------------------------------------------------------------------------------------

    def status(self, phase: Phase, creates: Sequence[int]) -> DIJobStatus:
        final = phases.is_finished(phase.name)
        return replace(
            self.job.status,
            phase=phase.name,
            generation=self._next_generation(creates),
            failures=self._failures,
            ready_replicas=0 if final else self._ready,
            workers=tuple(self._workers.values()),
            **self.common_fields(phase),
        )

    @cached_property
    def _workers(self) -> dict[int, Worker]:
        return {one.rank: one for one in workers_of(self.job, self._ranks, self._recreated)}

    @property
    def _recreated(self) -> Collection[int]:
        """The ranks whose pods have ended now. The pods of a job that is Pending were not to run on."""
        if self._phase_now == "Pending" or self.job.spec.suspend:
            return ()
        uids = {pod.metadata.uid for pod in self.ends.new}
        return {rank for rank, pod in self.slots.pods.items() if pod.metadata.uid in uids}
