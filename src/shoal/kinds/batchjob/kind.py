"""batch/v1 Job behind the JobKind interface.

Kubernetes defines the kind. Its pods are planned like loose pods, so most of the interface does not apply.
Pods that are still to be created are planned ahead.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, Final

from shoal.api.core import Job, job_errors
from shoal.api.indexes import parse_indexes
from shoal.api.meta import OwnerReference
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import JobKind, Manifest, ScalePatch
from shoal.kinds.batchjob import controller
from shoal.kinds.manifests import template_pod_spec
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord, created_at

if TYPE_CHECKING:
    from shoal.controllers.runtime import Controller
    from shoal.controllers.stores import Stores


_FINISHED: Final = ("Complete", "Failed")


class BatchJobKind(JobKind[Job], frozen=True, eq=False, kw_only=True):
    """Jobs of Kubernetes: pods that run to completion."""

    @property
    def is_workload(self) -> bool:
        return False

    @property
    def is_own(self) -> bool:
        return False

    def missing_pods(
        self,
        job: Job,
        classes: PodClassCache,
        pods: list[PodRecord],
        is_free: Callable[[str], bool],
        now: float,
    ) -> Iterable[PodRecord]:
        return _missing_pods(job, classes, pods, is_free, now)

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        yield from template_pod_spec(manifest["spec"], "spec")

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:  # noqa: ARG002 - it has one role
        return ScalePatch({"spec": {"parallelism": replicas}})

    def host_names(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        """Pods of an Indexed Job have predictable names, if its template has a subdomain."""
        spec, conditions = manifest["spec"], manifest.get("status", {}).get("conditions") or ()
        finished = any(one["type"] in _FINISHED and one["status"] == "True" for one in conditions)
        subdomain = spec["template"]["spec"].get("subdomain")
        if spec.get("completionMode") == "Indexed" and subdomain and not finished:
            for index in range(spec.get("completions") or 0):
                yield f"{manifest['metadata']['name']}-{index}", subdomain

    def controller(self, stores: "Stores", config: SchedulerConfig) -> "Controller[Any] | None":  # noqa: ARG002 - it creates pods as their templates say
        return controller.job_controller(stores)


def _missing_pods(
    job: Job, classes: PodClassCache, pods: list[PodRecord], is_free: Callable[[str], bool], now: float
) -> Iterator[PodRecord]:
    """Pods that a batch Job wants and has not created yet, under names that are free in its namespace."""
    spec, meta = job.spec, job.metadata
    if spec.suspend or job.finished or meta.deletion_timestamp:
        return
    pod_class = classes.of_template(meta.namespace, spec.template)
    owner = OwnerReference(kind="Job", name=meta.name, uid=meta.uid, controller=True)
    wanted = _indexed(job, pods) if spec.completion_mode == "Indexed" else _counted(job, pods)
    for names, rank in wanted:
        yield PodRecord(
            namespace=meta.namespace,
            name=next(filter(is_free, names)),
            pod_class=pod_class,
            created=created_at(meta, now),
            owner=owner,
            rank=rank,
        )


def _indexed(job: Job, pods: list[PodRecord]) -> Iterator[tuple[Iterator[str], int]]:
    """The lowest missing indices of an Indexed Job, each with the names its pod may have."""
    spec, name = job.spec, job.metadata.name
    completions = spec.completions or 0
    active = {pod.rank for pod in pods if _is_active(pod)}
    closed = parse_indexes(job.status.completed_indexes, completions) | parse_indexes(
        job.status.failed_indexes or "", completions
    )
    closed |= {pod.rank for pod in pods if pod.phase == "Succeeded" and pod.rank is not None}
    open_ = [index for index in range(completions) if index not in closed]
    wanted = min(spec.parallelism, len(open_)) - sum(map(_is_active, pods))
    missing = (index for index in open_ if index not in active)
    for index in islice(missing, max(wanted, 0)):
        yield chain([f"{name}-{index}"], (f"{name}-{index}-{k}" for k in count())), index


def _counted(job: Job, pods: list[PodRecord]) -> Iterator[tuple[Iterator[str], None]]:
    """As many as the Job still wants, with names counted on from the pods it has."""
    spec = job.spec
    succeeded = max(job.status.succeeded, sum(pod.phase == "Succeeded" for pod in pods))
    wanted = spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - succeeded)
    elif succeeded:
        wanted = 0
    names = (f"{job.metadata.name}-{k}" for k in count(len(pods)))
    for _ in range(wanted - sum(map(_is_active, pods))):
        yield names, None


def _is_active(pod: PodRecord) -> bool:
    return not pod.finished and not pod.leaving


KIND: Final = BatchJobKind(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    view=Job,
    errors=job_errors,
)
