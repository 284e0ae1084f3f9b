"""TrainingJob behind the JobKind interface."""

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
    PolicyInputs,
    Relaxation,
    ScalePatch,
)
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord
from shoal.kinds.trainingjob import ROLES, SERVICE_PREFIX, TYPE, workload
from shoal.kinds.trainingjob.types import OTHER_SPELLINGS, TrainingJob, normalise, trainingjob_errors
from shoal.kinds.workload_spec import WorkloadSpec

if TYPE_CHECKING:
    from shoal.controllers.runtime import Controller
    from shoal.controllers.stores import Stores


class TrainingJobKind(JobKind[TrainingJob], frozen=True, eq=False, kw_only=True):
    """Elastic jobs with trainers, parameter servers and a master."""

    def workload_spec(
        self, job: TrainingJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
    ) -> WorkloadSpec | None:
        return workload.workload_spec(job, classes, pods, now)

    def status_after(self, planned: PlannedJob[TrainingJob]) -> msgspec.Struct:
        return workload.status_after(planned)

    def without_allocations(self, job: TrainingJob) -> TrainingJob:
        return replace(job, status=replace(job.status, allocations={}))

    def policy_inputs(self, job: TrainingJob) -> PolicyInputs:
        return PolicyInputs(profilings=job.status.profilings)

    def with_priority_class(
        self,
        job: TrainingJob,
        name: str,
        edit: Callable[[Template], Template],  # noqa: ARG002 - it has no pod templates
    ) -> TrainingJob:
        return replace(job, spec=replace(job.spec, priority_class_name=name))

    def relaxations(self, job: TrainingJob) -> Iterator[Relaxation[TrainingJob]]:
        def resized(count: int) -> TrainingJob:
            return replace(job, spec=replace(job.spec, trainer=replace(job.spec.trainer, min_instance=count)))

        least = job.spec.trainer.min_instance
        yield Relaxation("trainer", least, 1, lambda n: {"spec.trainer.min-instance": n}, resized)

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        """Its pods are built by its controller; only the volumes come from the user."""
        yield "spec", {"volumes": manifest["spec"].get("volumes") or ()}

    def warnings(self, manifest: Manifest) -> Iterator[FieldError]:
        """Warn of addresses of etcd, and of a maximum of parameter servers that do not scale."""
        spec = manifest["spec"]
        for role in ("master", "trainer"):
            if (spec.get(role) or {}).get("etcd-endpoint"):
                message = "is ignored: Shoal runs no etcd, and passes its address to no pod"
                yield FieldError(f"spec.{role}.etcd-endpoint", message)
        pserver = spec.get("pserver") or {}
        is_scaled = pserver.get("scaleWithTrainers")
        if pserver.get("max-instance", 0) > pserver.get("min-instance", 0) and not is_scaled:
            message = "is ignored: there are always min-instance, unless scaleWithTrainers is true"
            yield FieldError("spec.pserver.max-instance", message)

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:  # noqa: ARG002
        return self.scale_automatically(manifest)

    def scale_automatically(self, manifest: Manifest) -> ScalePatch:
        trainer = manifest["spec"]["trainer"]
        raise CannotScaleError(
            f"is sized by the autoscaler, between min-instance, {trainer['min-instance']}, and max-instance, "
            f"{trainer['max-instance']}: change these in its file and `shoal apply` it"
        )

    def host_names(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        """Every instance that the job has, or may have, has a host in the headless service of the job."""
        meta, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status") or {}
        if status.get("phase") in FINISHED_PHASES:
            return
        roles = {role: spec[role].get("max-instance", 1) for role in ROLES if spec.get(role)}
        suffixes = [f"-{role}-{index}" for role, size in roles.items() for index in range(size)]
        allocated = (name.removeprefix(meta["name"]) for name in status.get("allocations") or ())
        service = dns_label(meta["name"], meta["uid"], prefix=SERVICE_PREFIX)
        for suffix in dict.fromkeys((*suffixes, *allocated)):
            yield dns_label(meta["name"], meta["uid"], suffix=suffix), service

    def controller(self, stores: "Stores", config: SchedulerConfig) -> "Controller[Any]":
        from shoal.kinds.trainingjob.controller import (  # noqa: PLC0415 - commands do not need it
            trainingjob_controller,
        )

        return trainingjob_controller(stores, config)

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:
        spec = manifest["spec"]
        for role in ROLES:
            if role in spec:
                yield role, f"{spec[role].get('min-instance', 1)}…{spec[role].get('max-instance', 1)}"


KIND: Final = TrainingJobKind(
    **msgspec.structs.asdict(TYPE),
    view=TrainingJob,
    errors=trainingjob_errors,
    reports=True,
    normalise=normalise,
    other_spellings=OTHER_SPELLINGS,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Trainers", ".status.replicas.trainer.desired", "integer"),
        Column("Ready", ".status.replicas.trainer.ready", "integer"),
        Column("Min", ".spec.trainer.min-instance", "integer"),
        Column("Max", ".spec.trainer.max-instance", "integer"),
        Column("Pservers", ".status.replicas.pserver.ready", "integer", wide=True),
        Column("Score", ".status.score", "number", wide=True),
        PROGRESS,
        AGE,
    ),
    selectable=(".status.phase",),
    role_fields=(*ROLES, "volumes"),
    rules=(JOB_NAME_RULE,),
    mutability=Mutability(
        mutable=("trainer.min-instance", "trainer.max-instance", "suspend", "ttlSecondsAfterFinished")
    ),
)
