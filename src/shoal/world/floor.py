"""Floor: the nodes of a world as columns, in their pools, kept up to date.

A node that says again what it has said costs nothing, and one that is told of anew only its own column.
Columns are laid out anew when a node comes or goes or changes its pool; rows, when a resource does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from shoal.api.core import Node
from shoal.api.podspec import Resources, in_nano
from shoal.scheduling import snapshot
from shoal.scheduling.nodes import NodeFacts, Nodes
from shoal.scheduling.resources import EVERYDAY, Layout, offered
from shoal.scheduling.shape import Shape
from shoal.scheduling.workload import NOWHERE
from shoal.world.changes import Key
from shoal.world.membership import Membership
from shoal.world.world import World


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What was laid out anew.

    `nodes` have come, are gone, or are told of otherwise than before. `columns` says where each column is
    now, if any of them may be elsewhere. `rows` are others, and `pools`, or not.
    """

    nodes: set[str]
    columns: list[int] | None
    rows: bool
    pools: bool


class Floor:
    """Nodes, pools, and which resources anybody has or wants."""

    def __init__(self, world: World) -> None:
        """Begin without nodes."""
        self._world = world
        self._facts: dict[str, NodeFacts] = {}
        self._wanted: Counter[str] = Counter()
        self._changed: set[str] = set()
        self._moved = self._repooled = True
        self.membership = Membership({})
        self.nodes = Nodes((), Layout(()))
        self.pools: tuple[snapshot.Pool, ...] = ()

    def want(self, shapes: Iterable[Shape], change: int) -> None:
        """Somebody comes to ask for these shapes, or does so no longer."""
        for shape in shapes:
            self._need(shape.requests, change)

    def update(self, changes: Mapping[str, set[Key]]) -> None:
        """Follow what has changed about nodes and pools."""
        if changes["Pool"]:
            self.membership, self._repooled = Membership(dict(self._world.pools)), True
        names = self._world.nodes.keys() | self._facts.keys() if changes["Pool"] else _names(changes["Node"])
        for name in names:
            node = self._world.nodes.get(name)
            facts = _facts(node, self.membership.pool_of(node)) if node else None
            if facts != self._facts.get(name):
                self._tell(name, facts)

    def lay_out(self) -> Rebuilt:
        """Make nodes and pools of all that was told."""
        before, layout = self.nodes, Layout(self._wanted)
        rows = layout.names != before.layout.names
        if self._moved or rows:
            self.nodes = Nodes(tuple(self._facts.values()), layout if rows else before.layout)
        elif self._changed:
            self.nodes = before.changed(
                {before.columns[name]: self._facts[name] for name in sorted(self._changed)}
            )
        if self._moved or self._repooled:
            self.pools = self.membership.pools(self.nodes)
        columns = [self.nodes.columns.get(name, NOWHERE) for name in before.names] if self._moved else None
        done = Rebuilt(nodes=self._changed, columns=columns, rows=rows, pools=self._repooled)
        self._moved, self._repooled, self._changed = False, False, set()
        return done

    def _tell(self, name: str, facts: NodeFacts | None) -> None:
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
        """Count who has or wants resources that not everybody has."""
        for name in resources:
            if name not in EVERYDAY:
                self._wanted[name] += change
                if not self._wanted[name]:
                    del self._wanted[name]


def _names(keys: Iterable[Key]) -> set[str]:
    return {name for _, name in keys}


def _facts(node: Node, pool: str) -> NodeFacts:
    return NodeFacts(
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
    return offered(in_nano(amounts))
