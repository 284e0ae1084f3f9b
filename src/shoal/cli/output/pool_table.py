"""The table of pools: what each has, how it is used and by whom, what waits for it; and all of them together.

It is drawn from the pools of a report and from counts of their nodes, so whoever has these can draw it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
import numpy as np
from rich.table import Table
from rich.text import Text

from shoal.api.podspec import is_gpu
from shoal.engine.pools import columns_after
from shoal.engine.report import CycleResult, PoolEntry
from shoal.engine.resources import CPU, MEMORY, PODS, STORAGE, Amounts, format_short, parse_amount
from shoal.engine.workload import NO_NODE

POOL_LEGEND: Final = "p preemption, b borrowing, s sharing: √ on, x off"

_COLUMNS: Final = ("CAPACITY", "ALLOCATABLE", "USED", "SHARED", "PENDING")
_ALLOCATABLE, _USED = _COLUMNS.index("ALLOCATABLE"), _COLUMNS.index("USED")
_RESOURCES: Final = {"cpu": CPU, "mem": MEMORY, "storage": STORAGE}
_GPU, _NODES, _PODS = "gpu", "nodes", "pods"
_ROWS: Final = ("cpu", _GPU, "mem", "storage", _NODES, _PODS)
_LONGEST_NAME: Final = 24

Row = tuple[float, ...]
"""Whole numbers by column, in counted units, or infinity; no node is ever pending, so nodes have one less."""


class NodeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of a pool can take pods, have work on them, and have work of other pools on them.

    Work is what Shoal schedules: daemons are on every node, and a node with nothing else is idle.
    """

    usable: int
    used: int
    shared: int


class PoolBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, or all of them, as the table has it."""

    name: str
    features: tuple[tuple[str, bool], ...]
    rows: Mapping[str, Row]

    @property
    def empty(self) -> bool:
        """Whether there is nothing here, and nobody waits for it."""
        return not any(any(row) for row in self.rows.values())


def pool_blocks(pools: Iterable[PoolEntry], counts: Mapping[str, NodeCounts]) -> list[PoolBlock]:
    """The pools of a report."""
    return [_block(pool, counts[pool.pool]) for pool in pools]


def total_block(parts: Sequence[PoolBlock]) -> PoolBlock:
    """All pools together."""
    rows = {name: tuple(map(sum, zip(*(part.rows[name] for part in parts), strict=True))) for name in _ROWS}
    return PoolBlock(name="Total", features=(), rows=rows)


def render_pools(drawn: Iterable[PoolBlock]) -> Table:
    """What is drawn: a row of the table has a whole block, so that a long name breaks beside its figures."""
    paper = Table(box=None, pad_edge=False, header_style="dim")
    paper.add_column("POOL", overflow="fold", max_width=_LONGEST_NAME)
    paper.add_column("RESOURCE", no_wrap=True)
    for title in _COLUMNS:
        paper.add_column(title, no_wrap=True, justify="right")
    for block in drawn:
        names = [_NODES] if block.empty else list(_ROWS)
        cells = zip(*(_cells(name, block.rows[name]) for name in names), strict=True)
        if paper.row_count:
            paper.add_row()
        paper.add_row(_title(block), "\n".join(names), *(Text("\n").join(column) for column in cells))
    return paper


def node_counts(last: CycleResult, used: Amounts) -> dict[str, NodeCounts]:
    """The nodes of each pool after a cycle that left `used` of them used."""
    nodes = last.snapshot.nodes
    usable, pods = nodes.ready & nodes.schedulable, nodes.layout.rows[PODS]
    ours = used[pods] - last.snapshot.system[pods]
    hosts = Counter(nodes.pools[column] for column in _nodes_with_borrowers(last))
    return {
        pool.name: NodeCounts(
            usable=int(np.count_nonzero(usable[pool.span.columns])),
            used=int(np.count_nonzero(ours[pool.span.columns])),
            shared=hosts[pool.name],
        )
        for pool in last.snapshot.pools
    }


def _nodes_with_borrowers(last: CycleResult) -> set[int]:
    """The nodes that have a pod of another pool."""
    snapshot, after = last.snapshot, columns_after(last.plan)
    return {
        column
        for workload in snapshot.workloads
        for column in (after.get(task, task.column) for task in workload.tasks)
        if column != NO_NODE and column not in snapshot.pools[workload.pool].span
    }


def _block(pool: PoolEntry, nodes: NodeCounts) -> PoolBlock:
    gpus = {name for name in pool.used if is_gpu(name)}
    rows = {name: _row(pool, {resource}) for name, resource in _RESOURCES.items()}
    rows |= {_GPU: _row(pool, gpus), _PODS: _pods(pool)}
    rows[_NODES] = (len(pool.nodes), nodes.usable, nodes.used, nodes.shared)
    features = (("p", pool.preemption), ("b", pool.borrowing), ("s", pool.sharing))
    return PoolBlock(name=pool.pool, features=features, rows=rows)


def _row(pool: PoolEntry, resources: AbstractSet[str]) -> Row:
    columns = (pool.capacity, pool.allocatable, pool.used, pool.shared, pool.pending)
    return tuple(sum(parse_amount(name, column.get(name, "0")) for name in resources) for column in columns)


def _pods(pool: PoolEntry) -> Row:
    """The number of pods; a pool that uses it and names no limit has a node without one."""
    row = _row(pool, {PODS})
    unlimited = PODS in pool.used and PODS not in pool.allocatable
    return (math.inf, math.inf, *row[_USED:]) if unlimited else row


def _title(block: PoolBlock) -> Text:
    features = "  ".join(f"{letter} {'√' if on else 'x'}" for letter, on in block.features)
    return Text("\n").join([Text(block.name, style="bold cyan"), Text(features, style="dim")])


def _cells(name: str, row: Row) -> list[Text]:
    cells = [Text(_shown(name, amount), style="" if amount else "dim") for amount in row]
    used, there = row[_USED], row[_ALLOCATABLE]
    if used and used >= there and name != _NODES:
        cells[_USED].stylize("red" if used > there else "yellow")
    return [*cells, *(Text("-", style="dim") for _ in _COLUMNS[len(row) :])]


def _shown(name: str, amount: float) -> str:
    return "∞" if amount == math.inf else format_short(_RESOURCES.get(name, name), int(amount))
