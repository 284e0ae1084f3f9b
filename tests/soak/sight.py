"""What a witness of a simulated run has seen: every object as it is now, and what is to be remembered of it.

It is told of every commit, in order, and keeps what the promises need up to date, so that to check them after
each commit costs about as much as the commit.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from shoal.api.quantity import Quantity
from shoal.apiserver.registry.records import Change

T = TypeVar("T")

Key = tuple[str, str]
GANG, GANG_MIN = "shoal.io/gang", "shoal.io/gang-min"
INDEX = "batch.kubernetes.io/job-completion-index"
PLACES = ("nodes", "pools.resource.aibee.cn")
LONGEST_FAULT = 400.0
"""Seconds after which no fault has any effect any more, and what was put off by it has been tried again."""
_ENDED = ("Succeeded", "Failed")


class _View(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an object; the rest is not looked at."""


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
    def title(self) -> str:
        return f"pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def key(self) -> Key:
        return self.metadata.namespace, self.metadata.name

    @property
    def node(self) -> str:
        return self.spec.node_name

    @property
    def ended(self) -> bool:
        return self.status.phase in _ENDED

    @property
    def leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def told_to_go(self) -> bool:
        """Whether it says why it is sent away."""
        return any(one.type == "DisruptionTarget" and one.status == "True" for one in self.status.conditions)

    @property
    def waits(self) -> bool:
        """Whether it wants a node."""
        return not self.node and not self.leaving and not self.ended

    @property
    def reason(self) -> str:
        """Why it has no node, as far as it says so."""
        said = (one for one in self.status.conditions if one.type == "PodScheduled" and one.status == "False")
        return next((one.message for one in said), "")

    @property
    def gang(self) -> Key | None:
        name = self.metadata.annotations.get(GANG)
        return (self.metadata.namespace, name) if name else None

    @property
    def task(self) -> tuple[str, str] | None:
        """The uid of its Job, and its index there."""
        index = self.metadata.annotations.get(INDEX)
        owner = self.job
        return (owner.uid, index) if owner and index is not None else None

    @property
    def job(self) -> Owner | None:
        return next((one for one in self.metadata.owner_references if one.kind == "Job"), None)

    def asks(self) -> dict[str, int]:
        """What it asks of its node, in billionths."""
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

    def has(self) -> dict[str, int]:
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
        """How it ended: Complete, Failed, or not yet."""
        ends = (one.type for one in self.status.conditions if one.status == "True")
        return next((kind for kind in ends if kind in ("Complete", "Failed")), "")

    @property
    def ending(self) -> bool:
        """Whether it needs none of its pods any more."""
        kinds = {one.type for one in self.status.conditions if one.status == "True"}
        return bool(kinds & {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


class Pool(_View, frozen=True):
    """A Pool, as far as it matters whether it changes its mind."""

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
    """One change: of a pod, a node, a Job, a budget, or of the mind of a Pool."""

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


class Sight:
    """All that was seen."""

    def __init__(self, now: Callable[[], float], running: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        """Seconds pass by `now`, which never jumps; `running` says what really runs on each node."""
        self.now, self.running = now, running
        self.pods: Final[dict[Key, Pod]] = {}
        self.nodes: Final[dict[str, Node]] = {}
        self.jobs: Final[dict[str, Job]] = {}
        """By uid."""
        self.known: Final[dict[str, Pod]] = {}
        """Every pod that ever was, as it was last, by uid."""
        self.gone: Final[dict[str, Pod]] = {}
        """Those that are no more."""
        self.deleted_by_users: Final[set[str]] = set()
        """Uids of pods and Jobs."""
        self.gangs: Final[defaultdict[Key, dict[Key, Pod]]] = defaultdict(dict)
        self.members: Final[defaultdict[Key, set[Key]]] = defaultdict(set)
        """All that ever were of a gang."""
        self.bereft: Final[dict[Key, float]] = {}
        """When a gang last lost somebody who had room: deleted or ended, not merely told to wait."""
        self.used: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
        """What the pods of each node hold, until they have ended or are gone."""
        self.kept: Final[defaultdict[str, dict[Key, Pod]]] = defaultdict(dict)
        """Pods that are nominated for each node, and do not have it yet."""
        self.promised: Final[dict[str, float]] = {}
        """When the room that was last kept for a pod was written down, by uid."""
        self.rearranged = 0.0
        """When a node or a pool last became another."""
        self.robbed: Final[dict[str, tuple[float, Pod]]] = {}
        """Pods whose room may be another's by now, by uid: since when, and whose."""
        self.mute: Final[dict[str, float]] = {}
        """Pods that wait and do not say why, by uid, and since when."""
        self.halved: Final[dict[Key, float]] = {}
        """Gangs that are neither whole nor absent, and since when."""
        self.made: Final[defaultdict[str, deque[float]]] = defaultdict(deque)
        """When pods of each Job were made lately, by its uid."""
        self.done: Final[dict[tuple[str, str], str]] = {}
        """Tasks of Jobs that succeeded, and the uid of the pod that did it."""
        self.calm_since = 0.0
        """When the last fault was over."""

    def calm(self, seconds: float) -> bool:
        """Whether nothing has gone wrong for so long."""
        return self.now() - self.calm_since >= seconds

    def take(self, changes: Sequence[Change]) -> Iterator[Step]:
        """Take note of a commit, change by change; each is told when it has been taken note of."""
        for change in changes:
            record = change.record
            reader = _READERS.get(record.key.resource)
            if reader is not None:
                before = reader.decode(change.before.body) if change.before else None
                after = None if record.deleted else reader.decode(record.body)
                if not isinstance(after, Pool) or not before or _changes_its_mind(before, after):
                    yield self._noted(record.key.resource, before, after)

    def _noted(self, resource: str, before: Any, after: Any) -> Step:  # noqa: ANN401 - of any kind
        if resource == "pods":
            self._note_pod(before, after)
        elif resource in PLACES and before != after:
            self.rearranged = self.now()
        if resource == "nodes":
            _put(self.nodes, (before or after).metadata.name, after)
        elif resource == "jobs.batch":
            _put(self.jobs, (before or after).metadata.uid, after)
        return Step(resource, before, after)

    # --- pods ---------------------------------------------------------------------------------------------

    def _note_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        _put(self.pods, pod.key, after)
        if before is None and pod.job:
            self.made[pod.job.uid].append(self.now())
        self.known[pod.metadata.uid] = pod
        if after is None:
            self.gone[pod.metadata.uid] = pod
        self._count(before, -1)
        self._count(after, +1)
        if before and before.status.nominated_node_name:
            self.kept[before.status.nominated_node_name].pop(before.key, None)
        if after and after.waits and after.status.nominated_node_name:
            self.kept[after.status.nominated_node_name][after.key] = after
            if not before or before.status.nominated_node_name != after.status.nominated_node_name:
                self.promised[pod.metadata.uid] = self.now()
        if pod.gang:
            _put(self.gangs[pod.gang], pod.key, after)
            self.members[pod.gang].add(pod.key)
            if before and _has_room(before) and (after is None or after.leaving or after.ended):
                self.bereft[pod.gang] = self.now()
        self._listen(pod, after)
        if after and after.task and after.status.phase == "Succeeded":
            self.done.setdefault(after.task, after.metadata.uid)

    def _count(self, pod: Pod | None, sign: int) -> None:
        if pod and pod.node and not pod.ended:
            for name, amount in pod.asks().items():
                self.used[pod.node][name] += sign * amount

    def _listen(self, pod: Pod, after: Pod | None) -> None:
        if after and after.waits and not after.reason:
            self.mute.setdefault(pod.metadata.uid, self.now())
        else:
            self.mute.pop(pod.metadata.uid, None)


def _has_room(pod: Pod) -> bool:
    return not pod.leaving and not pod.ended and bool(pod.node or pod.status.nominated_node_name)


def _changes_its_mind(before: Pool, after: Pool) -> bool:
    return before.metadata.generation != after.metadata.generation


def _put(things: dict[Any, T], key: object, thing: T | None) -> None:
    if thing is None:
        things.pop(key, None)
    else:
        things[key] = thing
