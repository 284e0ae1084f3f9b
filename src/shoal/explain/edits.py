"""Edits: a world in which one thing is different, made without touching the world it is made of.

Records are never changed in place, so a changed world shares all the others with the one it came from.
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
_STATE: Final = "node.kubernetes.io/"


def with_job(world: World, job: Object) -> World:
    """The world with a job in another form."""
    changed, kind = copy(world), type(job).__name__
    key = job.metadata.namespace, job.metadata.name
    changed.jobs = {**world.jobs, kind: {**world.jobs[kind], key: job}}
    return changed


def with_pool(world: World, loose: "LoosePods", workload: Workload, pool: str) -> World:
    """The world with a workload at home in another pool."""
    if workload.kind not in world.jobs:
        return loose.changed(
            world,
            workload,
            lambda pod_class: replace(pod_class, pool=pool),
            lambda template: _annotated(template, POOL_ANNOTATION, pool),
        )
    job = job_of(world, workload)
    annotations = {**job.metadata.annotations, POOL_ANNOTATION: pool}
    return with_job(world, replace(job, metadata=replace(job.metadata, annotations=annotations)))


def with_class(world: World, loose: "LoosePods", workload: Workload, name: str) -> World:
    """The world with a workload of another PriorityClass."""

    def classed(template: Template) -> Template:
        spec = {key: value for key, value in template["spec"].items() if key != "priority"}
        return {**template, "spec": {**spec, "priorityClassName": name}}

    if workload.kind not in world.jobs:
        return loose.changed(
            world, workload, lambda it: replace(it, priority=None, priority_class=name), classed
        )
    kind = job_kinds()[workload.kind]
    return with_job(world, kind.with_priority_class(job_of(world, workload), name, classed))


def with_new_class(world: World, value: int) -> tuple[str, World]:
    """A PriorityClass that did not exist, and the world with it."""
    changed, name = copy(world), "new"
    while name in world.priority_classes:
        name += "er"
    made = PriorityClass(metadata=ObjectMeta(name=name), value=value)
    changed.priority_classes = {**world.priority_classes, name: made}
    return name, changed


def with_gang_min(world: World, loose: "LoosePods", workload: Workload, least: int) -> World:
    """The world with another minimum for a gang of pods."""
    return loose.changed(
        world,
        workload,
        lambda pod_class: replace(pod_class, gang_min=least),
        lambda template: _annotated(template, GANG_MIN, str(least)),
    )


def with_more(world: World, name: str, amounts: Mapping[str, int]) -> World:
    """The world with more on one node, in counted units."""
    node, changed = world.nodes[name], copy(world)
    nano = {resource: amount * nanos_per_unit(resource) for resource, amount in amounts.items()}
    status = replace(
        node.status,
        capacity=_sum(node.status.capacity or node.allocatable, nano),
        allocatable=_sum(node.allocatable, nano),
    )
    changed.nodes = {**world.nodes, name: replace(node, status=status)}
    return changed


def with_nodes_like(world: World, name: str, count: int) -> World:
    """The world with so many more nodes like one: ready, open, and empty."""
    changed = copy(world)
    changed.nodes = dict(world.nodes)
    number = 0
    while len(changed.nodes) < len(world.nodes) + count:
        number += 1
        changed.nodes.setdefault(f"{name}-{number}", _twin(world.nodes[name], f"{name}-{number}"))
    return changed


def without(world: World, keys: Iterable[str]) -> World:
    """The world once some have ended, each named as in a plan; with them go their pods."""
    changed = copy(world)
    changed.jobs = {kind: dict(jobs) for kind, jobs in world.jobs.items()}
    changed.pods = dict(world.pods)
    for kind, namespace, name in (key.split("/", 2) for key in keys):
        job = changed.jobs[kind].pop((namespace, name)) if kind in changed.jobs else None
        for key, pod in world.pods.items():
            if job and is_owned_by(pod, kind, job.metadata):
                del changed.pods[key]
            elif not job and _is_of(kind, namespace, name, key, pod.pod_class.gang):
                changed.pods[key] = replace(pod, phase="Succeeded")
    return changed


def job_of(world: World, workload: Workload) -> Any:  # noqa: ANN401 - a job of any kind
    """The job that a workload was made of."""
    return world.jobs[workload.kind][workload.namespace, workload.name]


class LoosePods:
    """The pods of workloads that have no job of ours: some exist, others a batch Job has still to make."""

    def __init__(self, world: World, config: SchedulerConfig, now: float) -> None:
        """Find out which pods there are, or are to be."""
        self._world, self.pods = world, all_pods(world, config, now)

    def exist(self, workload: Workload) -> bool:
        """Whether all pods of a workload exist."""
        return all(self._exists((workload.namespace, task.name)) for task in workload.tasks)

    def changed(
        self,
        world: World,
        workload: Workload,
        on_pod_class: Callable[[PodClass], PodClass],
        on_template: Callable[[Template], Template],
    ) -> World:
        """The world with another make of the pods, or of the template that they will be made of."""
        changed = copy(world)
        changed.pods, changed.batch_jobs = dict(world.pods), dict(world.batch_jobs)
        for key in dict.fromkeys((workload.namespace, task.name) for task in workload.tasks):
            pod = self.pods[key]
            if self._exists(key):
                changed.pods[key] = replace(pod, pod_class=on_pod_class(pod.pod_class))
            elif pod.owner:
                job = world.batch_jobs[pod.namespace, pod.owner.name]
                spec = replace(job.spec, template=on_template(job.spec.template))
                changed.batch_jobs[pod.namespace, pod.owner.name] = replace(job, spec=spec)
        return changed

    def _exists(self, key: Key) -> bool:
        """Whether a pod is more than a plan of its batch Job, which may reuse the name of one that failed."""
        return self.pods.get(key) is self._world.pods.get(key)


def _is_of(kind: str, namespace: str, name: str, key: Key, gang: str) -> bool:
    if kind == "Gang":
        return key[0] == namespace and gang == name
    return key == (namespace, name)


def _annotated(template: Template, key: str, value: str) -> Template:
    metadata: dict[str, Any] = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _sum(amounts: Resources, more: Mapping[str, int]) -> Resources:
    there = to_nano(amounts)
    added = {resource: Quantity(f"{there.get(resource, 0) + nano}n") for resource, nano in more.items()}
    return {**amounts, **added}


def _twin(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_STATE))
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=replace(node.spec, unschedulable=False, taints=taints),
        status=NodeStatus(capacity=node.status.capacity, allocatable=node.status.allocatable),
    )
