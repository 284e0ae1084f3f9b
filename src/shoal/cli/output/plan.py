"""Drawings of a plan and of an explanation, as tables for a terminal.

A plan shows pools, nodes with usage bars and the pods placed on them, evictions, and waiting jobs with their
reasons. An explanation shows one job: how each node fits, best first, and what would let it run.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.api.fields import pluralize, printable
from shoal.api.names import parse_small_int
from shoal.api.podspec import is_gpu
from shoal.cli.output.pool_table import (
    POOL_LEGEND,
    NodeCounts,
    node_counts,
    pool_blocks,
    render_pools,
    total_block,
)
from shoal.engine.report import CycleResult, JobEntry, PoolEntry, Report, used_after
from shoal.engine.resources import CPU, MEMORY, PODS, format_short

if TYPE_CHECKING:
    from shoal.explain.explanation import Explanation
    from shoal.explain.node_entries import NodeEntry, TaskEntry
    from shoal.explain.trials import Change

_BAR_LENGTH, _SHORT_BAR_LENGTH = 10, 5
"""Length of usage bars on a wide and on a narrow console, in characters."""
_WIDE_CONSOLE: Final = 100
"""Minimum width of a wide console, in characters."""
_MAX_NODES: Final = 30
_MAX_POOLS: Final = 6
_PIPE_WIDTH: Final = 120
"""Width of the output when it is not a terminal."""
_STATE_COLOURS: Final = {
    "ScheduledSucceed": "green",
    "ScheduledPartly": "yellow",
    "Unscheduled": "yellow",
    "ScheduledFailed": "red",
}
_MAX_ROWS: Final = 30
"""Maximum number of node rows in an explanation."""
_WHEN: Final = {
    "now": "after the plan",
    "turn": "when the first of them got its node",
    "before": "before the plan, without it",
}

Row = tuple[str, ...]


def node_notes(report: Report) -> dict[str, Text]:
    """Text of the pods placed on each node, and of those it is nominated for; only nodes with some."""
    notes = {node: Text(", ".join(compact_names(pods))) for node, pods in _placed_pods(report).items()}
    for node, pods in _nominated_pods(report).items():
        nominated = Text(f"kept for {', '.join(compact_names(pods))}", style="dim")
        notes[node] = Text("; ").join([notes[node], nominated]) if node in notes else nominated
    return notes


def _placed_pods(report: Report) -> dict[str, list[str]]:
    """The pods placed on each node that are there at the end: over several cycles some are evicted again."""
    allocated = {
        (f"{job.job.split('/')[1]}/{pod}", node)
        for job in report.jobs
        for pod, node in job.allocation.items()
    }
    placed: dict[str, list[str]] = {}
    for pod, node in dict.fromkeys((placement.pod, placement.node) for placement in report.placements):
        if (pod, node) in allocated:
            placed.setdefault(node, []).append(pod.partition("/")[2])
    return placed


def _nominated_pods(report: Report) -> dict[str, list[str]]:
    nominated: dict[str, list[str]] = {}
    for job in report.jobs:
        for pod, node in job.nominated.items():
            nominated.setdefault(node, []).append(pod)
    return nominated


def compact_names(names: Iterable[str]) -> list[str]:
    """Shorten names with consecutive numbers: `a-worker-0…3`."""
    found: list[tuple[str, int, int] | str] = []
    for stem, number in sorted(map(_split_number, names)):
        if number < 0:
            found.append(stem)
            continue
        previous = found[-1] if found else ""
        if isinstance(previous, tuple) and previous[0] == stem and previous[2] == number - 1:
            found[-1] = (stem, previous[1], number)
        else:
            found.append((stem, number, number))
    return [
        f if isinstance(f, str) else f"{f[0]}-{f[1]}" + (f"…{f[2]}" if f[2] > f[1] else "") for f in found
    ]


def _split_number(name: str) -> tuple[str, int]:
    """Split a name into its stem and its number; -1 if it has none. `007` is no number."""
    stem, _, tail = name.rpartition("-")
    number = parse_small_int(tail)
    return (stem, number) if stem and number is not None and str(number) == tail else (name, -1)


def open_console() -> Console:
    """The console for standard output: the terminal, or a pipe of fixed width without colours."""
    default = Console(highlight=False)
    if default.is_terminal or "COLUMNS" in os.environ:
        return default
    return Console(highlight=False, width=_PIPE_WIDTH)


def draw_plan(console: Console, last: CycleResult, report: Report, *, wide: bool = False) -> None:
    """Draw a plan; `wide` shows every pool, every node and every job."""
    console.print(_headline(report))
    usage = _NodeUsage(last, _BAR_LENGTH if console.width >= _WIDE_CONSOLE else _SHORT_BAR_LENGTH)
    notes = node_notes(report)
    pools = report.pools if wide else _busiest(report)
    _draw_pools(console, report, pools, usage.counts())
    for pool in pools:
        if pool.nodes:
            _draw_nodes(console, pool, usage, notes, wide=wide)
    _draw_evictions(console, report)
    _draw_jobs(console, report, wide=wide)


def _headline(report: Report) -> Text:
    states = Counter(job.state for job in report.jobs)
    waiting, failed = states["Unscheduled"] + states["ScheduledPartly"], states["ScheduledFailed"]
    parts = [f"{pluralize(len(report.placements), 'pod')} placed"]
    parts += [f"{pluralize(len(report.evictions), 'pod')} evicted"] if report.evictions else []
    parts += [f"{pluralize(waiting, 'job')} waiting"] if waiting else []
    parts += [f"{pluralize(failed, 'job')} that can never run"] if failed else []
    outcome = "stable" if report.stable else "not stable yet"
    return Text(f"Plan: {', '.join(parts)} ({pluralize(report.cycles, 'cycle')}, {outcome})", style="bold")


def _busiest(report: Report) -> list[PoolEntry]:
    """All pools if there are few; else those with placed, pending or borrowing pods, most pending first."""
    if len(report.pools) <= _MAX_POOLS:
        return list(report.pools)
    chosen = {placement.pool for placement in report.placements}
    busy = [p for p in report.pools if p.pool in chosen or p.pending_pods or p.shared.get(PODS, "0") != "0"]
    busiest = sorted(busy, key=lambda pool: -pool.pending_pods)[:_MAX_POOLS]
    return sorted(busiest, key=lambda pool: pool.pool)


def _draw_pools(
    console: Console, report: Report, pools: Sequence[PoolEntry], counts: Mapping[str, NodeCounts]
) -> None:
    """Draw the table of pools, with a total if there are several."""
    console.print()
    blocks = pool_blocks(report.pools, counts)
    names = {pool.pool for pool in pools}
    visible = [block for block in blocks if block.name in names]
    console.print(render_pools([*visible, total_block(blocks)] if len(blocks) > 1 else visible))
    hidden = len(blocks) - len(visible)
    more = f"Total includes {pluralize(hidden, 'other pool')} (-o wide shows all). " if hidden else ""
    console.print(Text(more + POOL_LEGEND, style="dim"))


def _draw_nodes(
    console: Console, pool: PoolEntry, usage: "_NodeUsage", notes: Mapping[str, Text], *, wide: bool
) -> None:
    nodes = list(pool.nodes)
    if len(nodes) > _MAX_NODES and not wide:
        nodes = [node for node in nodes if node in notes][:_MAX_NODES]
    console.print()
    console.print(Text.assemble("Nodes of ", (pool.pool, "cyan"), style="bold"))
    resources = usage.resources(pool)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(_title(name) for name in resources), "PLACED HERE"):
        table.add_column(title, no_wrap=title not in {"NODE", "PLACED HERE"}, overflow="fold")
    for node in nodes:
        bars = [usage.bar(node, resource) for resource in resources]
        table.add_row(node, *bars, notes.get(node, Text()))
    if nodes:
        console.print(table)
    if len(nodes) < len(pool.nodes):
        others = pluralize(len(pool.nodes) - len(nodes), "other node")
        console.print(Text(f"… and {others} (-o wide shows all)", style="dim"))


def _draw_evictions(console: Console, report: Report) -> None:
    """Draw the pods to evict, and the jobs that they make room for."""
    if not report.evictions:
        return
    console.print()
    console.print(Text("Leaving", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("POD", "NODE", "REASON", "FOR"):
        table.add_column(title, overflow="fold")
    for eviction in report.evictions:
        names = (eviction.pod, eviction.node, eviction.reason, eviction.beneficiary or "")
        table.add_row(*(Text(printable(name)) for name in names))
    console.print(table)


def _draw_jobs(console: Console, report: Report, *, wide: bool) -> None:
    jobs = [job for job in report.jobs if wide or job.state != "ScheduledSucceed" or job.reasons]
    if not jobs:
        return
    console.print()
    console.print(Text("Jobs" if wide else "Waiting", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    titles = ("#", "JOB", "POOL", "STATE", "PODS", *(("PRIORITY", "SHARE") if wide else ()), "WHY")
    for title in titles:
        table.add_column(
            title, no_wrap=title != "WHY", justify="right" if title == "#" else "left", overflow="fold"
        )
    for job in jobs:
        table.add_row(*_job_row(job, wide=wide))
    console.print(table)


def _job_row(job: JobEntry, *, wide: bool) -> list[Text | str]:
    size = f"{job.target}/{job.max}" + (f" (min {job.min})" if job.min != job.max else "")
    job_priority = "" if job.job_priority is None else f"/{job.job_priority}"
    more = [f"{job.priority}{job_priority}", f"{job.share:.3f}"] if wide else []
    reasons_text = Text("\n".join(printable(f"{reason.code}: {reason.message}") for reason in job.reasons))
    position = "" if job.position is None else str(job.position)
    state = Text(job.state, style=_STATE_COLOURS[job.state])
    return [position, Text(printable(job.job)), job.pool, state, size, *more, reasons_text]


def _title(resource: str) -> str:
    return "GPU" if resource == "nvidia.com/gpu" else resource.upper()


class _NodeUsage:
    """Usage of each node after the last cycle, and bars that show it."""

    def __init__(self, last: CycleResult, bar: int) -> None:
        self._last, self._bar = last, bar
        self._nodes = last.snapshot.nodes
        self._used = used_after(last.snapshot, last.plan)

    def counts(self) -> dict[str, NodeCounts]:
        """Counts of the nodes of each pool."""
        return node_counts(self._last, self._used)

    def resources(self, pool: PoolEntry) -> list[str]:
        """The resources that are shown for a pool's nodes: CPU, memory, and its GPUs."""
        names = self._nodes.layout.names
        return [CPU, MEMORY, *(n for n in names if is_gpu(n) and pool.allocatable.get(n, "0") != "0")]

    def bar(self, node: str, resource: str) -> Text:
        row, column = self._nodes.layout.rows[resource], self._nodes.columns[node]
        used, allocated = int(self._used[row, column]), int(self._nodes.alloc[row, column])
        if not allocated:
            return Text("-", style="dim")
        filled = min(used * self._bar // allocated, self._bar) or bool(used)
        colour = "red" if used > allocated else "yellow" if used == allocated else "green"
        amounts = f" {format_short(resource, used)}/{format_short(resource, allocated)}"
        return Text.assemble(("█" * filled, colour), ("░" * (self._bar - filled), "dim"), amounts)


# --- explanations ------------------------------------------------------------------------------------------


def draw_explanation(console: Console, explanation: "Explanation", *, wide: bool = False) -> None:
    """Draw an explanation; `wide` shows every node."""
    for line in _explanation_headline(explanation):
        console.print(line)
    for entry in explanation.tasks:
        console.print()
        _draw_task(console, entry, wide=wide)
    console.print()
    console.print(Text(_sentence(explanation.summary), style="bold"))
    if explanation.changes:
        console.print(_change_table(explanation.changes))


def _explanation_headline(explanation: "Explanation") -> list[Text]:
    where = f" in pool {explanation.pool}, priority {explanation.priority}"
    after = f", after {pluralize(explanation.cycles, 'cycle')}"
    state = (explanation.state, _STATE_COLOURS[explanation.state])
    first = Text.assemble((printable(explanation.job), "bold"), ": ", state, where, after)
    reasons = (f"{reason.code}: {reason.message}" for reason in explanation.reasons)
    return [first, *(Text(printable(reason)) for reason in reasons)]


def _draw_task(console: Console, entry: "TaskEntry", *, wide: bool) -> None:
    console.print(
        Text.assemble(("Nodes for ", "bold"), (_task_title(entry), "bold"), f": {_task_summary(entry)}")
    )
    nodes = sorted(entry.nodes, key=lambda node: _rank(entry, node))
    rows = _rows(entry, nodes, grouped=len(nodes) > _MAX_ROWS and not wide)
    visible = rows if wide else rows[:_MAX_ROWS]
    console.print(_node_table(entry, [row for row, _ in visible]))
    hidden = sum(count for _, count in rows[len(visible) :])
    if hidden:
        console.print(Text(f"… and {pluralize(hidden, 'other node')} (-o wide shows all)", style="dim"))


def _task_title(entry: "TaskEntry") -> str:
    if entry.count == 1:
        return printable(entry.task)
    others = entry.count - 1
    return printable(f"{entry.task} and {others} more {entry.role}{'s' * (others > 1)}")


def _task_summary(entry: "TaskEntry") -> str:
    """How many pods wait, what they request, and how nodes are scored."""
    requests = (
        ", ".join(f"{amount} {name}" for name, amount in entry.requests.items()) or "nothing but a place"
    )
    number = f"{entry.waiting} of {entry.count} " if entry.count > 1 else ""
    waiting_text = f"{number}without a node; " if entry.waiting else ""
    verb = "each requests" if entry.count > 1 else "requests"
    return f"{waiting_text}{verb} {requests}; {entry.policy}, {entry.best} score first, {_WHEN[entry.when]}"


def _rank(entry: "TaskEntry", node: "NodeEntry") -> tuple[object, ...]:
    """Sort key of a node: chosen first, then fitting ones by score, then those that lack least."""
    score = node.score or 0.0
    return (
        not node.chosen,
        not node.fits,
        node.barrier == "rule",
        node.lack,
        node.lender,
        score if entry.best == "lowest" else -score,
    )


def _rows(entry: "TaskEntry", nodes: "Sequence[NodeEntry]", *, grouped: bool) -> list[tuple[Row, int]]:
    """Rows with the number of nodes in each: one node per row, or equal nodes grouped in a row."""
    groups: dict[Row | int, list[NodeEntry]] = {}
    for number, node in enumerate(nodes):
        groups.setdefault(_cells(entry, node) if grouped and not node.chosen else number, []).append(node)
    return [
        ((_name_list([node.node for node in group]), *_cells(entry, group[0])), len(group))
        for group in groups.values()
    ]


def _cells(entry: "TaskEntry", node: "NodeEntry") -> Row:
    pool = f"{node.pool} (lends)" if node.lender else node.pool
    score = "-" if node.score is None else f"{node.score:g}"
    if entry.policy in ("JobAffinity", "JobAntiAffinity"):
        score = f"{node.siblings} pods, {score}"
    return pool, score, _node_text(entry, node)


def _node_text(entry: "TaskEntry", node: "NodeEntry") -> str:
    """Whether a node is chosen, fits, or why not."""
    fits_text = "fits" if entry.count == 1 or not entry.waiting else f"fits {node.takes} of {entry.waiting}"
    fit_text = fits_text if node.fits else node.why
    if not node.chosen:
        return fit_text
    chosen = f"chosen for {_name_list(node.pods)}"
    return f"{chosen}; {fit_text}" if entry.waiting else chosen


def _name_list(names: Sequence[str]) -> str:
    return printable(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more")


def _node_table(entry: "TaskEntry", rows: Iterable[Row]) -> Table:
    pools = len({node.pool for node in entry.nodes}) > 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(("POOL",) if pools else ()), "SCORE", "RESULT"):
        table.add_column(title, no_wrap=title in ("POOL", "SCORE"), overflow="fold")
    for name, pool, score, text in rows:
        table.add_row(*(Text(cell) for cell in (name, *((pool,) if pools else ()), score, text)))
    return table


def _change_table(changes: "Iterable[Change]") -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for change in changes:
        table.add_row(change.dimension, Text(printable(change.text)))
    return table


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
