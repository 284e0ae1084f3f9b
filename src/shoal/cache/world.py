"""Changes: which objects of a World are not as they were when somebody looked last.

World: the objects of one cluster, as records that Snapshots are made of.

Objects come and go in any order, as a cluster tells of them. Whoever makes something of a World follows it:
it is told which objects have changed, and of those that are written anew without a change it hears nothing.
"""

from collections.abc import Callable
from typing import Any, Final, Self
from weakref import ref

from msgspec.structs import replace

from shoal.api.batch import Job
from shoal.api.core import BUILT_IN_PRIORITIES, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from shoal.api.meta import Object
from shoal.api.pool import Pool
from shoal.cache import assumptions
from shoal.cache.assumptions import Assumption, Assumptions
from shoal.cache.changes import Changes, Key
from shoal.kinds.base import workload_kinds
from shoal.kinds.pod_classes import NAMESPACE_LABEL, PodClassCache
from shoal.kinds.pods import PodRecord, record_of

_SHELVES: Final = {
    "Node": "nodes",
    "Pool": "pools",
    "Namespace": "namespaces",
    "PriorityClass": "priority_classes",
    "PodDisruptionBudget": "budgets",
    "Job": "batch_jobs",
    "Pod": "pods",
}
_OF_CLUSTER: Final = ("Node", "Pool", "Namespace", "PriorityClass")


class World:
    """The objects of one cluster. What is kept here is changed by its methods only."""

    def __init__(self, now: float) -> None:
        """Begin empty; objects that do not say when they were made count as made `now`."""
        self.now = now
        self.pod_classes = PodClassCache()
        self.nodes: dict[str, Node] = {}
        self.pools: dict[str, Pool] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        self.jobs: dict[str, dict[Key, Any]] = {kind: {} for kind in workload_kinds()}
        self.batch_jobs: dict[Key, Job] = {}
        self.pods: dict[Key, PodRecord] = {}
        self._assumed = Assumptions()
        self._followers: list[ref[Changes]] = []

    def __copy__(self) -> Self:
        """Another world with the same objects, which nobody follows."""
        twin = type(self)(self.now)
        vars(twin).update(self._contents())
        return twin

    def become(self, other: "World") -> None:
        """Have the objects that a copy has, in which some were replaced; whoever follows is told of those.

        Namespaces are the same in both, and nothing is assumed in either.
        """
        for kind in (*_SHELVES, *self.jobs):
            here, there = self._shelf(kind), other._shelf(kind)  # noqa: SLF001 - it is one of us
            if here is not there:
                for index in here.keys() | there.keys():
                    if here.get(index) is not there.get(index):
                        self._note(kind, ("", index) if kind in _OF_CLUSTER else index)
        vars(self).update(other._contents())  # noqa: SLF001

    def follow(self, wake: Callable[[], None] | None = None) -> Changes:
        """What changes from now on; to begin with, all that is there. `wake` is told when to look."""
        changes = Changes(wake)
        for kind in (*_SHELVES, *self.jobs):
            for key in self._shelf(kind):
                changes.note(kind, ("", key) if kind in _OF_CLUSTER else key)
        self._followers = [*(one for one in self._followers if one() is not None), ref(changes)]
        return changes

    def put(self, *views: Object, version: int = 0) -> None:
        """Take objects in, new ones and others as they are now; `version` is the cluster's number for it."""
        for view in views:
            if isinstance(view, Pod):
                self.keep(record_of(view, self.pod_classes, self.now), version)
            else:
                kind, key = type(view).__name__, (view.metadata.namespace, view.metadata.name)
                self._place(kind, key, self._assumed.seen(kind, key, view, version))

    def keep(self, pod: PodRecord, version: int = 0) -> None:
        """Take a pod in that is a record already."""
        self._place("Pod", pod.key, self._revised(self._assumed.seen("Pod", pod.key, pod, version)))

    def remove(self, kind: str, key: Key) -> None:
        """Take an object out; it is no error if there is none."""
        self._assumed.drop(kind, key)
        index = _index(kind, key)
        if self._shelf(kind).pop(index, None) is None:
            return
        if kind == "Namespace":
            self._relabel(key[1], None)
        self._note(kind, key)

    def assume_bound(self, key: Key, node: str) -> Assumption | None:
        """A pod has a node from now on, as far as anybody can see; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.bound(pod, node), pod) if pod else None

    def assume_leaving(self, key: Key) -> Assumption | None:
        """A pod is leaving from now on; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.leaving(pod), pod) if pod else None

    def assume_marked(self, key: Key, **changes: Any) -> Assumption | None:  # noqa: ANN401 - fields of a record
        """A pod says something else of itself from now on; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.marked(pod, changes), pod) if pod else None

    def assume_status(self, kind: str, key: Key, **changes: Any) -> Assumption | None:  # noqa: ANN401 - fields of any status
        """A job has another status from now on; None if there is no such job."""
        job = self.jobs[kind].get(key)
        return self._assume(assumptions.restated(job, changes), job) if job else None

    def written(self, assumption: Assumption, version: int) -> None:
        """What was assumed is so since this version: what is told of it then, or later, is the answer."""
        assumptions.known_to_be_written(assumption, version)
        self._replace(assumption, self._assumed.review(assumption))

    def forget(self, assumption: Assumption) -> None:
        """What was assumed has not come about: what was told counts again."""
        self._replace(assumption, self._assumed.review(assumption, forget=True))

    @property
    def assumed(self) -> int:
        """How many assumptions have no answer yet."""
        return len(self._assumed)

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

    def _contents(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _shelf(self, kind: str) -> dict[Any, Any]:
        """Where objects of a kind are kept: by name, those of namespaces by key."""
        found: dict[Any, Any] = getattr(self, _SHELVES[kind]) if kind in _SHELVES else self.jobs[kind]
        return found

    def _place(self, kind: str, key: Key, thing: Object | PodRecord) -> None:
        shelf, index = self._shelf(kind), _index(kind, key)
        if shelf.get(index) == thing:
            return
        shelf[index] = thing
        if isinstance(thing, Namespace):
            self._relabel(key[1], {**thing.metadata.labels, NAMESPACE_LABEL: key[1]})
        self._note(kind, key)

    def _relabel(self, namespace: str, labels: dict[str, str] | None) -> None:
        """Let rules that choose namespaces by their labels follow."""
        before = self.pod_classes.namespaces.pop(namespace, None)
        if labels is not None:
            self.pod_classes.namespaces[namespace] = labels
        if before == labels or not self.pod_classes.minds_namespaces:
            return
        for pod in [pod for pod in self.pods.values() if pod.pod_class.choices]:
            self._place("Pod", pod.key, self._revised(pod))
        for kind in ("Job", *self.jobs):
            for key in self._shelf(kind):
                self._note(kind, key)

    def _assume(self, assumption: Assumption, thing: object) -> Assumption:
        self._replace(assumption, self._assumed.make(assumption, thing))
        return assumption

    def _replace(self, assumption: Assumption, thing: Any) -> None:  # noqa: ANN401 - of any kind
        if thing is not None:
            current = self._revised(thing) if isinstance(thing, PodRecord) else thing
            self._place(assumption.kind, assumption.key, current)

    def _revised(self, pod: PodRecord) -> PodRecord:
        """A pod as it is now; it may have been told of before namespaces were given other labels."""
        if not pod.pod_class.choices:
            return pod
        return replace(pod, pod_class=self.pod_classes.revised(pod.pod_class))

    def _note(self, kind: str, key: Key) -> None:
        for follower in self._followers:
            changes = follower()
            if changes is not None:
                changes.note(kind, key)


def _index(kind: str, key: Key) -> Key | str:
    return key[1] if kind in _OF_CLUSTER else key
