"""World: the objects of one cluster, as records that Snapshots are made of."""

from collections.abc import Callable
from typing import Any

from shoal.api.batch import Job
from shoal.api.core import BUILT_IN_PRIORITIES, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from shoal.api.dijob import DIJob
from shoal.api.meta import Object
from shoal.api.pool import Pool
from shoal.api.trainingjob import TrainingJob
from shoal.api.tyjob import TYJob
from shoal.world.book import NAMESPACE_LABEL, Book
from shoal.world.pods import PodRecord, record

AnyJob = DIJob | TYJob | TrainingJob
"""A job that is planned as a whole."""

Key = tuple[str, str]
"""Namespace and name."""


class World:
    """The objects of one cluster."""

    def __init__(self, now: float) -> None:
        """Begin empty; objects that do not say when they were made count as made `now`."""
        self.now = now
        self.book = Book()
        self.nodes: dict[str, Node] = {}
        self.pools: dict[str, Pool] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        self.jobs: dict[str, dict[Key, AnyJob]] = {"DIJob": {}, "TYJob": {}, "TrainingJob": {}}
        self.batch_jobs: dict[Key, Job] = {}
        self.pods: dict[Key, PodRecord] = {}
        self._shelves: dict[type[Object], Callable[[Any], None]] = {
            Node: lambda node: self.nodes.update({node.metadata.name: node}),
            Pool: lambda pool: self.pools.update({pool.metadata.name: pool}),
            Namespace: self._put_namespace,
            PriorityClass: lambda it: self.priority_classes.update({it.metadata.name: it}),
            PodDisruptionBudget: lambda budget: self.budgets.update({_key(budget): budget}),
            TYJob: lambda job: self.jobs["TYJob"].update({_key(job): job}),
            DIJob: lambda job: self.jobs["DIJob"].update({_key(job): job}),
            TrainingJob: lambda job: self.jobs["TrainingJob"].update({_key(job): job}),
            Job: lambda job: self.batch_jobs.update({_key(job): job}),
            Pod: lambda pod: self.pods.update({_key(pod): record(pod, self.book, self.now)}),
        }

    def put(self, *views: Object) -> None:
        """Take objects in; namespaces first, since rules of pods that select them are read with the pods."""
        for view in sorted(views, key=lambda view: not isinstance(view, Namespace)):
            self._shelves[type(view)](view)

    def priority_of(self, name: str) -> int | None:
        """The value of a PriorityClass; None if there is none of that name."""
        known = self.priority_classes.get(name)
        return known.value if known else BUILT_IN_PRIORITIES.get(name)

    def is_patient(self, name: str) -> bool:
        """Whether nobody must leave for pods of a PriorityClass."""
        known = self.priority_classes.get(name)
        return known is not None and known.preemption_policy == "Never"

    @property
    def default_priority(self) -> int:
        """The value of the PriorityClass that is everybody's default."""
        values = (c.value for c in self.priority_classes.values() if c.global_default)
        return min(values, default=0)

    def _put_namespace(self, namespace: Namespace) -> None:
        name = namespace.metadata.name
        self.namespaces[name] = namespace
        self.book.namespaces[name] = {**namespace.metadata.labels, NAMESPACE_LABEL: name}


def _key(thing: Object) -> Key:
    return thing.metadata.namespace, thing.metadata.name
