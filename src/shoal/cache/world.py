"""World: the objects of one cluster, as the records that snapshots are built from.

Objects are added and removed in any order, as watch events arrive. Consumers of a World follow it: they get
the keys of objects that changed. An update that changes nothing that is read here is not reported.
"""

from collections.abc import Callable
from typing import Any, Final, Self
from weakref import ref

from msgspec.structs import replace

from shoal.api.core import BUILT_IN_PRIORITIES, Job, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from shoal.api.meta import Object
from shoal.api.pool import Pool
from shoal.cache import assumptions
from shoal.cache.assumptions import Assumption, Assumptions
from shoal.cache.changes import Changes, Key
from shoal.kinds.base import workload_kinds
from shoal.kinds.pod_classes import NAMESPACE_LABEL, PodClassCache
from shoal.kinds.pods import PodRecord, record_of

_COLLECTIONS: Final = {
    "Node": "nodes",
    "Pool": "pools",
    "Namespace": "namespaces",
    "PriorityClass": "priority_classes",
    "PodDisruptionBudget": "budgets",
    "Job": "batch_jobs",
    "Pod": "pods",
}
_CLUSTER_SCOPED: Final = ("Node", "Pool", "Namespace", "PriorityClass")


class World:
    """The objects of one cluster. They are changed only through methods."""

    def __init__(self, now: float) -> None:
        """Start empty; objects without creationTimestamp count as created `now`."""
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
        """A world with the same objects and no followers."""
        twin = type(self)(self.now)
        vars(twin).update(self._contents())
        return twin

    def become(self, other: "World") -> None:
        """Take over the objects of a copy in which some were replaced; followers get their keys.

        Both must have the same namespaces, and no assumptions.
        """
        for kind in (*_COLLECTIONS, *self.jobs):
            here, there = self._collection(kind), other._collection(kind)  # noqa: SLF001 - of the same class
            if here is not there:
                for index in here.keys() | there.keys():
                    if here.get(index) is not there.get(index):
                        self._note(kind, ("", index) if kind in _CLUSTER_SCOPED else index)
        vars(self).update(other._contents())  # noqa: SLF001

    def follow(self, wake: Callable[[], None] | None = None) -> Changes:
        """The changes from now on, starting with all present objects.

        `wake` is called when there are some.
        """
        changes = Changes(wake)
        for kind in (*_COLLECTIONS, *self.jobs):
            for key in self._collection(kind):
                changes.note(kind, ("", key) if kind in _CLUSTER_SCOPED else key)
        self._followers = [*(one for one in self._followers if one() is not None), ref(changes)]
        return changes

    def put(self, *views: Object, version: int = 0) -> None:
        """Add or replace objects; `version` is the number of their resourceVersion."""
        for view in views:
            if isinstance(view, Pod):
                self.keep(record_of(view, self.pod_classes, self.now), version)
            else:
                kind, key = type(view).__name__, (view.metadata.namespace, view.metadata.name)
                self._place(kind, key, self._assumed.seen(kind, key, view, version))

    def keep(self, pod: PodRecord, version: int = 0) -> None:
        """Add or replace a pod that is a record already."""
        self._place("Pod", pod.key, self._revised(self._assumed.seen("Pod", pod.key, pod, version)))

    def remove(self, kind: str, key: Key) -> None:
        """Remove an object; it need not exist."""
        self._assumed.drop(kind, key)
        index = _index(kind, key)
        if self._collection(kind).pop(index, None) is None:
            return
        if kind == "Namespace":
            self._relabel(key[1], None)
        self._note(kind, key)

    def assume_bound(self, key: Key, node: str) -> Assumption | None:
        """Assume that a pod is bound to a node; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.bound(pod, node), pod) if pod else None

    def assume_leaving(self, key: Key) -> Assumption | None:
        """Assume that a pod is being deleted; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.leaving(pod), pod) if pod else None

    def assume_marked(self, key: Key, **changes: Any) -> Assumption | None:  # noqa: ANN401 - fields of a record
        """Assume other field values of a pod record; None if there is no such pod."""
        pod = self.pods.get(key)
        return self._assume(assumptions.marked(pod, changes), pod) if pod else None

    def assume_status(self, kind: str, key: Key, **changes: Any) -> Assumption | None:  # noqa: ANN401 - fields of any status
        """Assume other status fields of a job; None if there is no such job."""
        job = self.jobs[kind].get(key)
        return self._assume(assumptions.restated(job, changes), job) if job else None

    def written(self, assumption: Assumption, version: int) -> None:
        """An assumed write was made in this version: a watch event of that version or later confirms it."""
        assumptions.known_to_be_written(assumption, version)
        self._replace(assumption, self._assumed.review(assumption))

    def forget(self, assumption: Assumption) -> None:
        """An assumed write failed: the last state from the watch counts again."""
        self._replace(assumption, self._assumed.review(assumption, forget=True))

    @property
    def assumed(self) -> int:
        """Number of assumptions that are not confirmed yet."""
        return len(self._assumed)

    def priority_of(self, name: str) -> int | None:
        """The value of a PriorityClass; None if it does not exist."""
        known = self.priority_classes.get(name)
        return known.value if known else BUILT_IN_PRIORITIES.get(name)

    def never_preempts(self, name: str) -> bool:
        """Whether a PriorityClass has `preemptionPolicy: Never`."""
        known = self.priority_classes.get(name)
        return known is not None and known.preemption_policy == "Never"

    @property
    def default_priority(self) -> int:
        """The value of the global default PriorityClass; 0 if there is none."""
        values = (c.value for c in self.priority_classes.values() if c.global_default)
        return min(values, default=0)

    def _contents(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _collection(self, kind: str) -> dict[Any, Any]:
        """The objects of a kind: by name if cluster-scoped, else by key."""
        found: dict[Any, Any] = getattr(self, _COLLECTIONS[kind]) if kind in _COLLECTIONS else self.jobs[kind]
        return found

    def _place(self, kind: str, key: Key, thing: Object | PodRecord) -> None:
        collection, index = self._collection(kind), _index(kind, key)
        if collection.get(index) == thing:
            return
        collection[index] = thing
        if isinstance(thing, Namespace):
            self._relabel(key[1], {**thing.metadata.labels, NAMESPACE_LABEL: key[1]})
        self._note(kind, key)

    def _relabel(self, namespace: str, labels: dict[str, str] | None) -> None:
        """Update affinity terms that select namespaces by their labels."""
        before = self.pod_classes.namespaces.pop(namespace, None)
        if labels is not None:
            self.pod_classes.namespaces[namespace] = labels
        if before == labels or not self.pod_classes.depends_on_namespaces:
            return
        for pod in [pod for pod in self.pods.values() if pod.pod_class.namespace_selections]:
            self._place("Pod", pod.key, self._revised(pod))
        for kind in ("Job", *self.jobs):
            for key in self._collection(kind):
                self._note(kind, key)

    def _assume(self, assumption: Assumption, thing: object) -> Assumption:
        self._replace(assumption, self._assumed.make(assumption, thing))
        return assumption

    def _replace(self, assumption: Assumption, thing: Any) -> None:  # noqa: ANN401 - of any kind
        if thing is not None:
            current = self._revised(thing) if isinstance(thing, PodRecord) else thing
            self._place(assumption.kind, assumption.key, current)

    def _revised(self, pod: PodRecord) -> PodRecord:
        """A pod with its affinity terms resolved against the present labels of namespaces."""
        if not pod.pod_class.namespace_selections:
            return pod
        return replace(pod, pod_class=self.pod_classes.revised(pod.pod_class))

    def _note(self, kind: str, key: Key) -> None:
        for follower in self._followers:
            changes = follower()
            if changes is not None:
                changes.note(kind, key)


def _index(kind: str, key: Key) -> Key | str:
    return key[1] if kind in _CLUSTER_SCOPED else key
