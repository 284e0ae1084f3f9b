"""ToyJob: a job kind in one file outside of Shoal, as another package would write it.

A ToyJob has `size` workers of one template. All of them start together; the scheduler writes the node of each
into `status.allocations`, and the controller creates the pods for these allocations.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.fields import FieldError
from shoal.api.kinds import AGE, Column
from shoal.api.managed import ManagedMeta, ManagedPod
from shoal.api.meta import Conditions, Object, Positive, Time, View, description, metadata_errors
from shoal.api.podspec import Template, template_errors
from shoal.cluster.object_store import Key
from shoal.cluster.resources import PODS, resource_of
from shoal.controllers.changes import (
    NO_CHANGES,
    Changes,
    Create,
    Delete,
    Write,
    delete_object,
    patch_status_of,
)
from shoal.controllers.resources import POD, reader
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import JobKind, Manifest, PlannedJob, Relaxation, ScalePatch
from shoal.kinds.manifests import template_pod_spec
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord, created_at
from shoal.kinds.status import common_fields
from shoal.kinds.workload_spec import Slot, WorkloadSpec, timestamp


class ToyJobSpec(View, frozen=True, kw_only=True):
    """Spec of a ToyJob."""

    template: Annotated[Template, description("Pod template of the workers.")]
    size: Annotated[Positive, description("Number of workers.")] = 1


class ToyJobStatus(View, frozen=True, kw_only=True):
    """Status of a ToyJob."""

    phase: str = ""
    running: int = 0
    allocations: dict[str, str] = {}
    nominations: dict[str, str] = {}
    broken_since: Time | None = None
    whole_minimum: int | None = None
    conditions: Conditions = ()


class ToyJob(Object, frozen=True, kw_only=True):
    """A toy: workers that start together."""

    spec: ToyJobSpec
    status: ToyJobStatus = ToyJobStatus()


class ManagedToyJob(View, frozen=True, kw_only=True):
    """A ToyJob as its controller reads it."""

    metadata: ManagedMeta
    spec: ToyJobSpec
    status: ToyJobStatus = ToyJobStatus()


def toyjob_errors(job: ToyJob) -> Iterator[FieldError]:
    """Everything that is wrong with a ToyJob."""
    yield from metadata_errors(job.metadata)
    yield from template_errors(job.spec.template, "spec.template")


class ToyJobKind(JobKind[ToyJob], frozen=True, eq=False, kw_only=True):
    """ToyJobs, all that Shoal needs to know of them."""

    def workload_spec(
        self, job: ToyJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
    ) -> WorkloadSpec | None:
        if job.status.phase in FINISHED_PHASES:
            return None
        pod_class = classes.of_template(job.metadata.namespace, job.spec.template)
        return WorkloadSpec(
            kind=self.kind,
            metadata=job.metadata,
            created=created_at(job.metadata, now),
            slots=tuple(Slot(name=name, role="worker", pod_class=pod_class) for name in names(job)),
            minimum=job.spec.size,
            maximum=job.spec.size,
            allocations=job.status.allocations,
            nominations=job.status.nominations,
            broken_since=timestamp(job.status.broken_since),
            whole_minimum=job.status.whole_minimum,
        )

    def status_after(self, planned: PlannedJob[ToyJob]) -> msgspec.Struct:
        return replace(
            planned.job.status, allocations=planned.allocations, **common_fields(planned, allocates=True)
        )

    def without_allocations(self, job: ToyJob) -> ToyJob:
        return replace(job, status=replace(job.status, allocations={}))

    def with_priority_class(self, job: ToyJob, name: str, edit: Callable[[Template], Template]) -> ToyJob:
        return replace(job, spec=replace(job.spec, template=edit(job.spec.template)))

    def relaxations(self, job: ToyJob) -> Iterator[Relaxation[ToyJob]]:
        yield Relaxation(
            "worker",
            job.spec.size,
            1,
            lambda n: {"spec.size": n},
            lambda n: replace(job, spec=replace(job.spec, size=n)),
        )

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        yield from template_pod_spec(manifest["spec"], "spec")

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:
        return ScalePatch({"spec": {"size": replicas}})

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:
        yield "worker", manifest["spec"].get("size", 1)

    def controller(self, stores: Stores, config: SchedulerConfig) -> Controller[Any]:
        return toyjob_controller(stores)


KIND: Final = ToyJobKind(
    group="toys.example.com",
    version="v1",
    kind="ToyJob",
    plural="toyjobs",
    short_name="toy",
    view=ToyJob,
    errors=toyjob_errors,
    columns=(Column("Phase", ".status.phase"), Column("Running", ".status.running", "integer"), AGE),
    selectable=(".status.phase",),
)


def names(job: ToyJob | ManagedToyJob) -> list[str]:
    """Names of the workers."""
    return [f"{job.metadata.name}-{number}" for number in range(job.spec.size)]


# --- the controller ----------------------------------------------------------------------------------------


class ToyJobView(NamedTuple):
    """A ToyJob and its pods."""

    job: ManagedToyJob
    pods: tuple[ManagedPod, ...]


def reconcile(view: ToyJobView, now: float) -> Changes:  # noqa: ARG001 - it waits for nothing
    """Create the pods of allocations, delete surplus pods, and finish when every worker has succeeded."""
    job, pods, toyjobs = view.job, {pod.metadata.name: pod for pod in view.pods}, resource_of("ToyJob")
    if job.status.phase in FINISHED_PHASES:
        return NO_CHANGES
    wanted = names(job)
    succeeded = [name for name in wanted if name in pods and pods[name].status.phase == "Succeeded"]
    status = {
        "phase": "Succeeded" if len(succeeded) == len(wanted) else "Running" if pods else "Pending",
        "running": sum(pods[name].status.phase == "Running" for name in wanted if name in pods),
    }
    known = {"phase": job.status.phase, "running": job.status.running}
    creates: list[Write] = [
        Create(resource=PODS, body=pod_of(job, name), owner=job.metadata.uid)
        for name in wanted
        if name not in pods and name in job.status.allocations
    ]
    surplus: list[Delete] = [
        delete_object(PODS, pod.metadata)
        for name, pod in pods.items()
        if name not in wanted and pod.metadata.deletion_timestamp is None
    ]
    first = () if status == known else (patch_status_of(toyjobs, job.metadata, status),)
    return Changes(stages=(first, (*surplus, *creates)))


def pod_of(job: ManagedToyJob, name: str) -> Manifest:
    """The pod of a worker."""
    owner: Manifest = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": job.metadata.name}
    owner |= {"uid": job.metadata.uid, "controller": True}
    metadata = {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
    spec = {"schedulerName": "shoal", "restartPolicy": "Never", **job.spec.template["spec"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def toyjob_controller(stores: Stores) -> Controller[ToyJobView]:
    """The controller of ToyJobs."""
    resource = resource_of("ToyJob").read_as(reader(ManagedToyJob))
    jobs, pods = stores.of(resource), stores.of(POD)
    pods_by_job = pods.index(_job_of)

    def get_view(key: Key) -> ToyJobView | None:
        job = jobs.items.get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            return None
        return ToyJobView(job, tuple(pods_by_job[key]))

    return Controller(
        name="toyjob-controller",
        resource=resource,
        get_view=get_view,
        reconcile=reconcile,
        watches=(Watch(resource=POD, keys=_job_of),),
    )


def _job_of(pod: ManagedPod) -> Iterator[Key]:
    owner = pod.metadata.controller
    if owner is not None and owner.kind == KIND.kind:
        yield pod.metadata.namespace, owner.name
