"""Edits: copies of a world in which one thing is different. The original world is not modified.

Records are immutable, so a copy shares all unchanged records with the original.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Final

from msgspec.structs import replace

from shoal.api.core import Node, NodeStatus, PriorityClass
from shoal.api.meta import Object, ObjectMeta
from shoal.api.podspec import Resources, Template, to_nano
from shoal.api.pool import POOL_ANNOTATION
from shoal.api.quantity import Quantity
from shoal.cache.changes import Key
from shoal.cache.pod_index import all_pods
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.engine.resources import nanos_per_unit
from shoal.engine.workload import Workload
from shoal.kinds.base import job_kinds
from shoal.kinds.pod_classes import GANG_MIN, PodClass
from shoal.kinds.pods import is_owned_by

_HOSTNAME: Final = "kubernetes.io/hostname"

_STATE_TAINTS: Final = "node.kubernetes.io/"
"""Prefix of the taints that describe the state of a node, such as `not-ready`."""


def with_job(world: World, job: Object) -> World:
    """The world with another version of a job."""
    changed, kind = copy(world), type(job).__name__
    key = job.metadata.namespace, job.metadata.name
    changed.jobs = {**world.jobs, kind: {**world.jobs[kind], key: job}}
    return changed


def with_pool(world: World, loose_pods: "LoosePods", workload: Workload, pool: str) -> World:
    """The world with another home pool of a workload."""
    if workload.kind not in world.jobs:
        return loose_pods.edit(
            world,
            workload,
            lambda pod_class: replace(pod_class, pool=pool),
            lambda template: _annotate(template, POOL_ANNOTATION, pool),
        )
    job = job_of(world, workload)
    annotations = {**job.metadata.annotations, POOL_ANNOTATION: pool}
    return with_job(world, replace(job, metadata=replace(job.metadata, annotations=annotations)))


def with_priority_class(world: World, loose_pods: "LoosePods", workload: Workload, name: str) -> World:
    """The world with another PriorityClass of a workload."""

    def edit_template(template: Template) -> Template:
        spec = {key: value for key, value in template["spec"].items() if key != "priority"}
        return {**template, "spec": {**spec, "priorityClassName": name}}

    if workload.kind not in world.jobs:
        return loose_pods.edit(
            world,
            workload,
            lambda pod_class: replace(pod_class, priority=None, priority_class=name),
            edit_template,
        )
    kind = job_kinds()[workload.kind]
    return with_job(world, kind.with_priority_class(job_of(world, workload), name, edit_template))


def with_new_priority_class(world: World, value: int) -> tuple[str, World]:
    """The name of a new PriorityClass with a value, and the world with it."""
    changed, name = copy(world), "new"
    while name in world.priority_classes:
        name += "er"
    created = PriorityClass(metadata=ObjectMeta(name=name), value=value)
    changed.priority_classes = {**world.priority_classes, name: created}
    return name, changed


def with_gang_min(world: World, loose_pods: "LoosePods", workload: Workload, least: int) -> World:
    """The world with another minimum of a gang of loose pods."""
    return loose_pods.edit(
        world,
        workload,
        lambda pod_class: replace(pod_class, gang_min=least),
        lambda template: _annotate(template, GANG_MIN, str(least)),
    )


def with_more_resources(world: World, name: str, amounts: Mapping[str, int]) -> World:
    """The world with more resources on one node; amounts in counted units."""
    node, changed = world.nodes[name], copy(world)
    nano = {resource: amount * nanos_per_unit(resource) for resource, amount in amounts.items()}
    status = replace(
        node.status,
        capacity=_add(node.status.capacity or node.allocatable, nano),
        allocatable=_add(node.allocatable, nano),
    )
    changed.nodes = {**world.nodes, name: replace(node, status=status)}
    return changed


def with_nodes_like(world: World, name: str, count: int) -> World:
    """The world with `count` new nodes like an existing one: ready, schedulable and empty."""
    changed = copy(world)
    changed.nodes = dict(world.nodes)
    number = 0
    while len(changed.nodes) < len(world.nodes) + count:
        number += 1
        changed.nodes.setdefault(f"{name}-{number}", _empty_copy(world.nodes[name], f"{name}-{number}"))
    return changed


def without_jobs(world: World, keys: Iterable[str]) -> World:
    """The world after the end of some jobs, loose pods or gangs; `keys` are written as in a plan.

    Jobs are deleted with their pods; loose pods have succeeded.
    """
    changed = copy(world)
    changed.jobs = {kind: dict(jobs) for kind, jobs in world.jobs.items()}
    changed.pods = dict(world.pods)
    for kind, namespace, name in (key.split("/", 2) for key in keys):
        job = changed.jobs[kind].pop((namespace, name)) if kind in changed.jobs else None
        for key, pod in world.pods.items():
            if job and is_owned_by(pod, kind, job.metadata):
                del changed.pods[key]
            elif not job and _is_part_of(kind, namespace, name, key, pod.pod_class.gang):
                changed.pods[key] = replace(pod, phase="Succeeded")
    return changed


def job_of(world: World, workload: Workload) -> Any:  # noqa: ANN401 - a job of any kind
    """The job of a workload."""
    return world.jobs[workload.kind][workload.namespace, workload.name]


class LoosePods:
    """All pods of a world, for edits of workloads that consist of loose pods.

    Some exist; others are still to be created by a batch Job, and are edited through its template.
    """

    def __init__(self, world: World, config: SchedulerConfig, now: float) -> None:
        """Collect existing pods and those that batch Jobs are to create."""
        self._world, self.pods = world, all_pods(world, config, now)

    def all_exist(self, workload: Workload) -> bool:
        """Whether all pods of a workload exist."""
        return all(self._exists((workload.namespace, task.name)) for task in workload.tasks)

    def edit(
        self,
        world: World,
        workload: Workload,
        edit_class: Callable[[PodClass], PodClass],
        edit_template: Callable[[Template], Template],
    ) -> World:
        """The world with edited pods of a workload: existing ones by class, planned ones by template."""
        changed = copy(world)
        changed.pods, changed.batch_jobs = dict(world.pods), dict(world.batch_jobs)
        for key in dict.fromkeys((workload.namespace, task.name) for task in workload.tasks):
            pod = self.pods[key]
            if self._exists(key):
                changed.pods[key] = replace(pod, pod_class=edit_class(pod.pod_class))
            elif pod.owner:
                job = world.batch_jobs[pod.namespace, pod.owner.name]
                spec = replace(job.spec, template=edit_template(job.spec.template))
                changed.batch_jobs[pod.namespace, pod.owner.name] = replace(job, spec=spec)
        return changed

    def _exists(self, key: Key) -> bool:
        """Whether a pod exists.

        A name is not enough: a pod that a batch Job is to create may have the name of one that failed.
        """
        return self.pods.get(key) is self._world.pods.get(key)


def _is_part_of(kind: str, namespace: str, name: str, key: Key, gang: str) -> bool:
    """Whether the pod with this key and gang belongs to a loose pod's or a gang's workload."""
    if kind == "Gang":
        return key[0] == namespace and gang == name
    return key == (namespace, name)


def _annotate(template: Template, key: str, value: str) -> Template:
    metadata: dict[str, Any] = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _add(amounts: Resources, more: Mapping[str, int]) -> Resources:
    present = to_nano(amounts)
    added = {resource: Quantity(f"{present.get(resource, 0) + nano}n") for resource, nano in more.items()}
    return {**amounts, **added}


def _empty_copy(node: Node, name: str) -> Node:
    """A new node with the same labels, taints and amounts, without taints that describe a state."""
    labels = {**node.metadata.labels}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_STATE_TAINTS))
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=replace(node.spec, unschedulable=False, taints=taints),
        status=NodeStatus(capacity=node.status.capacity, allocatable=node.status.allocatable),
    )
