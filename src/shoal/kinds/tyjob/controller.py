"""The controller of TYJobs: from a job, its pods and its service to the changes that are due.

Pure. The stage follows from the objects in each reconcile: rules are tried in order, and the first that
applies decides; those that end the job come before all others.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from shoal.cluster.resources import Resource, resource_of
from shoal.cluster.times import to_seconds
from shoal.controllers.changes import Changes, Create
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import describe_ends
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.phases import Phase, bound_at
from shoal.controllers.jobs.reconcile import JobReconcile, reconcile_job
from shoal.controllers.jobs.view import JobView, job_controller
from shoal.controllers.resources import reader
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.tyjob import TYPE
from shoal.kinds.tyjob.pods import PodBuilder, service_name
from shoal.kinds.tyjob.slots import TYSlot, leader_slot, read_slots, record_slots, recorded_slots
from shoal.kinds.tyjob.types import ManagedTYJob, TYJobStatus

_HOPELESS_IMAGES: Final = ("InvalidImageName", "ErrImageNeverPull")
"""Reasons of the kubelet for which a container will never start; others may be over soon."""

_READ_TYJOB: Final = reader(ManagedTYJob)


def tyjob_controller(stores: Stores, config: SchedulerConfig) -> Controller[JobView[ManagedTYJob]]:
    """Return the controller of TYJobs."""
    return job_controller(
        "tyjob-controller", _resource(), service_name, lambda view, now: reconcile(view, now, config), stores
    )


def reconcile(view: JobView[ManagedTYJob], now: float, config: SchedulerConfig) -> Changes:
    """Create, delete and count the pods of a TYJob, and write its status."""
    return reconcile_job(
        _resource(), view, now, lambda job: _TYJobReconcile(view, job, now, config).changes()
    )


def _resource() -> Resource[ManagedTYJob]:
    return resource_of(TYPE.kind).read_as(_READ_TYJOB)


class _TYJobReconcile(JobReconcile[ManagedTYJob, TYSlot]):
    """One reconcile of a TYJob that has not finished; its slots are the leader and the workers."""

    def __init__(
        self, view: JobView[ManagedTYJob], job: ManagedTYJob, now: float, config: SchedulerConfig
    ) -> None:
        slots = read_slots(job, view.pods)
        super().__init__(_resource(), view, before=job, job=job, slots=slots, now=now)
        self._config, self._builder = config, PodBuilder(job, config)
        self._leader: Final = leader_slot(job.spec)
        self._workers: Final = slots.wanted[1:]

    @property
    def service_name(self) -> str:
        return service_name(self.job.metadata)

    # --- stages that are final ----------------------------------------------------------------------------

    def ending(self) -> Phase | None:
        return (
            self._stopped()
            or self._leader_succeeded()
            or self._leader_failed_too_often()
            or self._left_with_too_few_workers()
            or self._never_fits()
            or self._without_image_of_leader()
        )

    def _stopped(self) -> Phase | None:
        if not self.job.spec.terminating:
            return None
        return Phase("Succeeded", "Terminating", "The job was stopped by spec.terminating")

    def _leader_succeeded(self) -> Phase | None:
        if self._leader not in self.slots.completed:
            return None
        return Phase("Succeeded", "LeaderSucceeded", f"Leader {self._builder.name(self._leader)} succeeded")

    def _leader_failed_too_often(self) -> Phase | None:
        if self._leader not in self._failed_too_often:
            return None
        text = f"{self._leader_failure}; restartLimit is {self.job.spec.restart_limit}"
        return Phase("Failed", "LeaderFailed", text)

    def _left_with_too_few_workers(self) -> Phase | None:
        left, least = len({*self._workers} - self._abandoned), self.job.spec.min_workers_num
        if left >= least:
            return None
        text = f"{left} of {self.job.spec.workers} workers are left, and minWorkersNum is {least}"
        failures = describe_ends([self.slots.pods[slot] for slot in self._failed_too_often])
        return Phase("Failed", "TooFewWorkers", f"{text}: {failures}" if failures else text)

    def _never_fits(self) -> Phase | None:
        deadline = self._fitting_deadline
        if deadline is None or self.now < deadline:
            return None
        scheduled = phases.condition(self.before.status.conditions, "Scheduled")
        return Phase("Failed", "NeverFits", scheduled.message if scheduled else "")

    def _without_image_of_leader(self) -> Phase | None:
        deadline, problem = self._image_deadline, self._image_problem
        if problem is None or deadline is None or self.now < deadline:
            return None
        return Phase("Failed", *problem)

    # --- other stages -------------------------------------------------------------------------------------

    def phase(self, due: Sequence[TYSlot]) -> Phase:  # noqa: ARG002 - it follows from nodes, not from pods
        return (
            self._leader_failed()
            or self._started()
            or self._running()
            or self._disrupted()
            or self._rescheduled()
            or self._short_of_image()
            or self._unchanged()
        )

    @property
    def _stage(self) -> str:
        return self.before.status.stage or "Pending"

    def _leader_failed(self) -> Phase | None:
        if self._stage == "Pending" or self._leader not in self.ended("failed"):
            return None
        return Phase("Starting", "LeaderFailed", self._leader_failure)

    def _started(self) -> Phase | None:
        if self._stage != "Pending" or not self._may_start:
            return None
        return self._with_nodes("Scheduled")

    def _running(self) -> Phase | None:
        if self._stage != "Starting" or not self._is_ready:
            return None
        return self._with_ready_pods()

    def _disrupted(self) -> Phase | None:
        if self._stage not in ("Starting", "Running"):
            return None
        pod = self.disrupted()
        if pod:
            return Phase("Rescheduling", "PodDisrupted", f"Pod was disrupted: {describe_ends([pod])}")
        if not self._has_node(self._leader):  # its node was lost before its pod was bound
            return Phase("Rescheduling", "NodeLost", "The leader has no node")
        return None

    def _rescheduled(self) -> Phase | None:
        """Wait for the ends of the disrupted pods, then for nodes.

        Which slots were disrupted is not recorded. So it is enough that the leader and the minimum have
        nodes, if they are not ready without the disrupted ones.
        """
        if self._stage != "Rescheduling" or self.disrupted():
            return None
        if self._workers_with_node == len(self._workers) and self._minimum_has_nodes:
            return self._with_nodes("Rescheduled")
        if self._is_ready:
            return self._with_ready_pods()
        if self._minimum_has_nodes:
            return self._with_nodes("Rescheduled")
        return None

    def _short_of_image(self) -> Phase | None:
        problem = phases.image_problem(self.slots.pods.values())
        return Phase(self._stage, *problem) if problem else None

    def _unchanged(self) -> Phase:
        if self._stage == "Running":
            return self._with_ready_pods()
        return self.same_phase(self._stage, "Waiting" if self._stage == "Pending" else "PodsCreated")

    def _with_nodes(self, reason: str) -> Phase:
        text = f"The leader and {self._workers_with_node} of {self.job.spec.workers} workers have nodes"
        return Phase("Starting", reason, text)

    def _with_ready_pods(self) -> Phase:
        text = f"{self._ready_workers} of {self.job.spec.workers} workers are ready"
        return Phase("Running", "PodsReady", text)

    # --- nodes, readiness and failures --------------------------------------------------------------------

    def _has_node(self, slot: TYSlot) -> bool:
        """Return whether a slot has a node, or needs none from us."""
        return (
            self._builder.name(slot) in self.before.status.allocations
            or slot in self.slots.completed
            or (self.slots.is_live(slot) and bool(self.slots.pods[slot].spec.node_name))
            or not self._builder.is_ours(slot)
        )

    @cached_property
    def _workers_with_node(self) -> int:
        return sum(map(self._has_node, self._workers))

    @cached_property
    def _ready_workers(self) -> int:
        return sum(map(self.slots.is_ready, self._workers))

    @property
    def _minimum_has_nodes(self) -> bool:
        return self._has_node(self._leader) and self._workers_with_node >= self.job.spec.min_workers_num

    @property
    def _may_start(self) -> bool:
        """Whether the minimum has nodes, and no pod from before a suspension still runs."""
        return self._minimum_has_nodes and not self.disrupted()

    @property
    def _is_ready(self) -> bool:
        return self.slots.is_ready(self._leader) and self._ready_workers >= self.job.spec.min_workers_num

    @cached_property
    def _restarts(self) -> dict[str, int]:
        """Restarts of each slot, with those that the failures counted now cause."""
        restarts = dict(self.before.status.restarts)
        for slot in self.ended("failed"):
            restarts[slot.name] = restarts.get(slot.name, 0) + 1
        return restarts

    @cached_property
    def _failed_too_often(self) -> list[TYSlot]:
        """Slots that exceed the restart limit by a failure that is counted now."""
        limit = self.job.spec.restart_limit
        return [slot for slot in self.ended("failed") if self._restarts[slot.name] > limit]

    @cached_property
    def _abandoned(self) -> set[TYSlot]:
        """Workers that are not started again."""
        recorded = recorded_slots(self.job.spec, self.before.status.failed)
        return {*recorded, *self._failed_too_often} - {self._leader}

    @property
    def _leader_failure(self) -> str:
        return f"Leader failed: {describe_ends([self.slots.pods[self._leader]])}"

    # --- deadlines ----------------------------------------------------------------------------------------

    def deadlines(self, phase: Phase) -> Iterator[float | None]:
        yield self._fitting_deadline if phase.name in ("Pending", "Rescheduling") else None
        yield self._image_deadline if phase.name == "Starting" else None

    @cached_property
    def _fitting_deadline(self) -> float | None:
        """Until when the scheduler may find that the job fits after all."""
        seconds, status = self._config.infeasible_seconds, self.before.status
        scheduled = phases.condition(status.conditions, "Scheduled")
        if seconds is None or status.schedule_state != "ScheduledFailed" or scheduled is None:
            return None
        since = scheduled.last_transition_time
        is_waiting = self._stage in ("Pending", "Rescheduling") and scheduled.reason == "NeverFits"
        return to_seconds(since) + seconds if since and is_waiting else None

    @cached_property
    def _image_deadline(self) -> float | None:
        """Until when the image of the leader may become available; None while there is no problem."""
        if self._image_problem is None:
            return None
        reason, _ = self._image_problem
        seconds, bound = self._config.infeasible_seconds, bound_at(self.slots.pods[self._leader])
        if reason in _HOPELESS_IMAGES:
            return self.now
        return None if seconds is None or bound is None else to_seconds(bound) + seconds

    @cached_property
    def _image_problem(self) -> tuple[str, str] | None:
        """Why the image of the leader cannot be pulled, while the job waits for its start."""
        leader = self.slots.pods.get(self._leader)
        return phases.image_problem([leader]) if leader and self._stage == "Starting" else None

    # --- creation -----------------------------------------------------------------------------------------

    def due(self) -> Sequence[TYSlot]:
        if self._stage == "Pending" and not self._may_start:
            return ()
        has_turn = self.slots.has_address(self._leader)
        missing = [slot for slot in self.slots.missing if has_turn or slot == self._leader]
        ready = [slot for slot in missing if self._has_node(slot) and self.may_follow(slot)]
        return [slot for slot in ready if self.is_free(self._builder.name(slot))]

    def creations(self, creates: Sequence[TYSlot]) -> Iterator[Create]:
        leader = self.slots.pods.get(self._leader)
        address = leader.status.pod_ip if leader else ""
        for slot in creates:
            restart = self._restarts.get(slot.name, 0)
            yield self._builder.create(slot, self.attempt(slot), restart, address)

    def roles(self) -> Mapping[str, RoleHosts]:
        return self._builder.roles(self.slots.wanted)

    # --- the status ---------------------------------------------------------------------------------------

    def status(self, phase: Phase, creates: Sequence[TYSlot]) -> TYJobStatus:
        before, total = self.before.status, self.job.spec.workers
        ready = 0 if phases.is_finished(phase.name) else self._ready_workers
        return replace(
            before,
            stage=phase.name,
            restarts=self._restarts,
            completed=record_slots(self.slots.completed),
            failed=record_slots(self._abandoned),
            leader_address=before.leader_address or (self._builder.leader_address if creates else ""),
            total_workers=total,
            ready_workers=ready,
            ready=f"{ready}/{total}",
            **self.common_fields(phase),
        )
