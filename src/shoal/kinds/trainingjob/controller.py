"""The controller of TrainingJobs: from a job, its pods and its service to the changes that are due.

Pure. The phase follows from the objects in each reconcile: rules are tried in order, and the first that
applies decides; those that end the job come before all others. The scheduler decides how many pods of each
role there are, and deletes what it takes away.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.decode import decode
from shoal.api.indexes import format_index_map
from shoal.api.managed import ManagedPod
from shoal.cluster.resources import Resource, Text, resource_of
from shoal.controllers.changes import Changes, Create
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import describe_ends, has_stopped, pod_end
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.phases import Phase
from shoal.controllers.jobs.reconcile import JobReconcile, reconcile_job
from shoal.controllers.jobs.view import JobView, job_controller
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.trainingjob import TYPE
from shoal.kinds.trainingjob.pods import PodBuilder, service_name
from shoal.kinds.trainingjob.slots import Instance, read_slots
from shoal.kinds.trainingjob.status import role_figures, score
from shoal.kinds.trainingjob.types import ManagedTrainingJob, TrainingJobStatus, normalise


def trainingjob_controller(
    stores: Stores, config: SchedulerConfig
) -> Controller[JobView[ManagedTrainingJob]]:
    """Return the controller of TrainingJobs."""
    return job_controller(
        "trainingjob-controller",
        _resource(),
        service_name,
        lambda view, now: reconcile(view, now, config),
        stores,
    )


def reconcile(view: JobView[ManagedTrainingJob], now: float, config: SchedulerConfig) -> Changes:
    """Create, delete and count the pods of a TrainingJob, and write its status."""
    return reconcile_job(
        _resource(), view, now, lambda job: _TrainingJobReconcile(view, job, now, config).changes()
    )


def _resource() -> Resource[ManagedTrainingJob]:
    return resource_of(TYPE.kind).read_as(read_trainingjob)


def read_trainingjob(text: Text) -> ManagedTrainingJob:
    """Decode a TrainingJob, with either spelling of its keys."""
    return decode(ManagedTrainingJob, normalise(msgspec.json.decode(text)))


class _TrainingJobReconcile(JobReconcile[ManagedTrainingJob, Instance]):
    """One reconcile of a TrainingJob that has not finished; its slots are the instances of the roles."""

    def __init__(
        self, view: JobView[ManagedTrainingJob], job: ManagedTrainingJob, now: float, config: SchedulerConfig
    ) -> None:
        slots = read_slots(job, view.pods)
        super().__init__(_resource(), view, before=job, job=job, slots=slots, now=now)
        self._builder: Final = PodBuilder(job, slots, config)
        self._trainers: Final = [one for one in slots.wanted if one.is_trainer]

    @property
    def service_name(self) -> str:
        return service_name(self.job.metadata)

    def keeps(self, surplus: ManagedPod) -> bool:
        """Keep what the scheduler deletes: bound pods."""
        return bool(surplus.spec.node_name) and not has_stopped(surplus)

    @cached_property
    def counted_now(self) -> dict[Instance, ManagedPod]:
        """Instances whose pod's end is counted now, whether they are wanted or not.

        The scheduler may have taken the nodes of all of them away before a failure was counted.
        """
        uids = {pod.metadata.uid for pod in self.ends.new}
        return {one: pod for one, pod in self.slots.pods.items() if pod.metadata.uid in uids}

    # --- phases that are final ----------------------------------------------------------------------------

    def ending(self) -> Phase | None:
        return self._failed() or self._succeeded()

    def _failed(self) -> Phase | None:
        """Any failed trainer ends the job; if it is fault tolerant, only the failure of all wanted ones."""
        failed = [self.slots.pods[one] for one in self.ended("failed") if one.is_trainer]
        if not failed:
            return None
        if not self.job.spec.fault_tolerant:
            return Phase("Failed", "TrainerFailed", f"Trainer failed: {describe_ends(failed)}")
        have_failed = bool(self._trainers) and all(map(self._has_failed, self._trainers))
        if not have_failed or any(map(self.slots.is_live, self._running_trainers)):
            return None
        return Phase("Failed", "AllTrainersFailed", f"All trainers failed: {describe_ends(failed)}")

    def _succeeded(self) -> Phase | None:
        """All trainers have succeeded; if the job is fault tolerant, one has and no other runs any more.

        The minimum counts as wanted, so that a job that was evicted as a whole has not succeeded.
        """
        succeeded = [one for one in self.slots.completed if one.is_trainer]
        if self.job.spec.fault_tolerant:
            is_over = bool(succeeded) and not self._running_trainers
        else:
            is_over = len(succeeded) == max(len(self._trainers), self.job.spec.trainer.min_instance)
        return (
            Phase("Succeeded", "TrainersSucceeded", f"{len(succeeded)} trainers succeeded")
            if is_over
            else None
        )

    def _has_failed(self, one: Instance) -> bool:
        pod = self.slots.pods.get(one)
        return pod is not None and has_stopped(pod) and pod_end(pod) == "failed"

    @cached_property
    def _running_trainers(self) -> list[Instance]:
        """Trainers that are live or terminating, also those that are not wanted any more."""
        return [one for one, pod in self.slots.pods.items() if one.is_trainer and not has_stopped(pod)]

    # --- other phases -------------------------------------------------------------------------------------

    def phase(self, due: Sequence[Instance]) -> Phase:
        return (
            self._without_nodes()
            or self._created(due)
            or self._running()
            or self._scaling()
            or self._short_of_image()
            or self.same_phase(self._phase_now, "Waiting" if self._phase_now == "Pending" else "PodsCreated")
        )

    @property
    def _phase_now(self) -> str:
        return self.before.status.phase or "Pending"

    def _without_nodes(self) -> Phase | None:
        """The job was evicted as a whole: nothing is wanted but what has succeeded."""
        if self._phase_now == "Pending" or not self.slots.completed.issuperset(self.slots.wanted):
            return None
        return Phase("Pending", "Evicted", "The job was evicted and waits for nodes")

    def _created(self, due: Sequence[Instance]) -> Phase | None:
        if self._phase_now != "Pending" or not (due or any(map(self.slots.is_live, self.slots.wanted))):
            return None
        return Phase("Creating", "PodsCreated")

    def _running(self) -> Phase | None:
        is_whole = all(map(self.slots.is_ready, self.slots.wanted)) and not self.has_surplus()
        if self._phase_now not in ("Creating", "Scaling") or not is_whole:
            return None
        pods = len(self.slots.wanted)
        return Phase("Running", "PodsReady", f"{pods} of {pods} pods are ready")

    def _scaling(self) -> Phase | None:
        """A resize, or a pod that is recreated; a failure is described in other phases, too."""
        missing = {*self.slots.missing}
        failed = [self.slots.pods[one] for one in self.ended("failed") if one in missing]
        if failed:
            name = "Scaling" if self._phase_now == "Running" else self._phase_now
            return Phase(name, "PodFailed", f"Pod failed: {describe_ends(failed)}")
        if self._phase_now != "Running" or not (missing or self.has_surplus()):
            return None
        disrupted = self.disrupted()
        if disrupted:
            return Phase("Scaling", "PodDisrupted", f"Pod was disrupted: {describe_ends([disrupted])}")
        return Phase("Scaling", "PodsMissing" if missing else "PodsSurplus")

    def _short_of_image(self) -> Phase | None:
        problem = phases.image_problem(self.slots.pods.values())
        return Phase(self._phase_now, *problem) if problem else None

    def roles(self) -> Mapping[str, RoleHosts]:
        return self._builder.roles()

    # --- creation -----------------------------------------------------------------------------------------

    def due(self) -> Sequence[Instance]:
        """Return the missing pods of a role once all roles before it are ready."""
        missing = [one for one in self.slots.missing if one.role in self._open_roles]
        return [one for one in missing if self.may_follow(one) and self.is_free(self._builder.name(one))]

    @cached_property
    def _open_roles(self) -> set[str]:
        """Roles whose pods may be created: the first one that is not ready, and those before it."""
        roles = tuple(self.job.spec.roles)
        ready = takewhile(self._is_role_ready, roles)
        return set(roles[: len(list(ready)) + 1])

    def _is_role_ready(self, role: str) -> bool:
        wanted = [one for one in self.slots.wanted if one.role == role]
        return bool(wanted) and all(map(self.slots.is_ready, wanted))

    def creations(self, creates: Sequence[Instance]) -> Iterator[Create]:
        for one in creates:
            yield self._builder.create(one, self.attempt(one))

    # --- the status ---------------------------------------------------------------------------------------

    def status(self, phase: Phase, creates: Sequence[Instance]) -> TrainingJobStatus:  # noqa: ARG002 - what is created does not show
        failed, final = self.ended("failed"), phases.is_finished(phase.name)
        return replace(
            self.before.status,
            phase=phase.name,
            replicas=role_figures(self.job, self.slots, failed, final=final),
            completed=format_index_map(self.slots.completed),
            failed=format_index_map(self.slots.abandoned),
            score=score(self.job),
            **self.common_fields(phase),
        )
