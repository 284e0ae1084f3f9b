"""TYJob behind the JobKind interface."""

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
from shoal.kinds.base import FieldValues, JobKind, Manifest, PlannedJob, PodSummary, Relaxation, ScalePatch
from shoal.kinds.manifests import restart_policy_warnings, scale_member, template_pod_spec
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord
from shoal.kinds.relaxations import Counts, changed_fields, fewer_of_sets
from shoal.kinds.tyjob import SERVICE_PREFIX, TYPE, workload
from shoal.kinds.tyjob.types import TYJob, tyjob_errors
from shoal.kinds.workload_spec import WorkloadSpec

if TYPE_CHECKING:
    from shoal.controllers.runtime import Controller
    from shoal.controllers.stores import Stores


class TYJobKind(JobKind[TYJob], frozen=True, eq=False, kw_only=True):
    """Jobs with a leader and sets of workers."""

    def workload_spec(
        self,
        job: TYJob,
        classes: PodClassCache,
        pods: Sequence[PodRecord],  # noqa: ARG002 - its slots do not depend on its pods
        now: float,
    ) -> WorkloadSpec | None:
        return workload.workload_spec(job, classes, now)

    def status_after(self, planned: PlannedJob[TYJob]) -> msgspec.Struct:
        return workload.status_after(planned)

    def without_allocations(self, job: TYJob) -> TYJob:
        return replace(job, status=replace(job.status, allocations={}))

    def with_priority_class(self, job: TYJob, name: str, edit: Callable[[Template], Template]) -> TYJob:  # noqa: ARG002
        spec = job.spec
        leader = replace(spec.leader, template=edit(spec.leader.template))
        sets = tuple(replace(workers, template=edit(workers.template)) for workers in spec.worker_sets)
        return replace(job, spec=replace(spec, leader=leader, worker_sets=sets))

    def relaxations(self, job: TYJob) -> Iterator[Relaxation[TYJob]]:
        """All workers of a Gang start together, so it needs smaller sets; else a lower minimum will do."""
        spec = job.spec
        if spec.scheduler_policy.basic_policy != "Gang":
            yield Relaxation(
                "worker",
                spec.min_workers_num,
                1,
                lambda n: {"spec.minWorkersNum": n},
                lambda n: replace(job, spec=replace(spec, min_workers_num=n)),
            )
            return
        before = [workers.counts for workers in spec.worker_sets]

        def resized(counts: Counts) -> TYJob:
            sets = tuple(replace(one, counts=n) for one, n in zip(spec.worker_sets, counts, strict=True))
            least = min(spec.min_workers_num, sum(counts))
            return replace(job, spec=replace(spec, worker_sets=sets, min_workers_num=least))

        def fields(counts: Counts) -> FieldValues:
            found = changed_fields(before, counts, "spec.workerSets[{}].counts")
            return found | ({"spec.minWorkersNum": sum(counts)} if sum(counts) < spec.min_workers_num else {})

        yield from fewer_of_sets("worker", before, fields, resized)

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        yield from template_pod_spec(manifest["spec"].get("leader") or {}, "spec.leader")
        for i, workers in enumerate(manifest["spec"].get("workerSets") or ()):
            yield from template_pod_spec(workers, f"spec.workerSets[{i}]")

    def warnings(self, manifest: Manifest) -> Iterator[FieldError]:
        return restart_policy_warnings(self.pod_specs(manifest))

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:
        """Change the counts of one worker set."""
        names = [workers["name"] for workers in manifest["spec"]["workerSets"]]
        return scale_member(manifest, "workerSets", names, number="counts", replicas=replicas, role=role)

    def stop(self, manifest: Manifest) -> Manifest:  # noqa: ARG002 - the same for all
        return {"spec": {"terminating": True}}

    def pod_summaries(self, manifest: Manifest) -> Iterator[PodSummary]:
        name, status = manifest["metadata"]["name"], manifest.get("status") or {}
        for slot, restarts in (status.get("restarts") or {}).items():
            yield PodSummary(pod=f"{name}-{slot}", restarts=restarts)

    def host_names(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        """The leader and every worker have a host in the headless service of the job."""
        meta, status = manifest["metadata"], manifest.get("status") or {}
        if status.get("stage") in FINISHED_PHASES:
            return
        leader, *sets = self.roles(manifest)
        suffixes = [f"-{leader[0]}", *(f"-{name}-{i}" for name, counts in sets for i in range(int(counts)))]
        service = dns_label(meta["name"], meta["uid"], prefix=SERVICE_PREFIX)
        for suffix in suffixes:
            yield dns_label(meta["name"], meta["uid"], suffix=suffix), service

    def controller(self, stores: "Stores", config: SchedulerConfig) -> "Controller[Any]":
        from shoal.kinds.tyjob.controller import tyjob_controller  # noqa: PLC0415 - commands do not need it

        return tyjob_controller(stores, config)

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:
        spec = manifest["spec"]
        yield spec["leader"]["name"], 1
        for workers in spec.get("workerSets") or ():
            yield workers["name"], workers.get("counts", 1)


KIND: Final = TYJobKind(
    **msgspec.structs.asdict(TYPE),
    view=TYJob,
    errors=tyjob_errors,
    reports=True,
    columns=(
        Column("Stage", ".status.stage"),
        Column("Schedule", ".status.scheduleState"),
        Column("Ready", ".status.ready"),
        Column("Leader", ".status.leaderAddress"),
        Column("Priority", ".spec.priority", "integer", wide=True),
        Column("Policy", ".spec.schedulerPolicy.basicPolicy", wide=True),
        PROGRESS,
        AGE,
    ),
    selectable=(".status.stage", ".status.scheduleState"),
    role_fields=("leader", "workerSets", "volumes"),
    rules=(JOB_NAME_RULE,),
    mutability=Mutability(
        mutable=(
            "workerSets[].counts",
            "minWorkersNum",
            "restartLimit",
            "ttlSecondsAfterFinished",
            "cleanPodPolicy",
            "priority",
            "schedulerPolicy",
            "suspend",
            "terminating",
        ),
        only_to_true=("terminating",),
        phase="stage",
    ),
)
