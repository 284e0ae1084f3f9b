"""WorkloadIndex: jobs, gangs and loose pods as workloads, each rebuilt when a dependency changes."""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from shoal.api.pool import POOL_ANNOTATION
from shoal.cache.changes import Key
from shoal.cache.node_table import NodeTable, NodeTableChanges
from shoal.cache.pod_index import PodChanges, PodIndex
from shoal.cache.pod_names import NameClaims, NumberedPrefix, numbered_prefixes
from shoal.cache.workload_builder import ResolvedSpec, WorkloadBuilder
from shoal.cache.workload_entry import WorkloadEntry, needs_planning
from shoal.cache.world import World
from shoal.engine.workload import Shape, Workload
from shoal.kinds.base import job_kinds
from shoal.kinds.pod import gang_spec, pod_spec
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import WorkloadKey, WorkloadSpec

_FEW: Final = 8
"""With less than one change per this many entries, inserting is cheaper than sorting again."""

_seniority: Final = attrgetter("seniority")


class OrderedIndex:
    """Workload entries ordered by age; no two have the same seniority."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[WorkloadEntry] = []
        self._workloads: list[Workload] = []

    def entries(self) -> tuple[WorkloadEntry, ...]:
        """The entries in order."""
        return tuple(self._entries)

    def workloads(self) -> tuple[Workload, ...]:
        """The workloads in order."""
        return tuple(self._workloads)

    def change(self, gone: Collection[WorkloadEntry], come: Collection[WorkloadEntry]) -> None:
        """Remove entries, which must be present, and add others."""
        if (len(gone) + len(come)) * _FEW > len(self._entries):
            left = set(gone)
            kept = [entry for entry in self._entries if entry not in left]
            self._entries = sorted([*kept, *come], key=_seniority)
            self._workloads = [entry.workload for entry in self._entries]
            return
        for entry in gone:
            place = bisect_left(self._entries, entry.seniority, key=_seniority)
            del self._entries[place], self._workloads[place]
        for entry in come:
            place = bisect_left(self._entries, entry.seniority, key=_seniority)
            self._entries.insert(place, entry)
            self._workloads.insert(place, entry.workload)


class WorkloadLists:
    """All workloads, those that a cycle must look at, those whose size it decides, those with due writes."""

    def __init__(self) -> None:
        """Start empty."""
        self.all, self.unsettled, self.elastic = OrderedIndex(), OrderedIndex(), OrderedIndex()
        self.due = OrderedIndex()

    def change(self, gone: Collection[WorkloadEntry], come: Collection[WorkloadEntry]) -> None:
        """Remove entries and add others."""
        self.all.change(gone, come)
        self.unsettled.change(
            *([one for one in some if needs_planning(one.workload)] for some in (gone, come))
        )
        self.elastic.change(*([one for one in some if one.workload.elastic] for some in (gone, come)))
        self.due.change(*([one for one in some if one.due] for some in (gone, come)))


def find_entry(entries: tuple[WorkloadEntry, ...], workload: Workload) -> WorkloadEntry:
    """The entry of a workload among ordered entries; KeyError if there is none."""
    wanted = workload.created, workload.namespace, workload.name, workload.kind
    place = bisect_left(entries, wanted, key=_seniority)
    if place == len(entries) or entries[place].workload is not workload:
        raise KeyError(workload.key)
    return entries[place]


T = TypeVar("T", bound=Hashable)


class WorkloadIndex:
    """All workloads, indexed by the nodes and name prefixes that they depend on."""

    def __init__(
        self, world: World, pods: PodIndex, nodes: NodeTable, builder: WorkloadBuilder, claims: NameClaims
    ) -> None:
        """Start empty."""
        self._world, self._pods, self._nodes = world, pods, nodes
        self._builder, self._claims = builder, claims
        self.lists = WorkloadLists()
        self._specs: dict[WorkloadKey, WorkloadSpec] = {}
        self._built: dict[WorkloadKey, WorkloadEntry] = {}
        self._by_node: dict[str, set[WorkloadKey]] = {}
        self._by_prefix: dict[NumberedPrefix, set[WorkloadKey]] = {}
        self._pools: dict[Key, str] = {}

    def on(self, node: str) -> Iterator[WorkloadEntry]:
        """Workloads with allocations or nominations on a node."""
        yield from (self._built[key] for key in sorted(self._by_node.get(node, ())) if key in self._built)

    def retains(self, pod: PodRecord) -> bool:
        """Whether the slot of a terminating pod keeps the room that the pod has."""
        entry = self._built.get((pod.owner.kind, pod.namespace, pod.owner.name)) if pod.owner else None
        return entry is not None and pod.name in entry.retained

    def update_specs(self, changes: Mapping[str, set[Key]], pods: PodChanges) -> set[WorkloadKey]:
        """Compute the specs of changed jobs and of jobs with changed pods again; return their keys."""
        keys = {(kind, *key) for kind in self._world.jobs for key in changes[kind]}
        for before, after in pods.pods.values():
            keys.update(self._possible_workloads(before), self._possible_workloads(after))
        for owner in pods.jobs:
            keys.update(key for pod in self._pods.claiming(owner) for key in self._possible_workloads(pod))
        for key in keys:
            self._replace_spec(key, self._spec_of(*key))
        return keys

    def affected(
        self, changes: Mapping[str, set[Key]], pods: PodChanges, rebuilt: NodeTableChanges
    ) -> Iterator[WorkloadKey]:
        """Keys of workloads that depend on a change, although their specs do not."""
        if changes["PriorityClass"] or rebuilt.pools:
            yield from self._specs
        spaces = {name for _, name in changes["Namespace"]}
        yield from (key for key in self._specs if key[1] in spaces) if spaces else ()
        for node in pods.nodes | rebuilt.nodes:
            yield from self._by_node.get(node, ())
        for key in pods.pods:
            yield from self._claims.claimants_of(key)
            yield from self._growing_into(key)
        for job in self._changed_pools(changes["Job"]):
            yield from (
                key for pod in self._pods.claiming(("Job", *job)) for key in self._possible_workloads(pod)
            )

    def move_columns(self, columns: Sequence[int], stale: Collection[WorkloadKey]) -> None:
        """Move all workloads to the new columns of their nodes, except those that are built again anyway."""
        gone, come = [], []
        for key, entry in self._built.items():
            moved = entry if key in stale else entry.moved(columns)
            if moved is not entry:
                gone.append(entry)
                come.append(moved)
        self._built.update((entry.spec.key, entry) for entry in come)
        self.lists.change(gone, come)

    def rebuild(self, keys: Iterable[WorkloadKey]) -> set[str]:
        """Build workloads again; return nodes whose allocated tasks without pods changed."""
        resolved_specs = {key: self._resolve(key) for key in keys}
        for key, resolved in resolved_specs.items():
            if resolved:
                self._claims.claim(key, resolved.spec.seniority, resolved.names)
            else:
                self._claims.release(key)
        others, names = self._claims.settle(resolved_specs)
        others.update(entry for key in names for entry in self._growing_into(key))
        resolved_specs |= {key: self._resolve(key) for key in others - resolved_specs.keys()}
        gone = [self._built.pop(key) for key in resolved_specs if key in self._built]
        made = {key: self._builder.build(resolved) for key, resolved in resolved_specs.items() if resolved}
        self._built |= made
        self.lists.change(gone, made.values())
        return {node for entry in (*gone, *made.values()) for node in entry.allocated_nodes}

    def _spec_of(self, kind: str, namespace: str, name: str) -> WorkloadSpec | None:
        """The spec of a workload; None if it wants nothing or does not exist."""
        pods, key = self._pods, (namespace, name)
        if kind in self._world.jobs:
            job = self._world.jobs[kind].get(key)
            if job is None or job.metadata.deletion_timestamp is not None:
                return None
            own = pods.of(kind, job.metadata)
            return job_kinds()[kind].workload_spec(job, self._world.pod_classes, own, self._world.now)
        if kind == "Gang":
            members = [pod for pod in pods.gang(key) if pod.phase != "Failed"]
            return None if all(pod.finished for pod in members) else gang_spec(name, members)
        pod = pods.get(key)
        alone = pod and not pod.pod_class.gang and not pod.finished and pods.is_loose(pod)
        return pod_spec(pod) if pod and alone else None

    def _replace_spec(self, key: WorkloadKey, spec: WorkloadSpec | None) -> None:
        """Replace the spec of a workload, and update the indexes."""
        before = self._specs.pop(key, None)
        if before:
            self._index(before, come=False)
        if spec:
            self._specs[key] = spec
            self._index(spec, come=True)

    def _index(self, spec: WorkloadSpec, *, come: bool) -> None:
        for node in {*spec.allocations.values(), *spec.nominations.values()}:
            _mark(self._by_node, node, spec.key, there=come)
        for prefix in spec.elastic.prefixes if spec.elastic else ():
            _mark(self._by_prefix, (spec.metadata.namespace, prefix), spec.key, there=come)
        if spec.kind in self._world.jobs:
            self._nodes.want(_shapes(spec), 1 if come else -1)

    def _resolve(self, key: WorkloadKey) -> ResolvedSpec | None:
        spec = self._specs.get(key)
        return self._builder.resolve(spec) if spec else None

    def _growing_into(self, key: Key) -> Iterator[WorkloadKey]:
        """Workloads that could name a new pod so."""
        for row, _ in numbered_prefixes(key):
            yield from self._by_prefix.get(row, ())

    def _possible_workloads(self, pod: PodRecord | None) -> Iterator[WorkloadKey]:
        """Workloads that a pod may belong to; which one depends on the existing jobs."""
        if pod is None:
            return
        yield "Pod", pod.namespace, pod.name
        if pod.pod_class.gang:
            yield "Gang", pod.namespace, pod.pod_class.gang
        if pod.owner and pod.owner.kind in self._world.jobs:
            yield pod.owner.kind, pod.namespace, pod.owner.name

    def _changed_pools(self, jobs: Iterable[Key]) -> list[Key]:
        """Batch Jobs whose pool annotation changed."""
        changed = []
        for job in jobs:
            known = self._world.batch_jobs.get(job)
            pool = known.metadata.annotations.get(POOL_ANNOTATION, "") if known else ""
            if self._pools.pop(job, "") != pool:
                changed.append(job)
            if pool:
                self._pools[job] = pool
        return changed


def _shapes(spec: WorkloadSpec) -> set[Shape]:
    return {pod_class.shape for pod_class in spec.pod_classes}


def _mark(index: dict[T, set[WorkloadKey]], place: T, key: WorkloadKey, *, there: bool) -> None:
    """Add a key to an index, or remove it and an entry that becomes empty."""
    if there:
        index.setdefault(place, set()).add(key)
        return
    index[place].discard(key)
    if not index[place]:
        del index[place]
