"""SnapshotBuilder: Snapshots of a World, updated incrementally, and the pod behind each of their tasks.

The builder keeps everything that a snapshot consists of, and computes again only what changes affect, in a
fixed order: pods, workload specs, nodes, names, workloads, and the sums over each node.
"""

from collections.abc import Iterator, Mapping

import msgspec

from shoal.cache.budgets import DisruptionBudgets
from shoal.cache.changes import Key
from shoal.cache.node_table import Guest, NodeTable, Occupancy
from shoal.cache.pod_index import PodChanges, PodIndex
from shoal.cache.pod_names import NameClaims
from shoal.cache.workload_builder import WorkloadBuilder
from shoal.cache.workload_entry import WorkloadEntry
from shoal.cache.workload_index import WorkloadIndex, find_entry
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import SchedulerConfig
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Task, Workload
from shoal.kinds.pods import PodRecord


class BuiltSnapshot(msgspec.Struct, frozen=True, eq=False):
    """A snapshot, the pods behind its tasks, and entries of which writes are due whatever is planned.

    Immutable.
    """

    snapshot: Snapshot
    due: tuple[WorkloadEntry, ...]
    _entries: tuple[WorkloadEntry, ...]

    def entry(self, workload: Workload) -> WorkloadEntry:
        """The entry that a workload belongs to."""
        return find_entry(self._entries, workload)

    def pod(self, workload: Workload, task: Task) -> PodRecord:
        """The pod of a task, also of a task that a plan added to an elastic workload."""
        return self.entry(workload).pod(task)


def build_snapshot(world: World, config: SchedulerConfig, now: float) -> BuiltSnapshot:
    """The snapshot of a world, built once."""
    return SnapshotBuilder(world, config).build(now)


class SnapshotBuilder:
    """Follows a World and builds snapshots; the cost of each grows with what changed since the last."""

    def __init__(self, world: World, config: SchedulerConfig, *, gangs_only: bool = False) -> None:
        """Start to follow; nothing is computed before the first snapshot.

        With `gangs_only`, of the pods that batch Jobs are still to create only those of gangs are planned.
        """
        self._world, self._changes = world, world.follow()
        self._pods = pods = PodIndex(world, config, gangs_only=gangs_only)
        self._nodes = nodes = NodeTable(world)
        claims = NameClaims(pods.__contains__)
        self._builder = WorkloadBuilder(world, config, pods, nodes, claims)
        self._workloads = WorkloadIndex(world, pods, nodes, self._builder, claims)
        self._allowances = DisruptionBudgets()
        self._occupancy = Occupancy(self._allowances)

    def build(self, now: float) -> BuiltSnapshot:
        """The snapshot of the world as it is now."""
        changes = self._changes.take()
        movement = self._pods.update(changes, now)
        self._nodes.update(changes)
        self._follow_pods(movement)
        self._follow_workloads(changes, movement)
        self._allowances.update(
            changes["PodDisruptionBudget"], self._world.budgets, lambda: self._occupancy.all
        )
        lists = self._workloads.lists
        return BuiltSnapshot(self._snapshot(now), lists.due.entries(), lists.all.entries())

    def _follow_pods(self, movement: PodChanges) -> None:
        """Count requested resources and used names."""
        taken = self._builder.taken
        for key, (before, after) in movement.pods.items():
            if before:
                self._nodes.want([before.pod_class.shape], -1)
                taken.discard(key)
            if after:
                self._nodes.want([after.pod_class.shape], 1)
                taken.add(key)

    def _follow_workloads(self, changes: Mapping[str, set[Key]], movement: PodChanges) -> None:
        """Build affected workloads again, then the sums of affected nodes."""
        entries = self._workloads
        stale = entries.update_specs(changes, movement)
        rebuilt = self._nodes.lay_out()
        stale.update(entries.affected(changes, movement, rebuilt))
        if rebuilt.columns is not None:
            entries.move_columns(rebuilt.columns, stale)
        touched = entries.rebuild(stale) | rebuilt.nodes | self._nodes_of(movement)
        nodes = self._nodes.nodes
        if rebuilt.columns is not None or rebuilt.rows:
            self._occupancy.clear(nodes)
            touched = set(nodes.names)
        columns = sorted(nodes.columns[name] for name in touched if name in nodes.columns)
        self._occupancy.update(nodes, columns, self._guests)

    def _nodes_of(self, movement: PodChanges) -> set[str]:
        """Nodes whose pods were added, removed, or changed their owner."""
        moved = (pod for pair in movement.pods.values() for pod in pair)
        owned = (pod for job in movement.jobs for pod in self._pods.claiming(job))
        return {pod.node for pod in (*moved, *owned) if pod and pod.node}

    def _guests(self, column: int) -> Iterator[Guest]:
        """Occupants of a node: its pods, and allocated tasks whose pods are not there yet.

        A terminating pod whose slot keeps the room does not release it.
        """
        name = self._nodes.nodes.names[column]
        for pod in self._pods.on(name):
            pod_class = pod.pod_class
            leaving = pod.leaving and not self._workloads.retains(pod)
            there = Occupant(column, pod_class.shape, pod_class.identity, leaving)
            yield there, self._pods.is_ours(pod)
        for entry in self._workloads.on(name):
            yield from ((occupant, True) for node, occupant in entry.guests if node == name)

    def _snapshot(self, now: float) -> Snapshot:
        occupancy, lists = self._occupancy, self._workloads.lists
        return Snapshot(
            nodes=self._nodes.nodes,
            pools=self._nodes.pools,
            used=occupancy.used.copy(),
            system=occupancy.system.copy(),
            occupants=occupancy.all,
            terminating=occupancy.terminating,
            has_anti_affinity=occupancy.has_anti_affinity,
            budgets=self._allowances.budgets(),
            workloads=lists.all.workloads(),
            unsettled=lists.unsettled.workloads(),
            elastic=lists.elastic.workloads(),
            limits=occupancy.limits,
            now=now,
        )
