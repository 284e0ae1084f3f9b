"""PodIndex: the pods of a World by node, owner and gang, without those on lost nodes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from shoal.api.core import Node
from shoal.api.meta import ObjectMeta
from shoal.cache.changes import Key
from shoal.cache.missing_pods import MissingPods, possible_jobs
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.kinds.pods import PodRecord, is_owned_by

T = TypeVar("T")

Owner = tuple[str, str, str]
"""Kind, namespace and name of the controller of a pod."""


class PodChanges(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The result of an update.

    `pods` has the old and the new record of every changed pod (None: absent). `nodes` were lost or found
    again. The pods of `jobs` gained or lost an owner that is planned as a workload.
    """

    pods: dict[Key, tuple[PodRecord | None, PodRecord | None]]
    nodes: set[str]
    jobs: list[Owner]


class PodIndex:
    """Existing pods, without those on lost nodes, and the pods that batch Jobs are still to create."""

    def __init__(self, world: World, config: SchedulerConfig, *, gangs_only: bool = False) -> None:
        """Start empty; the first update adds all. `gangs_only`: see MissingPods."""
        self._world, self._config = world, config
        self.alive: set[str] = set()
        self._silent: dict[str, float] = {}
        self._known: dict[Key, PodRecord] = {}
        self._gone: set[Key] = set()
        self._bound: defaultdict[str, set[Key]] = defaultdict(set)
        self._owned: defaultdict[Owner, set[Key]] = defaultdict(set)
        self._gangs: defaultdict[Key, set[Key]] = defaultdict(set)
        self._uids: dict[Owner, str] = {}
        self._expected = MissingPods(world, gangs_only=gangs_only)

    def __contains__(self, key: Key) -> bool:
        return self.is_present(key) or key in self._expected.pods

    def get(self, key: Key) -> PodRecord | None:
        """The pod of a name; a missing pod takes precedence over a failed one."""
        return self._expected.pods.get(key) or (self._known[key] if self.is_present(key) else None)

    def is_present(self, key: Key) -> bool:
        """Whether a pod exists, and not on a lost node."""
        return key in self._known and key not in self._gone

    def all(self) -> dict[Key, PodRecord]:
        """All pods by name."""
        present = {key: pod for key, pod in self._known.items() if key not in self._gone}
        return present | self._expected.pods

    def on(self, node: str) -> list[PodRecord]:
        """Pods that occupy a node; none if the node is lost."""
        if node not in self.alive:
            return []
        return [self._known[key] for key in sorted(self._bound.get(node, ()))]

    def of(self, kind: str, meta: ObjectMeta) -> list[PodRecord]:
        """The pods that an object controls, ordered by name."""
        keys = sorted(self._owned.get((kind, meta.namespace, meta.name), ()))
        return [pod for key in keys if is_owned_by(pod := self._known[key], kind, meta)]

    def claiming(self, owner: Owner) -> Iterator[PodRecord]:
        """Pods whose owner reference names an owner, whether it exists or not."""
        yield from (self._known[key] for key in self._owned.get(owner, ()))
        if owner[0] == "Job":
            yield from self._expected.of(owner[1:])

    def gang(self, key: Key) -> list[PodRecord]:
        """The loose pods of a gang."""
        found = (self.get(pod) for pod in self._gangs.get(key, ()))
        return [pod for pod in found if pod and self.is_loose(pod)]

    def is_loose(self, pod: PodRecord) -> bool:
        """Whether Shoal schedules a pod on its own.

        It has no owner that is a workload, and is not leaving.
        """
        ours = self._config.schedules(pod.pod_class.scheduler)
        return not pod.leaving and ours and not self.has_job(pod)

    def is_ours(self, pod: PodRecord) -> bool:
        """Whether Shoal schedules a pod; a pod of our jobs that names no scheduler counts."""
        scheduler = pod.pod_class.scheduler
        return self._config.schedules(scheduler) or (not scheduler and self.has_job(pod))

    def has_job(self, pod: PodRecord) -> bool:
        """Whether a pod is controlled by a job that is planned as one workload."""
        if pod.owner is None or pod.owner.kind not in self._world.jobs:
            return False
        job = self._world.jobs[pod.owner.kind].get((pod.namespace, pod.owner.name))
        return job is not None and is_owned_by(pod, pod.owner.kind, job.metadata)

    def update(self, changes: Mapping[str, set[Key]], now: float) -> PodChanges:
        """Apply changed objects, and the time: a node that is silent for too long is lost."""
        turned = self._update_alive({name for _, name in changes["Node"]}, now)
        bound = {key for node in turned for key in self._bound.get(node, ())}
        moved = {key: self._count(key) for key in changes["Pod"] | bound}
        before = {key: self._expected.pods.get(key) or pod for key, pod in moved.items()}
        jobs = changes["Job"] | set(self._concerned(moved))
        expected = self._expected.update(jobs, self._made, self.is_present)
        for key, pod in expected.items():
            before.setdefault(key, pod or self._present(key))
        pods = {key: pair for key, pod in before.items() if (pair := (pod, self.get(key)))[0] != pair[1]}
        for key, pair in pods.items():
            self._regroup(key, *pair)
        return PodChanges(pods=pods, nodes=turned, jobs=list(self._adopt(changes)))

    def _update_alive(self, changed: set[str], now: float) -> set[str]:
        """Find the nodes that were lost, or found again."""
        for name in changed:
            node = self._world.nodes.get(name)
            since = silent_since(node) if node else None
            if since is None:
                self._silent.pop(name, None)
            else:
                self._silent[name] = since
        most = self._config.node_lost_seconds
        lost = {name for name, since in self._silent.items() if now - since > most}
        looked_at = changed | self._silent.keys()
        alive = {name for name in looked_at if name in self._world.nodes and name not in lost}
        turned = (looked_at & self.alive) ^ alive
        self.alive ^= turned
        return turned

    def _count(self, key: Key) -> PodRecord | None:
        """Index a pod again; return its old record."""
        before, old = self._present(key), self._known.pop(key, None)
        self._gone.discard(key)
        if old and old.node:
            _discard(self._bound, old.node, key)
        if before and before.owner:
            _discard(self._owned, _owner(before), key)
        pod = self._world.pods.get(key)
        if pod is not None:
            self._take(key, pod)
        return before

    def _take(self, key: Key, pod: PodRecord) -> None:
        self._known[key] = pod
        if pod.node and not pod.finished:
            self._bound[pod.node].add(key)
        if not self._counts(pod):
            self._gone.add(key)
        elif pod.owner:
            self._owned[_owner(pod)].add(key)

    def _counts(self, pod: PodRecord) -> bool:
        """Whether a pod is present: it has ended, or is on a live node, or waits for a node."""
        if pod.finished:
            return True
        return pod.node in self.alive if pod.node else not pod.leaving

    def _present(self, key: Key) -> PodRecord | None:
        return self._known[key] if self.is_present(key) else None

    def _concerned(self, moved: Mapping[Key, PodRecord | None]) -> Iterator[Key]:
        """Batch Jobs that own changed pods, or could use their names."""
        for key, before in moved.items():
            for pod in (before, self._present(key)):
                if pod and pod.owner and pod.owner.kind == "Job":
                    yield pod.namespace, pod.owner.name
            yield from (job for job in possible_jobs(key) if job in self._world.batch_jobs)

    def _made(self, job: Key) -> list[PodRecord]:
        known = self._world.batch_jobs.get(job)
        return self.of("Job", known.metadata) if known else []

    def _regroup(self, key: Key, before: PodRecord | None, after: PodRecord | None) -> None:
        if before and before.pod_class.gang:
            _discard(self._gangs, (before.namespace, before.pod_class.gang), key)
        if after and after.pod_class.gang:
            self._gangs[after.namespace, after.pod_class.gang].add(key)

    def _adopt(self, changes: Mapping[str, set[Key]]) -> Iterator[Owner]:
        """Jobs that were added, removed, or deleted and recreated."""
        for kind in self._world.jobs:
            for key in changes[kind]:
                job, owner = self._world.jobs[kind].get(key), (kind, *key)
                uid = job.metadata.uid if job else None
                if self._uids.get(owner) == uid:
                    continue
                if uid is None:
                    del self._uids[owner]
                else:
                    self._uids[owner] = uid
                yield owner


def silent_since(node: Node) -> float | None:
    """Since when the Ready condition of a node has been Unknown; None if it is not."""
    ready = node.ready
    if ready is None or ready.status != "Unknown" or ready.last_transition_time is None:
        return None
    return ready.last_transition_time.timestamp()


def all_pods(world: World, config: SchedulerConfig, now: float) -> dict[Key, PodRecord]:
    """All present and missing pods of a world."""
    pods = PodIndex(world, config)
    pods.update(world.follow().take(), now)
    return pods.all()


def _owner(pod: PodRecord) -> Owner:
    return pod.owner.kind if pod.owner else "", pod.namespace, pod.owner.name if pod.owner else ""


def _discard(index: dict[T, set[Key]], place: T, key: Key) -> None:
    """Remove a key from an index, and an entry that becomes empty."""
    keys = index[place]
    keys.discard(key)
    if not keys:
        del index[place]
