"""DIJob behind the JobKind interface."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.fields import FieldError
from shoal.api.kinds import AGE, PROGRESS, Column
from shoal.api.meta import JOB_NAME_RULE
from shoal.api.mutability import Mutability
from shoal.api.podspec import Template
from shoal.controllers.jobs.names import dns_label
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import (
    CannotScaleError,
    JobKind,
    Manifest,
    PlannedJob,
    PodSummary,
    PolicyInputs,
    Relaxation,
    ReplicaApi,
    ScalePatch,
)
from shoal.kinds.dijob import SERVICE_PREFIX, TYPE, workload
from shoal.kinds.dijob.types import MAX_RANKS, DIJob, dijob_errors
from shoal.kinds.manifests import restart_policy_warnings, scale_member, template_pod_spec
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord
from shoal.kinds.relaxations import Counts, changed_fields, fewer_of_sets
from shoal.kinds.workload_spec import WorkloadSpec

if TYPE_CHECKING:
    from shoal.controllers.runtime import Controller
    from shoal.controllers.stores import Stores


class DIJobKind(JobKind[DIJob], frozen=True, eq=False, kw_only=True):
    """DIJobs in template form and in tasks form."""

    def workload_spec(
        self, job: DIJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
    ) -> WorkloadSpec | None:
        return workload.workload_spec(job, classes, pods, now)

    def status_after(self, planned: PlannedJob[DIJob]) -> msgspec.Struct:
        return workload.status_after(planned)

    def without_allocations(self, job: DIJob) -> DIJob:
        return replace(job, status=replace(job.status, allocation=()))

    def policy_inputs(self, job: DIJob) -> PolicyInputs:
        return PolicyInputs(requested=job.status.requested_replicas, profilings=job.status.profilings)

    def with_priority_class(self, job: DIJob, name: str, edit: Callable[[Template], Template]) -> DIJob:  # noqa: ARG002
        spec = job.spec
        tasks = tuple(replace(task, template=edit(task.template)) for task in spec.tasks)
        template = None if spec.template is None else edit(spec.template)
        return replace(job, spec=replace(spec, tasks=tasks, template=template))

    def relaxations(self, job: DIJob) -> Iterator[Relaxation[DIJob]]:
        spec = job.spec
        if not spec.tasks:
            yield Relaxation(
                "replica",
                spec.min_replicas,
                1,
                lambda n: {"spec.minReplicas": n},
                lambda n: replace(job, spec=replace(spec, min_replicas=n)),
            )
            return
        before = [task.replicas for task in spec.tasks]

        def resized(counts: Counts) -> DIJob:
            tasks = tuple(replace(task, replicas=n) for task, n in zip(spec.tasks, counts, strict=True))
            return replace(job, spec=replace(spec, tasks=tasks))

        path = "spec.tasks[{}].replicas"
        yield from fewer_of_sets("pod", before, lambda after: changed_fields(before, after, path), resized)

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        yield from template_pod_spec(manifest["spec"], "spec")
        for i, task in enumerate(manifest["spec"].get("tasks") or ()):
            yield from template_pod_spec(task, f"spec.tasks[{i}]")

    def warnings(self, manifest: Manifest) -> Iterator[FieldError]:
        return restart_policy_warnings(self.pod_specs(manifest))

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:
        """Change the replicas of one task; without tasks the size, or if preemptible the requested size."""
        spec = manifest["spec"]
        if spec.get("tasks"):
            names = [task.get("name") or task.get("type", "") for task in spec["tasks"]]
            return scale_member(manifest, "tasks", names, number="replicas", replicas=replicas, role=role)
        if role:
            raise CannotScaleError("has one template and no tasks: leave out --role")
        if not spec.get("preemptible"):
            if replicas > MAX_RANKS:
                raise CannotScaleError(f"can have at most {MAX_RANKS} replicas, not {replicas}")
            return ScalePatch({"status": {"replicas": replicas}}, "status")
        least = spec.get("minReplicas", 1)
        most = spec.get("maxReplicas") or max(least, 1)
        if not least <= replicas <= most:
            raise CannotScaleError(
                f"needs a size between minReplicas, {least}, and maxReplicas, {most}, not {replicas}: change "
                "these in its file and `shoal apply` it"
            )
        return ScalePatch({"status": {"requestedReplicas": replicas}}, "status")

    def scale_automatically(self, manifest: Manifest) -> ScalePatch:
        spec = manifest["spec"]
        if spec.get("tasks") or not spec.get("preemptible"):
            raise CannotScaleError(
                "is not sized automatically, as only a preemptible job in template form is: give --replicas "
                "a number"
            )
        return ScalePatch({"status": {"requestedReplicas": None}}, "status")

    def pod_summaries(self, manifest: Manifest) -> Iterator[PodSummary]:
        for worker in (manifest.get("status") or {}).get("workers") or ():
            phase = worker.get("phase", "")
            yield PodSummary(
                pod=worker.get("pod", ""),
                rank=worker["rank"],
                phase=phase if phase in FINISHED_PHASES else "",  # others are those of a pod that exists
                restarts=worker.get("restarts", 0),
                reason=worker.get("reason", ""),
            )

    def host_names(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        """Every rank, and every pod of a task, has a host in the headless service of the job."""
        meta, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status") or {}
        if status.get("phase") in FINISHED_PHASES:
            return
        size = max(status.get("replicas") or 0, spec.get("minReplicas", 1), spec.get("maxReplicas") or 1)
        suffixes = [f"-{rank}" for rank in range(0 if spec.get("tasks") else size)]
        suffixes += [f"-{task}-{i}" for task, replicas in self.roles(manifest) for i in range(int(replicas))]
        service = dns_label(meta["name"], meta["uid"], prefix=SERVICE_PREFIX)
        for suffix in suffixes:
            yield dns_label(meta["name"], meta["uid"], suffix=suffix), service

    @property
    def replica_api(self) -> ReplicaApi[Any]:
        from shoal.kinds.dijob.replicas import REPLICA_API  # noqa: PLC0415 - commands do not need it

        return REPLICA_API

    def controller(self, stores: "Stores", config: SchedulerConfig) -> "Controller[Any]":
        from shoal.kinds.dijob.controller import dijob_controller  # noqa: PLC0415 - commands do not need it

        return dijob_controller(stores, config)

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:
        for task in manifest["spec"].get("tasks") or ():
            yield task.get("name") or task.get("type", ""), task.get("replicas", 1)


KIND: Final = DIJobKind(
    **msgspec.structs.asdict(TYPE),
    view=DIJob,
    errors=dijob_errors,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Replicas", ".status.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Restarts", ".status.generation", "integer"),
        Column("Group", ".spec.group", wide=True),
        Column("Priority", ".spec.priority", wide=True),
        PROGRESS,
        AGE,
    ),
    selectable=(".status.phase",),
    role_fields=("template", "tasks", "volumes"),
    reports=True,
    rules=(JOB_NAME_RULE,),
    mutability=Mutability(
        mutable=(
            "minReplicas",
            "maxReplicas",
            "tasks[].replicas",
            "backoffLimit",
            "startingDeadlineSeconds",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
            "cleanPodPolicy",
            "priority",
            "suspend",
        )
    ),
)
