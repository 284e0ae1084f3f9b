"""Completion indexes: which a pod has, and how a set of them is written.

The pods of a Job: their names, and what they are made of.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any, Final

from shoal.api.batch import INDEX_KEY
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.controllers.changes import Create
from shoal.kinds.batchjob.counting import FINALIZER
from shoal.kinds.batchjob.views import Job

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_INDEX_FIELD: Final = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX_KEY}']"}}

IsFree = Callable[[str], bool]
"""Whether nobody in the namespace has a name."""


def names(job: Job, made: int, is_free: IsFree) -> Iterator[str]:
    """Names for pods without an index: counted on from the pods that the job has."""
    return filter(is_free, (f"{job.metadata.name}-{k}" for k in count(made)))


def name_of_index(job: Job, index: int, is_free: IsFree) -> str:
    """The name of the next pod of an index; an earlier pod of it may still have the plain one."""
    plain = f"{job.metadata.name}-{index}"
    return next(filter(is_free, chain([plain], (f"{plain}-{k}" for k in count()))))


def pod_of(
    job: Job, name: str, index: int | None = None, annotations: dict[str, str] | None = None
) -> Create:
    """A pod to be made."""
    template = job.spec.template
    metadata = _metadata(job, name, template.get("metadata") or {})
    spec = dict(template.get("spec") or {})
    metadata["annotations"] |= annotations or {}
    if index is not None:
        mark = {INDEX_KEY: str(index)}
        metadata["annotations"] |= mark
        metadata["labels"] |= mark
        spec["hostname"] = f"{job.metadata.name}-{index}"
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = _with_index(spec[kind])
    return Create(resource=PODS, body={"metadata": metadata, "spec": spec}, owner=job.metadata.uid)


def _metadata(job: Job, name: str, template: Object) -> Object:
    finalizers = template.get("finalizers") or []
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": dict(template.get("labels") or {}),
        "annotations": dict(template.get("annotations") or {}),
        "finalizers": [*(one for one in finalizers if one != FINALIZER), FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": JOBS.api_version,
                "kind": JOBS.kind,
                "name": job.metadata.name,
                "uid": job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _with_index(containers: Iterable[Any]) -> list[Any]:
    """Containers that know their index, unless they have a variable of that name themselves."""
    return [
        container
        if any(variable.get("name") == _INDEX_VARIABLE for variable in container.get("env") or ())
        else container
        | {"env": [*(container.get("env") or ()), {"name": _INDEX_VARIABLE, "valueFrom": _INDEX_FIELD}]}
        for container in containers
    ]


def described(creates: Iterable[Create]) -> str:
    """What was made, in a few words."""
    made = [create.body["metadata"]["name"] for create in creates]
    shown = ", ".join(made[:3]) + (", …" if len(made) > 3 else "")  # noqa: PLR2004 - as many as fit a line
    return f"Created pod: {shown}" if len(made) == 1 else f"Created {len(made)} pods: {shown}"
