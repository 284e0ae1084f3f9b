"""batch/v1 Job behind the JobKind interface.

Kubernetes defines the kind. Its pods are planned like loose pods, so most of the interface does not apply.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from shoal.api.batch import Job, job_errors
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import JobKind, Manifest, ScalePatch
from shoal.kinds.batchjob import controller, missing
from shoal.kinds.manifests import template_pod_spec
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord

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
        return missing.missing_pods(job, classes, pods, is_free, now)

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


KIND: Final = BatchJobKind(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    view=Job,
    errors=job_errors,
)
