"""The pods of a Job: their names and contents, their completion indexes, and how they ended."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any, Final

from shoal.api.core import INDEX_KEY
from shoal.api.disruption import DISRUPTION, containers_finished_at
from shoal.api.managed import ManagedJob, ManagedPod
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.controllers.changes import Create
from shoal.controllers.jobs.ends import has_stopped

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_INDEX_FIELD: Final = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX_KEY}']"}}
_MAX_DIGITS: Final = 9
"""Longer numbers may not fit 32 bits."""
_SHOWN_NAMES: Final = 3
"""Names of created pods that an Event lists."""

IsNameFree = Callable[[str], bool]
"""Returns whether no pod in the namespace has a name."""


# --- creation ----------------------------------------------------------------------------------------------


def free_names(job: ManagedJob, existing: int, is_free: IsNameFree) -> Iterator[str]:
    """Yield names for pods without an index, numbered from the number of existing pods."""
    return filter(is_free, (f"{job.metadata.name}-{k}" for k in count(existing)))


def free_name_of_index(job: ManagedJob, index: int, is_free: IsNameFree) -> str:
    """Return the name of the next pod of an index; an earlier pod may still have the one without suffix."""
    plain = f"{job.metadata.name}-{index}"
    return next(filter(is_free, chain([plain], (f"{plain}-{k}" for k in count()))))


def create_pod(
    job: ManagedJob, name: str, index: int | None = None, annotations: dict[str, str] | None = None
) -> Create:
    """Return the creation of a pod from the template, with a completion index if the Job has indexes."""
    template = job.spec.template
    metadata = _metadata(job, name, template.get("metadata") or {})
    spec = dict(template.get("spec") or {})
    metadata["annotations"] |= annotations or {}
    if index is not None:
        indexed = {INDEX_KEY: str(index)}
        metadata["annotations"] |= indexed
        metadata["labels"] |= indexed
        spec["hostname"] = f"{job.metadata.name}-{index}"
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = _with_index_variable(spec[kind])
    return Create(resource=PODS, body={"metadata": metadata, "spec": spec}, owner=job.metadata.uid)


def _metadata(job: ManagedJob, name: str, template: Object) -> Object:
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


def _with_index_variable(containers: Iterable[Any]) -> list[Any]:
    """Add the variable with the index to containers that do not define it themselves."""
    return [
        container
        if any(variable.get("name") == _INDEX_VARIABLE for variable in container.get("env") or ())
        else container
        | {"env": [*(container.get("env") or ()), {"name": _INDEX_VARIABLE, "valueFrom": _INDEX_FIELD}]}
        for container in containers
    ]


def describe_creates(creates: Iterable[Create]) -> str:
    """Return the message of the Event for created pods."""
    names = [create.body["metadata"]["name"] for create in creates]
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    return f"Created pod: {shown}" if len(names) == 1 else f"Created {len(names)} pods: {shown}"


# --- completion indexes ------------------------------------------------------------------------------------


def completion_index(pod: ManagedPod) -> int | None:
    """Return the completion index of a pod; None if it has none."""
    return _parse_number(pod.metadata.annotations.get(INDEX_KEY, ""))


def number_annotation(pod: ManagedPod, key: str) -> int:
    """Return the number in an annotation; 0 if there is none."""
    return _parse_number(pod.metadata.annotations.get(key, "")) or 0


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


# --- the end of a pod --------------------------------------------------------------------------------------


def has_tracking_finalizer(pod: ManagedPod) -> bool:
    """Return whether a pod has not been counted yet."""
    return FINALIZER in pod.metadata.finalizers


def was_disrupted(pod: ManagedPod) -> bool:
    """Return whether a pod was deleted before it ended: by the scheduler, with its node, or by a user.

    A pod whose containers had failed before the deletion was not. Where both happened within one second,
    where the pod had a grace period, or where the order is unknown, the deletion is taken to be first.
    """
    if pod.status.phase == "Succeeded":
        return False
    if pod.has_condition(DISRUPTION):
        return True
    deleted = pod.metadata.deletion_timestamp
    if deleted is None or not pod.finished:
        return deleted is not None
    if pod.metadata.deletion_grace_period_seconds:
        return True
    stopped = containers_finished_at(pod.status.container_statuses)
    return stopped is None or stopped >= deleted


def has_failed(pod: ManagedPod) -> bool:
    """Return whether a pod ended without success and was not disrupted."""
    return has_stopped(pod) and pod.status.phase != "Succeeded" and not was_disrupted(pod)
