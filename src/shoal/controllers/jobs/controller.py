"""How the controller of Jobs is put together: which objects it reads, and which wake it."""

from collections.abc import Iterator

from shoal.cluster.mirror import Key
from shoal.controllers.jobs.counting import tracked
from shoal.controllers.jobs.reconcile import View, reconcile
from shoal.controllers.jobs.views import JOB
from shoal.controllers.runtime import Controller, Wake
from shoal.controllers.stores import Stores
from shoal.controllers.views import POD, Pod

_LABEL = "batch.kubernetes.io/job-name"


def job_controller(stores: Stores) -> Controller[View]:
    """The controller of batch Jobs."""
    jobs, pods = stores.of(JOB), stores.of(POD)
    by_job = pods.index(_jobs)

    def look(key: Key) -> View | None:
        job, found = jobs.items.get(key), by_job[key]
        if job is None and not found:
            return None
        uid = job.metadata.uid if job else None
        owners = [owner.uid if (owner := pod.metadata.controller) else "" for pod in found]
        return View(
            job=job,
            pods=tuple(pod for pod, owner in zip(found, owners, strict=True) if owner == uid),
            orphans=tuple(
                pod for pod, owner in zip(found, owners, strict=True) if owner != uid and tracked(pod)
            ),
            is_free=lambda name: (key[0], name) not in pods.items,
        )

    return Controller(
        name="job-controller",
        resource=JOB,
        look=look,
        reconcile=reconcile,
        wakes=(Wake(resource=POD, keys=_jobs),),
        size=lambda view: len(view.pods),
    )


def _jobs(pod: Pod) -> Iterator[Key]:
    """The Job that a pod belongs to; one that was left behind by its Job is told by its label."""
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        yield pod.metadata.namespace, owner.name
    elif owner is None and tracked(pod) and _LABEL in pod.metadata.labels:
        yield pod.metadata.namespace, pod.metadata.labels[_LABEL]
