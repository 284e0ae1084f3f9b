"""The observed state of a simulated run: every object as it is now, and the history that invariants need.

It gets every commit, in order, and is updated incrementally, so that a check of the invariants after each
commit costs about as much as the commit.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.quantity import Quantity
from shoal.apiserver.registry.records import Change
from shoal.kinds.dijob import RANK_LABEL
from tests.kinds.promises import KINDS

T = TypeVar("T")

Key = tuple[str, str]
GANG, GANG_MIN = "shoal.io/gang", "shoal.io/gang-min"
INDEX = "batch.kubernetes.io/job-completion-index"
TOPOLOGY = ("nodes", "pools.resource.aibee.cn")
MAX_FAULT_EFFECT = 400.0
"""Seconds after which a fault has no effect any more, and what it delayed has been retried."""


class _View(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an object; other fields are ignored."""


class Owner(_View, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Meta(_View, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    deletion_timestamp: str | None = None
    generation: int = 0


class Condition(_View, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Resources(_View, frozen=True):
    requests: dict[str, str] = {}


class _Container(_View, frozen=True):
    resources: _Resources = _Resources()


class _PodSpec(_View, frozen=True):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()


class _PodStatus(_View, frozen=True):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(_View, frozen=True):
    """A pod."""

    metadata: Meta
    spec: _PodSpec
    status: _PodStatus = _PodStatus()

    @property
    def description(self) -> str:
        return f"pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def key(self) -> Key:
        return self.metadata.namespace, self.metadata.name

    @property
    def node(self) -> str:
        return self.spec.node_name

    @property
    def finished(self) -> bool:
        return self.status.phase in FINISHED_PHASES

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def disrupted(self) -> bool:
        """Whether it has the DisruptionTarget condition."""
        return any(one.type == "DisruptionTarget" and one.status == "True" for one in self.status.conditions)

    @property
    def pending(self) -> bool:
        """Whether it waits for a node."""
        return not self.node and not self.terminating and not self.finished

    @property
    def reason(self) -> str:
        """The message of its PodScheduled condition, if that is False."""
        unscheduled = (
            one for one in self.status.conditions if one.type == "PodScheduled" and one.status == "False"
        )
        return next((one.message for one in unscheduled), "")

    @property
    def gang(self) -> Key | None:
        name = self.metadata.annotations.get(GANG)
        return (self.metadata.namespace, name) if name else None

    @property
    def task(self) -> tuple[str, str] | None:
        """The uid of its Job, and its completion index."""
        index = self.metadata.annotations.get(INDEX)
        owner = self.job
        return (owner.uid, index) if owner and index is not None else None

    @property
    def job(self) -> Owner | None:
        return next((one for one in self.metadata.owner_references if one.kind == "Job"), None)

    @property
    def slot(self) -> tuple[str, str] | None:
        """The uid of its DIJob, TYJob or TrainingJob, and its slot in it: its rank or its name."""
        owner = next((one for one in self.metadata.owner_references if one.kind in KINDS), None)
        return (owner.uid, self.metadata.labels.get(RANK_LABEL, self.metadata.name)) if owner else None

    def requests(self) -> dict[str, int]:
        """Its resource requests, in billionths."""
        total = Counter({"pods": _amount("1")})
        for container in self.spec.containers:
            for name, text in container.resources.requests.items():
                total[name] += _amount(text)
        return total


class _NodeStatus(_View, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class _NodeSpec(_View, frozen=True):
    unschedulable: bool = False
    taints: tuple[dict[str, Any], ...] = ()


class Node(_View, frozen=True):
    """A node."""

    metadata: Meta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    def allocatable(self) -> dict[str, int]:
        return {name: _amount(text) for name, text in self.status.allocatable.items()}


class _JobSpec(_View, frozen=True):
    completions: int | None = None
    parallelism: int = 1
    suspend: bool = False


class _JobStatus(_View, frozen=True):
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    completed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()


class Job(_View, frozen=True):
    """A batch Job."""

    metadata: Meta
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()

    @property
    def end(self) -> str:
        """Complete, Failed, or empty if it is not finished."""
        ends = (one.type for one in self.status.conditions if one.status == "True")
        return next((kind for kind in ends if kind in ("Complete", "Failed")), "")

    @property
    def ending(self) -> bool:
        """Whether it needs no more pods."""
        kinds = {one.type for one in self.status.conditions if one.status == "True"}
        return bool(kinds & {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


class Pool(_View, frozen=True):
    """A Pool; only changes of its spec matter."""

    metadata: Meta


class _BudgetStatus(_View, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class Budget(_View, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Meta
    status: _BudgetStatus = _BudgetStatus()


class Step(NamedTuple):
    """One change: of a pod, a node, a Job, a budget, or the spec of a Pool."""

    kind: str
    before: Any
    after: Any


@lru_cache
def _amount(text: str) -> int:
    return Quantity(text).nano


_READERS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "pods": msgspec.json.Decoder(Pod),
    "nodes": msgspec.json.Decoder(Node),
    "jobs.batch": msgspec.json.Decoder(Job),
    "poddisruptionbudgets.policy": msgspec.json.Decoder(Budget),
    "pools.resource.aibee.cn": msgspec.json.Decoder(Pool),
}


class ObservedState:
    """All objects, and what happened to them."""

    def __init__(self, now: Callable[[], float], running: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        """`now` is a monotonic clock in seconds; `running` returns the uids of running pods by node."""
        self.now, self.running = now, running
        self.pods: Final[dict[Key, Pod]] = {}
        self.nodes: Final[dict[str, Node]] = {}
        self.jobs: Final[dict[str, Job]] = {}
        """By uid."""
        self.known: Final[dict[str, Pod]] = {}
        """Every pod that ever existed, in its last version, by uid."""
        self.deleted: Final[dict[str, Pod]] = {}
        """Those that are deleted."""
        self.deleted_by_users: Final[set[str]] = set()
        """Uids of pods and Jobs."""
        self.gangs: Final[defaultdict[Key, dict[Key, Pod]]] = defaultdict(dict)
        self.members: Final[defaultdict[Key, set[Key]]] = defaultdict(set)
        """All pods that were ever created for a gang."""
        self.last_loss: Final[dict[Key, float]] = {}
        """When a gang last lost a pod with a node or a nomination because it was deleted or finished."""
        self.used: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
        """Requests of the pods of each node, until they are finished or deleted."""
        self.nominated: Final[defaultdict[str, dict[Key, Pod]]] = defaultdict(dict)
        """Pods that are nominated for each node, and not bound yet."""
        self.nominated_at: Final[dict[str, float]] = {}
        """When the last nomination of a pod was written, by uid."""
        self.topology_changed_at = 0.0
        """When a node or the spec of a pool last changed."""
        self.displaced: Final[dict[str, tuple[float, Pod]]] = {}
        """Pods whose nominated room may have been taken, by uid: since when, and by which pod."""
        self.without_reason: Final[dict[str, float]] = {}
        """Pending pods without a reason, by uid, and since when."""
        self.partial_gangs: Final[dict[Key, float]] = {}
        """Gangs that are neither whole nor absent, and since when."""
        self.created: Final[defaultdict[str, deque[float]]] = defaultdict(deque)
        """When pods of each Job were created recently, by its uid."""
        self.succeeded_tasks: Final[dict[tuple[str, str], str]] = {}
        """Tasks of Jobs that succeeded, and the uid of the pod that did."""
        self.faults_over_at = 0.0
        """When the last fault has no effect any more."""

    def without_faults_for(self, seconds: float) -> bool:
        """Whether there was no fault for some seconds."""
        return self.now() - self.faults_over_at >= seconds

    def apply(self, changes: Sequence[Change]) -> Iterator[Step]:
        """Apply a commit, change by change, and yield each change after it was applied."""
        for change in changes:
            record = change.record
            reader = _READERS.get(record.key.resource)
            if reader is not None:
                before = reader.decode(change.before.body) if change.before else None
                after = None if record.deleted else reader.decode(record.body)
                if not isinstance(after, Pool) or not before or _spec_changed(before, after):
                    yield self._apply(record.key.resource, before, after)

    def _apply(self, resource: str, before: Any, after: Any) -> Step:  # noqa: ANN401 - of any kind
        if resource == "pods":
            self._apply_pod(before, after)
        elif resource in TOPOLOGY and before != after:
            self.topology_changed_at = self.now()
        if resource == "nodes":
            _put(self.nodes, (before or after).metadata.name, after)
        elif resource == "jobs.batch":
            _put(self.jobs, (before or after).metadata.uid, after)
        return Step(resource, before, after)

    # --- pods ----------------------------------------------------------------------------------------------

    def _apply_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        _put(self.pods, pod.key, after)
        if before is None and pod.job:
            self.created[pod.job.uid].append(self.now())
        self.known[pod.metadata.uid] = pod
        if after is None:
            self.deleted[pod.metadata.uid] = pod
        self._add_usage(before, -1)
        self._add_usage(after, +1)
        if before and before.status.nominated_node_name:
            self.nominated[before.status.nominated_node_name].pop(before.key, None)
        if after and after.pending and after.status.nominated_node_name:
            self.nominated[after.status.nominated_node_name][after.key] = after
            if not before or before.status.nominated_node_name != after.status.nominated_node_name:
                self.nominated_at[pod.metadata.uid] = self.now()
        if pod.gang:
            _put(self.gangs[pod.gang], pod.key, after)
            self.members[pod.gang].add(pod.key)
            if (
                before
                and _has_node_or_nomination(before)
                and (after is None or after.terminating or after.finished)
            ):
                self.last_loss[pod.gang] = self.now()
        self._track_reason(pod, after)
        if after and after.task and after.status.phase == "Succeeded":
            self.succeeded_tasks.setdefault(after.task, after.metadata.uid)

    def _add_usage(self, pod: Pod | None, sign: int) -> None:
        if pod and pod.node and not pod.finished:
            for name, amount in pod.requests().items():
                self.used[pod.node][name] += sign * amount

    def _track_reason(self, pod: Pod, after: Pod | None) -> None:
        if after and after.pending and not after.reason:
            self.without_reason.setdefault(pod.metadata.uid, self.now())
        else:
            self.without_reason.pop(pod.metadata.uid, None)


def _has_node_or_nomination(pod: Pod) -> bool:
    return not pod.terminating and not pod.finished and bool(pod.node or pod.status.nominated_node_name)


def _spec_changed(before: Pool, after: Pool) -> bool:
    return before.metadata.generation != after.metadata.generation


def _put(things: dict[Any, T], key: object, thing: T | None) -> None:
    if thing is None:
        things.pop(key, None)
    else:
        things[key] = thing
