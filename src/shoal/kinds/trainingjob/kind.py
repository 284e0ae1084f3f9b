"""TrainingJob behind the JobKind interface."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.kinds import AGE, Column
from shoal.api.meta import JOB_NAME_RULE
from shoal.api.mutability import Mutability
from shoal.api.podspec import Template
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
from shoal.kinds.trainingjob import TYPE, workload
from shoal.kinds.trainingjob.types import OTHER_SPELLINGS, TrainingJob, normalise, trainingjob_errors
from shoal.kinds.workload_spec import WorkloadSpec

_ROLES: Final = ("master", "pserver", "trainer")


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

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:  # noqa: ARG002
        return self.scale_automatically(manifest)

    def scale_automatically(self, manifest: Manifest) -> ScalePatch:
        trainer = manifest["spec"]["trainer"]
        raise CannotScaleError(
            f"is sized by the autoscaler, between min-instance, {trainer['min-instance']}, and max-instance, "
            f"{trainer['max-instance']}: change these in its file and `shoal apply` it"
        )

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:
        spec = manifest["spec"]
        for role in _ROLES:
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
        AGE,
    ),
    selectable=(".status.phase",),
    role_fields=(*_ROLES, "volumes"),
    rules=(JOB_NAME_RULE,),
    mutability=Mutability(
        mutable=("trainer.min-instance", "trainer.max-instance", "suspend", "ttlSecondsAfterFinished")
    ),
)
