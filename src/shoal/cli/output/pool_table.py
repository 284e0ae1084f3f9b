"""The table of pools: capacity, allocatable, used, shared and pending resources of each pool, and a total."""

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
from shoal.engine.layout import Amounts
from shoal.engine.report import CycleResult, PoolEntry, columns_after
from shoal.engine.resources import CPU, MEMORY, PODS, STORAGE, format_short, parse_amount
from shoal.engine.workload import NO_NODE

POOL_LEGEND: Final = "p preemption, b borrowing, s sharing: √ on, x off"

_COLUMNS: Final = ("CAPACITY", "ALLOCATABLE", "USED", "SHARED", "PENDING")
_ALLOCATABLE, _USED = _COLUMNS.index("ALLOCATABLE"), _COLUMNS.index("USED")
_RESOURCES: Final = {"cpu": CPU, "mem": MEMORY, "storage": STORAGE}
_GPU, _NODES, _PODS = "gpu", "nodes", "pods"
_ROWS: Final = ("cpu", _GPU, "mem", "storage", _NODES, _PODS)
_MAX_NAME_WIDTH: Final = 24

Row = tuple[float, ...]
"""Amounts by column, as integers in the resource's unit or infinity; nodes have no PENDING column."""


class NodeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a pool's nodes that are schedulable, that run workloads, and that run those of other pools.

    Pods that Shoal does not schedule, such as daemons, do not count.
    """

    usable: int
    used: int
    shared: int


class PoolBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one pool, or of the total."""

    name: str
    features: tuple[tuple[str, bool], ...]
    rows: Mapping[str, Row]

    @property
    def empty(self) -> bool:
        """Whether the pool has no resources and no pending pods."""
        return not any(any(row) for row in self.rows.values())


def pool_blocks(pools: Iterable[PoolEntry], counts: Mapping[str, NodeCounts]) -> list[PoolBlock]:
    """Make a block for each pool of a report."""
    return [_block(pool, counts[pool.pool]) for pool in pools]


def total_block(blocks: Sequence[PoolBlock]) -> PoolBlock:
    """Sum the blocks of all pools."""
    rows = {name: tuple(map(sum, zip(*(part.rows[name] for part in blocks), strict=True))) for name in _ROWS}
    return PoolBlock(name="Total", features=(), rows=rows)


def render_pools(visible: Iterable[PoolBlock]) -> Table:
    """Render blocks as a table. Each is one row of several lines, so that a long name wraps in its column."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("POOL", overflow="fold", max_width=_MAX_NAME_WIDTH)
    table.add_column("RESOURCE", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, no_wrap=True, justify="right")
    for block in visible:
        names = [_NODES] if block.empty else list(_ROWS)
        cells = zip(*(_cells(name, block.rows[name]) for name in names), strict=True)
        if table.row_count:
            table.add_row()
        table.add_row(_title(block), "\n".join(names), *(Text("\n").join(column) for column in cells))
    return table


def node_counts(result: CycleResult, used: Amounts) -> dict[str, NodeCounts]:
    """Count the nodes of each pool after a cycle; `used` is the usage of the nodes after it."""
    nodes = result.snapshot.nodes
    usable, pods = nodes.ready & nodes.schedulable, nodes.layout.rows[PODS]
    used_by_workloads = used[pods] - result.snapshot.system[pods]
    shared_nodes = Counter(nodes.pools[column] for column in _nodes_with_borrowers(result))
    return {
        pool.name: NodeCounts(
            usable=int(np.count_nonzero(usable[pool.span.columns])),
            used=int(np.count_nonzero(used_by_workloads[pool.span.columns])),
            shared=shared_nodes[pool.name],
        )
        for pool in result.snapshot.pools
    }


def _nodes_with_borrowers(result: CycleResult) -> set[int]:
    """Columns of the nodes that run a pod of another pool."""
    snapshot, placements = result.snapshot, columns_after(result.plan)
    return {
        column
        for workload in snapshot.workloads
        for column in (placements.get(task, task.column) for task in workload.tasks)
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
    """The row of pods; infinite if a node of the pool has no limit."""
    row = _row(pool, {PODS})
    unlimited = PODS in pool.used and PODS not in pool.allocatable
    return (math.inf, math.inf, *row[_USED:]) if unlimited else row


def _title(block: PoolBlock) -> Text:
    features = "  ".join(f"{letter} {'√' if enabled else 'x'}" for letter, enabled in block.features)
    return Text("\n").join([Text(block.name, style="bold cyan"), Text(features, style="dim")])


def _cells(name: str, row: Row) -> list[Text]:
    cells = [Text(_amount_text(name, amount), style="" if amount else "dim") for amount in row]
    used, allocatable = row[_USED], row[_ALLOCATABLE]
    if used and used >= allocatable and name != _NODES:
        cells[_USED].stylize("red" if used > allocatable else "yellow")
    return [*cells, *(Text("-", style="dim") for _ in _COLUMNS[len(row) :])]


def _amount_text(name: str, amount: float) -> str:
    return "∞" if amount == math.inf else format_short(_RESOURCES.get(name, name), int(amount))
