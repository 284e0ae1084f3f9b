"""NodeTable: the nodes of a World as the engine's arrays, and Occupancy: the sums of pods on each node.

Both are updated incrementally. A heartbeat that changes nothing costs nothing, a changed node costs its own
column. Columns are laid out again when a node is added or removed or changes its pool; rows, when the set of
resources changes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np

from shoal.api.core import Node
from shoal.api.podspec import Resources, to_nano
from shoal.cache.budgets import DisruptionBudgets
from shoal.cache.changes import Key
from shoal.cache.pool_membership import PoolMembership
from shoal.cache.world import World
from shoal.engine import snapshot
from shoal.engine.affinity import Occupant, usage_of
from shoal.engine.layout import Amounts, ResourceLayout
from shoal.engine.nodes import NodeRecord, Nodes, tolerates
from shoal.engine.resources import STANDARD_RESOURCES, capacity_units
from shoal.engine.workload import NO_NODE, NodeRules, Shape

Guest = tuple[Occupant, bool]
"""A pod (or reserved room) on a node, and whether Shoal schedules it."""


class NodeUsage:
    """All occupants of all nodes; a view that copies nothing."""

    def __init__(self, columns: Iterable[tuple[Occupant, ...]]) -> None:
        """`columns` has the occupants of each column."""
        self._columns = tuple(columns)

    def __iter__(self) -> Iterator[Occupant]:
        return chain.from_iterable(self._columns)


class Occupancy:
    """Sums of requests and limits over the occupants of each node, and of all nodes."""

    def __init__(self, allowances: DisruptionBudgets) -> None:
        """Start with empty nodes; `allowances` counts added and removed pods."""
        self._allowances = allowances
        self.used: Amounts = np.zeros((0, 0), dtype=np.int64)
        self.system: Amounts = self.used
        self._columns: list[tuple[Occupant, ...]] = []
        self._ready: list[bool] = []
        self._limits: Counter[str] = Counter()
        self._terminating: set[int] = set()
        self._guards: set[int] = set()

    @property
    def all(self) -> NodeUsage:
        """All occupants."""
        return NodeUsage(self._columns)

    @property
    def terminating(self) -> tuple[Occupant, ...]:
        """Occupants that are terminating pods."""
        columns = (self._columns[column] for column in sorted(self._terminating))
        return tuple(occupant for there in columns for occupant in there if occupant.terminating)

    @property
    def has_anti_affinity(self) -> bool:
        """Whether any occupant has required pod anti-affinity."""
        return bool(self._guards)

    @property
    def limits(self) -> dict[str, int]:
        """The sum of limits over all pods on ready nodes."""
        return dict(+self._limits)

    def clear(self, nodes: Nodes) -> None:
        """Start again with empty nodes, after columns or rows were laid out again."""
        for column in range(len(self._columns)):
            self._set(column, (), ready=False)
        self.used, self.system = np.zeros_like(nodes.alloc), np.zeros_like(nodes.alloc)
        self._columns, self._ready = [()] * len(nodes.names), [False] * len(nodes.names)

    def update(self, nodes: Nodes, columns: Sequence[int], guests: Callable[[int], Iterable[Guest]]) -> None:
        """Sum up some columns again."""
        found = {column: list(guests(column)) for column in columns}
        for column, there in found.items():
            self._set(column, tuple(guest for guest, _ in there), ready=bool(nodes.ready[column]))
        present = list(chain.from_iterable(found.values()))
        chosen = list(columns)
        self.used[:, chosen] = usage_of([guest for guest, _ in present], nodes)[:, chosen]
        strangers = [guest for guest, ours in present if not ours]
        self.system[:, chosen] = usage_of(strangers, nodes)[:, chosen]

    def _set(self, column: int, there: tuple[Occupant, ...], *, ready: bool) -> None:
        before, was_ready = self._columns[column], self._ready[column]
        self._columns[column], self._ready[column] = there, ready
        self._allowances.count(before, -1)
        self._allowances.count(there, 1)
        if was_ready:
            self._limit(before, -1)
        if ready:
            self._limit(there, 1)
        _mark(self._terminating, column, any(occupant.terminating for occupant in there))
        _mark(self._guards, column, any(occupant.shape.pod_anti_affinity for occupant in there))

    def _limit(self, occupants: Iterable[Occupant], change: int) -> None:
        for occupant in occupants:
            for name, amount in occupant.shape.limits.items():
                self._limits[name] += change * amount


def _mark(columns: set[int], column: int, there: bool) -> None:  # noqa: FBT001 - what is so is marked
    (columns.add if there else columns.discard)(column)


class NodeTableChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What changed in the layout of nodes.

    `nodes` have come, are gone, or are told of otherwise than before. `columns` says where each column is
    now, if any of them may be elsewhere. `rows` are others, and `pools`, or not.
    """

    nodes: set[str]
    columns: list[int] | None
    rows: bool
    pools: bool


class NodeTable:
    """Nodes, pools, and the resources that nodes offer or workloads request."""

    def __init__(self, world: World) -> None:
        """Start without nodes."""
        self._world = world
        self._facts: dict[str, NodeRecord] = {}
        self._wanted: Counter[str] = Counter()
        self._changed: set[str] = set()
        self._moved = self._repooled = True
        self.membership = PoolMembership({})
        self.nodes = Nodes((), ResourceLayout(()))
        self.pools: tuple[snapshot.Pool, ...] = ()

    def want(self, shapes: Iterable[Shape], change: int) -> None:
        """Count requests for shapes that were added (`change` 1) or removed (-1)."""
        for shape in shapes:
            self._need(shape.requests, change)

    def update(self, changes: Mapping[str, set[Key]]) -> None:
        """Apply changed nodes and pools."""
        if changes["Pool"]:
            self.membership, self._repooled = PoolMembership(dict(self._world.pools)), True
        names = self._world.nodes.keys() | self._facts.keys() if changes["Pool"] else _names(changes["Node"])
        for name in names:
            node = self._world.nodes.get(name)
            facts = _facts(node, self.membership.pool_of(node)) if node else None
            if facts != self._facts.get(name):
                self._tell(name, facts)

    def admits(self, name: str, rules: NodeRules) -> bool:
        """Whether a node exists, is ready and not cordoned, and all its taints are tolerated."""
        node = self._facts.get(name)
        return node is not None and node.ready and not node.unschedulable and tolerates(rules, node.taints)

    def lay_out(self) -> NodeTableChanges:
        """Lay out nodes and pools after all updates."""
        before, layout = self.nodes, ResourceLayout(self._wanted)
        rows = layout.names != before.layout.names
        if self._moved or rows:
            self.nodes = Nodes(tuple(self._facts.values()), layout if rows else before.layout)
        elif self._changed:
            self.nodes = before.with_changes(
                {before.columns[name]: self._facts[name] for name in sorted(self._changed)}
            )
        if self._moved or self._repooled:
            self.pools = self.membership.pools(self.nodes)
        columns = [self.nodes.columns.get(name, NO_NODE) for name in before.names] if self._moved else None
        done = NodeTableChanges(nodes=self._changed, columns=columns, rows=rows, pools=self._repooled)
        self._moved, self._repooled, self._changed = False, False, set()
        return done

    def _tell(self, name: str, facts: NodeRecord | None) -> None:
        before = self._facts.pop(name, None)
        if before:
            self._need((*before.allocatable, *before.capacity), -1)
        if facts:
            self._facts[name] = facts
            self._need((*facts.allocatable, *facts.capacity), 1)
        self._changed.add(name)
        if before is None or facts is None or before.pool != facts.pool:
            self._moved = True

    def _need(self, resources: Iterable[str], change: int) -> None:
        """Count users of resources that not every node has: each needs a row."""
        for name in resources:
            if name not in STANDARD_RESOURCES:
                self._wanted[name] += change
                if not self._wanted[name]:
                    del self._wanted[name]


def _names(keys: Iterable[Key]) -> set[str]:
    return {name for _, name in keys}


def _facts(node: Node, pool: str) -> NodeRecord:
    return NodeRecord(
        name=node.metadata.name,
        pool=pool,
        allocatable=_offered(node.allocatable),
        capacity=_offered(node.status.capacity or node.allocatable),
        labels=node.metadata.labels,
        taints=node.spec.taints,
        ready=node.ready is None or node.ready.status == "True",
        unschedulable=node.spec.unschedulable,
    )


def _offered(amounts: Resources) -> dict[str, int]:
    return capacity_units(to_nano(amounts))
