"""TYJob: a leader and sets of workers."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec

from shoal.api.fields import FieldError, shown
from shoal.api.indexes import IndexRanges
from shoal.api.managed import ManagedMeta
from shoal.api.meta import (
    MAX_PODS,
    Conditions,
    Count,
    Int32,
    Object,
    Positive,
    Seconds,
    Time,
    View,
    cel_rule,
    description,
    job_metadata_errors,
)
from shoal.api.names import DNS_LABEL, dns_label_errors, parse_small_int
from shoal.api.podspec import Template, template_errors
from shoal.engine.workload import PlacementPolicy


class Leader(View, frozen=True, kw_only=True):
    """The learner."""

    name: Annotated[str, description("Name of the leader; a DNS label.", DNS_LABEL)]
    template: Annotated[Template, description("Pod template of the leader.")]


class WorkerSet(View, frozen=True, kw_only=True):
    """Actors that are started alike."""

    name: Annotated[str, description("Name of the set; a DNS label.", DNS_LABEL)]
    template: Annotated[Template, description("Pod template of the workers.")]
    counts: Annotated[Positive, description("Number of workers.")] = 1


class SchedulerPolicy(View, frozen=True, kw_only=True):
    """How the job is ordered among others and how its pods are placed."""

    job_queue_policy: Annotated[Literal["Priority", "DRF"], description("Order among jobs.")] = "Priority"
    basic_policy: Annotated[PlacementPolicy, description("Placement of the job's pods.")] = "BinPack"


class TYJobSpec(View, frozen=True, kw_only=True):
    """`spec` of a TYJob."""

    leader: Annotated[Leader, description("The learner.")]
    worker_sets: Annotated[
        tuple[WorkerSet, ...],
        msgspec.Meta(min_length=1),
        description("The actors.", list_type="map", list_map_keys=["name"]),
    ]
    restart_limit: Annotated[Count, description("How often the leader or a worker may be restarted.")] = 3
    volumes: Annotated[tuple[dict[str, Any], ...], description("Volumes added to every pod.")] = ()
    clean_pod_policy: Annotated[
        Literal["Running", "All", "None"], description("Which pods are deleted when the job has finished.")
    ] = "All"
    terminating: Annotated[bool, description("End the job now, as succeeded.")] = False
    min_workers_num: Annotated[Positive, description("Workers needed to start.")] = 1
    priority: Annotated[
        int, msgspec.Meta(ge=1, le=10), description("Place in the queue, larger first; causes no evictions.")
    ] = 5
    scheduler_policy: Annotated[SchedulerPolicy, description("How the job is scheduled.")] = SchedulerPolicy()
    suspend: Annotated[bool, description("Stop all pods until set to false.")] = False
    ttl_seconds_after_finished: Annotated[
        Seconds | None, description("Seconds until a finished job is deleted.")
    ] = None

    @property
    def workers(self) -> int:
        """Workers of all sets."""
        return sum(workers.counts for workers in self.worker_sets)


class TYJobStatus(View, frozen=True, kw_only=True):
    """`status` of a TYJob."""

    stage: Annotated[
        Literal["Pending", "Starting", "Running", "Rescheduling", "Succeeded", "Failed"] | None,
        description("Phase of the job."),
    ] = None
    schedule_state: Annotated[
        Literal["Unscheduled", "ScheduledPartly", "ScheduledSucceed", "ScheduledFailed"] | None,
        description("How many of its pods have nodes."),
    ] = None
    restarts: Annotated[
        dict[str, Int32],
        description("How often each pod was restarted, by its name without that of the job."),
    ] = {}
    leader_address: Annotated[str, description("Where workers find the leader.")] = ""
    completed: Annotated[
        dict[str, IndexRanges], description("Indexes of pods that succeeded, by role or set.")
    ] = {}
    failed: Annotated[
        dict[str, IndexRanges], description("Indexes of pods that are not started again, by role or set.")
    ] = {}
    counted: Annotated[
        tuple[str, ...], description("Uids of ended pods that are counted and not released yet.")
    ] = ()
    total_workers: Annotated[Int32 | None, description("Workers of all sets.")] = None
    ready_workers: Annotated[Int32 | None, description("Workers that are ready.")] = None
    ready: Annotated[str, description("Ready workers of all workers.")] = ""
    allocations: Annotated[dict[str, str], description("Node of each pod, by the pod's name.")] = {}
    nominations: Annotated[dict[str, str], description("Node on which room is reserved for each pod.")] = {}
    broken_since: Annotated[Time | None, description("When the job lost part of its minimum.")] = None
    whole_minimum: Annotated[
        Count | None, description("The minimum with which the job was whole the last time.")
    ] = None
    profilings: Annotated[dict[str, Any], description("What the workers reported.")] = {}
    conditions: Conditions = ()
    observed_generation: Annotated[
        int | None, description("Generation of the spec that the controller has seen.")
    ] = None
    start_time: Annotated[Time | None, description("When the first pod was created.")] = None
    completion_timestamp: Annotated[Time | None, description("When the job ended.")] = None


_RULES: Final = [
    cel_rule(
        "self.workerSets.all(w, w.name != self.leader.name)", "no worker set may be named as the leader"
    ),
    cel_rule(
        "self.minWorkersNum <= self.workerSets.map(w, w.counts).sum()",
        "minWorkersNum must be at most the number of workers",
    ),
]


class TYJob(Object, frozen=True, kw_only=True):
    """A job of a leader and workers."""

    spec: Annotated[TYJobSpec, description("Desired state.", validations=_RULES)]
    status: Annotated[TYJobStatus, description("Observed state.")] = TYJobStatus()

    @property
    def workers(self) -> int:
        """Workers of all sets."""
        return self.spec.workers


class ManagedTYJob(View, frozen=True, kw_only=True):
    """A TYJob as its controller reads it."""

    metadata: ManagedMeta
    spec: TYJobSpec
    status: TYJobStatus = TYJobStatus()

    @property
    def phase(self) -> str | None:
        """The stage; None if the job is new."""
        return self.status.stage

    @property
    def clean_pod_policy(self) -> Literal["Running", "All", "None"]:
        """Which pods are deleted when the job has finished."""
        return self.spec.clean_pod_policy


def tyjob_errors(job: TYJob) -> Iterator[FieldError]:
    """Everything that is wrong with a TYJob."""
    yield from job_metadata_errors(job.metadata)
    yield from _member_errors(job.spec.leader, "spec.leader")
    names = {job.spec.leader.name: "spec.leader"}
    for i, workers in enumerate(job.spec.worker_sets):
        path = f"spec.workerSets[{i}]"
        yield from _member_errors(workers, path)
        first = names.setdefault(workers.name, path)
        if first != path:
            message = f"must be unique, and {first} is named '{shown(workers.name)}' too"
            yield FieldError(f"{path}.name", message, (f"{path}.name", f"{first}.name"))
        yield from _clash_errors(job.spec.leader, workers, path)
    yield from _minimum_errors(job)


def _member_errors(member: Leader | WorkerSet, path: str) -> Iterator[FieldError]:
    yield from template_errors(member.template, f"{path}.template")
    yield from dns_label_errors(member.name, f"{path}.name")


def _clash_errors(leader: Leader, workers: WorkerSet, path: str) -> Iterator[FieldError]:
    """Complain when the leader's pod would be named as a worker's: a set `w` has `w-0`, `w-1` and so on."""
    name, _, text = leader.name.rpartition("-")
    index = parse_small_int(text)
    if name == workers.name and index is not None and index < workers.counts and str(index) == text:
        message = f"must not be '{shown(leader.name)}', which is worker {index} of {path}"
        yield FieldError("spec.leader.name", message, ("spec.leader.name", f"{path}.name", f"{path}.counts"))


def _minimum_errors(job: TYJob) -> Iterator[FieldError]:
    if job.workers > MAX_PODS:
        yield FieldError("spec.workerSets", f"must have at most {MAX_PODS} workers in all, not {job.workers}")
    if job.spec.min_workers_num > job.workers:
        counts = (f"spec.workerSets[{i}].counts" for i in range(len(job.spec.worker_sets)))
        message = f"must be at most the number of workers, {job.workers}"
        yield FieldError("spec.minWorkersNum", message, ("spec.minWorkersNum", *counts))
