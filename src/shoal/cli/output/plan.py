"""What a plan has to say of each node: who came, and for whom its room is kept.

A plan as people like to read it: pools in figures, nodes with bars and what came, who waits and why.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.api.fields import many, printable
from shoal.api.names import small_number
from shoal.api.podspec import is_gpu
from shoal.cli.output.pool_table import (
    POOL_LEGEND,
    NodeCounts,
    node_counts,
    pool_blocks,
    render_pools,
    total_block,
)
from shoal.engine.pools import used_after
from shoal.engine.report import CycleResult, JobEntry, PoolEntry, Report
from shoal.engine.resources import CPU, MEMORY, PODS, format_short
from shoal.explain.explanation import Explanation
from shoal.explain.nodes import NodeEntry, TaskEntry
from shoal.explain.trials import Change


def node_notes(answer: Report) -> dict[str, Text]:
    """What there is to say, by node; nothing of the others."""
    said = {node: Text(", ".join(compact_names(pods))) for node, pods in _placed_pods(answer).items()}
    for node, pods in _nominated_pods(answer).items():
        waited = Text(f"kept for {', '.join(compact_names(pods))}", style="dim")
        said[node] = Text("; ").join([said[node], waited]) if node in said else waited
    return said


def _placed_pods(answer: Report) -> dict[str, list[str]]:
    """The pods that came to each node and are there at the end: in many cycles some come and go again."""
    there = {
        (f"{job.job.split('/')[1]}/{pod}", node)
        for job in answer.jobs
        for pod, node in job.allocation.items()
    }
    arrived: dict[str, list[str]] = {}
    for pod, node in dict.fromkeys((placement.pod, placement.node) for placement in answer.placements):
        if (pod, node) in there:
            arrived.setdefault(node, []).append(pod.partition("/")[2])
    return arrived


def _nominated_pods(answer: Report) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    for job in answer.jobs:
        for pod, node in job.nominated.items():
            kept.setdefault(node, []).append(pod)
    return kept


def compact_names(names: Iterable[str]) -> list[str]:
    """Names with neighbouring numbers drawn together: `a-worker-0…3`."""
    found: list[tuple[str, int, int] | str] = []
    for stem, number in sorted(map(_split_number, names)):
        if number < 0:
            found.append(stem)
            continue
        before = found[-1] if found else ""
        if isinstance(before, tuple) and before[0] == stem and before[2] == number - 1:
            found[-1] = (stem, before[1], number)
        else:
            found.append((stem, number, number))
    return [
        f if isinstance(f, str) else f"{f[0]}-{f[1]}" + (f"…{f[2]}" if f[2] > f[1] else "") for f in found
    ]


def _split_number(name: str) -> tuple[str, int]:
    """A name as its stem and its number; one without a number (`007` is none) is all stem, with -1."""
    stem, _, tail = name.rpartition("-")
    number = small_number(tail)
    return (stem, number) if stem and number is not None and str(number) == tail else (name, -1)


_BAR, _SHORT_BAR = 10, 5
_ROOMY: Final = 100
_FEW_NODES: Final = 30
_FEW_POOLS: Final = 6
_PLAIN_WIDTH: Final = 120
_COLOURS: Final = {
    "ScheduledSucceed": "green",
    "ScheduledPartly": "yellow",
    "Unscheduled": "yellow",
    "ScheduledFailed": "red",
}


def open_console() -> Console:
    """Where a plan is drawn: the terminal; in a pipe as wide as a good one, without colours."""
    usual = Console(highlight=False)
    if usual.is_terminal or "COLUMNS" in os.environ:
        return usual
    return Console(highlight=False, width=_PLAIN_WIDTH)


def draw_plan(paper: Console, last: CycleResult, answer: Report, *, wide: bool = False) -> None:
    """Draw a plan; `wide` shows every pool, every node and every job."""
    paper.print(_headline(answer))
    use = _NodeUsage(last, _BAR if paper.width >= _ROOMY else _SHORT_BAR)
    arrivals = node_notes(answer)
    pools = answer.pools if wide else _busiest(answer)
    _draw_pools(paper, answer, pools, use.counts())
    for pool in pools:
        if pool.nodes:
            _draw_nodes(paper, pool, use, arrivals, wide=wide)
    _draw_evictions(paper, answer)
    _draw_jobs(paper, answer, wide=wide)


def _headline(answer: Report) -> Text:
    states = Counter(job.state for job in answer.jobs)
    waiting, failed = states["Unscheduled"] + states["ScheduledPartly"], states["ScheduledFailed"]
    parts = [f"{many(len(answer.placements), 'pod')} placed"]
    parts += [f"{many(len(answer.evictions), 'pod')} evicted"] if answer.evictions else []
    parts += [f"{many(waiting, 'job')} waiting"] if waiting else []
    parts += [f"{many(failed, 'job')} that can never run"] if failed else []
    ended = "stable" if answer.stable else "not stable yet"
    return Text(f"Plan: {', '.join(parts)} ({many(answer.cycles, 'cycle')}, {ended})", style="bold")


def _busiest(answer: Report) -> list[PoolEntry]:
    """All pools if they are few; else some of those where something happens, first where most pods wait."""
    if len(answer.pools) <= _FEW_POOLS:
        return list(answer.pools)
    chosen = {placement.pool for placement in answer.placements}
    busy = [p for p in answer.pools if p.pool in chosen or p.pending_pods or p.shared.get(PODS, "0") != "0"]
    busiest = sorted(busy, key=lambda pool: -pool.pending_pods)[:_FEW_POOLS]
    return sorted(busiest, key=lambda pool: pool.pool)


def _draw_pools(
    paper: Console, answer: Report, pools: Sequence[PoolEntry], counts: Mapping[str, NodeCounts]
) -> None:
    """The table of pools; where there is only one, Total would say the same again."""
    paper.print()
    cluster = pool_blocks(answer.pools, counts)
    names = {pool.pool for pool in pools}
    drawn = [block for block in cluster if block.name in names]
    paper.print(render_pools([*drawn, total_block(cluster)] if len(cluster) > 1 else drawn))
    hidden = len(cluster) - len(drawn)
    more = f"Total includes {many(hidden, 'other pool')} (-o wide shows all). " if hidden else ""
    paper.print(Text(more + POOL_LEGEND, style="dim"))


def _draw_nodes(
    paper: Console, pool: PoolEntry, use: "_NodeUsage", node_notes: Mapping[str, Text], *, wide: bool
) -> None:
    nodes = list(pool.nodes)
    if len(nodes) > _FEW_NODES and not wide:
        nodes = [node for node in nodes if node in node_notes][:_FEW_NODES]
    paper.print()
    paper.print(Text.assemble("Nodes of ", (pool.pool, "cyan"), style="bold"))
    resources = use.resources(pool)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(_title(name) for name in resources), "PLACED HERE"):
        table.add_column(title, no_wrap=title not in {"NODE", "PLACED HERE"}, overflow="fold")
    for node in nodes:
        bars = [use.bar(node, resource) for resource in resources]
        table.add_row(node, *bars, node_notes.get(node, Text()))
    if nodes:
        paper.print(table)
    if len(nodes) < len(pool.nodes):
        others = many(len(pool.nodes) - len(nodes), "other node")
        paper.print(Text(f"… and {others} (-o wide shows all)", style="dim"))


def _draw_evictions(paper: Console, answer: Report) -> None:
    """Who must leave, and for whom."""
    if not answer.evictions:
        return
    paper.print()
    paper.print(Text("Leaving", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("POD", "NODE", "REASON", "FOR"):
        table.add_column(title, overflow="fold")
    for eviction in answer.evictions:
        names = (eviction.pod, eviction.node, eviction.reason, eviction.beneficiary or "")
        table.add_row(*(Text(printable(name)) for name in names))
    paper.print(table)


def _draw_jobs(paper: Console, answer: Report, *, wide: bool) -> None:
    jobs = [job for job in answer.jobs if wide or job.state != "ScheduledSucceed" or job.reasons]
    if not jobs:
        return
    paper.print()
    paper.print(Text("Jobs" if wide else "Waiting", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    titles = ("#", "JOB", "POOL", "STATE", "PODS", *(("PRIORITY", "SHARE") if wide else ()), "WHY")
    for title in titles:
        table.add_column(
            title, no_wrap=title != "WHY", justify="right" if title == "#" else "left", overflow="fold"
        )
    for job in jobs:
        table.add_row(*_job_row(job, wide=wide))
    paper.print(table)


def _job_row(job: JobEntry, *, wide: bool) -> list[Text | str]:
    size = f"{job.target}/{job.max}" + (f" (min {job.min})" if job.min != job.max else "")
    own = "" if job.job_priority is None else f"/{job.job_priority}"
    more = [f"{job.priority}{own}", f"{job.share:.3f}"] if wide else []
    why = Text("\n".join(printable(f"{reason.code}: {reason.message}") for reason in job.reasons))
    position = "" if job.position is None else str(job.position)
    state = Text(job.state, style=_COLOURS[job.state])
    return [position, Text(printable(job.job)), job.pool, state, size, *more, why]


def _title(resource: str) -> str:
    return "GPU" if resource == "nvidia.com/gpu" else resource.upper()


class _NodeUsage:
    """What is used of each node after the last cycle, and bars of so many blocks that show it."""

    def __init__(self, last: CycleResult, bar: int) -> None:
        self._last, self._bar = last, bar
        self._nodes = last.snapshot.nodes
        self._used = used_after(last.snapshot, last.plan)

    def counts(self) -> dict[str, NodeCounts]:
        """The nodes of each pool."""
        return node_counts(self._last, self._used)

    def resources(self, pool: PoolEntry) -> list[str]:
        """What is drawn of the nodes of a pool: CPU, memory, and the GPUs that it has."""
        names = self._nodes.layout.names
        return [CPU, MEMORY, *(n for n in names if is_gpu(n) and pool.allocatable.get(n, "0") != "0")]

    def bar(self, node: str, resource: str) -> Text:
        row, column = self._nodes.layout.rows[resource], self._nodes.columns[node]
        used, there = int(self._used[row, column]), int(self._nodes.alloc[row, column])
        if not there:
            return Text("-", style="dim")
        filled = min(used * self._bar // there, self._bar) or bool(used)
        colour = "red" if used > there else "yellow" if used == there else "green"
        amounts = f" {format_short(resource, used)}/{format_short(resource, there)}"
        return Text.assemble(("█" * filled, colour), ("░" * (self._bar - filled), "dim"), amounts)


_MAX_ROWS: Final = 30
"""Lines of nodes that are drawn."""

_WHEN: Final = {
    "now": "after the plan",
    "turn": "when the first of them got its node",
    "before": "before the plan, without it",
}

Row = tuple[str, ...]


def draw_explanation(paper: Console, explanation: Explanation, *, wide: bool = False) -> None:
    """Draw an explanation; `wide` shows every node."""
    for line in _explanation_headline(explanation):
        paper.print(line)
    for entry in explanation.tasks:
        paper.print()
        _draw_task(paper, entry, wide=wide)
    paper.print()
    paper.print(Text(_sentence(explanation.summary), style="bold"))
    if explanation.changes:
        paper.print(_change_table(explanation.changes))


def _explanation_headline(explanation: Explanation) -> list[Text]:
    where = f" in pool {explanation.pool}, priority {explanation.priority}"
    after = f", after {many(explanation.cycles, 'cycle')}"
    state = (explanation.state, _COLOURS[explanation.state])
    first = Text.assemble((printable(explanation.job), "bold"), ": ", state, where, after)
    reasons = (f"{reason.code}: {reason.message}" for reason in explanation.reasons)
    return [first, *(Text(printable(reason)) for reason in reasons)]


def _draw_task(paper: Console, entry: TaskEntry, *, wide: bool) -> None:
    paper.print(
        Text.assemble(("Nodes for ", "bold"), (_task_title(entry), "bold"), f": {_task_summary(entry)}")
    )
    nodes = sorted(entry.nodes, key=lambda node: _rank(entry, node))
    rows = _rows(entry, nodes, together=len(nodes) > _MAX_ROWS and not wide)
    drawn = rows if wide else rows[:_MAX_ROWS]
    paper.print(_node_table(entry, [row for row, _ in drawn]))
    hidden = sum(count for _, count in rows[len(drawn) :])
    if hidden:
        paper.print(Text(f"… and {many(hidden, 'other node')} (-o wide shows all)", style="dim"))


def _task_title(entry: TaskEntry) -> str:
    if entry.count == 1:
        return printable(entry.task)
    others = entry.count - 1
    return printable(f"{entry.task} and {others} more {entry.role}{'s' * (others > 1)}")


def _task_summary(entry: TaskEntry) -> str:
    """How many still need a node, what they ask for, and which score wins."""
    asks = ", ".join(f"{amount} {name}" for name, amount in entry.requests.items()) or "nothing but a place"
    number = f"{entry.waiting} of {entry.count} " if entry.count > 1 else ""
    need = f"{number}without a node; " if entry.waiting else ""
    each = "each asks" if entry.count > 1 else "asks"
    return f"{need}{each} for {asks}; {entry.policy}, {entry.best} score first, {_WHEN[entry.when]}"


def _rank(entry: TaskEntry, node: NodeEntry) -> tuple[object, ...]:
    """The chosen nodes first, then those that fit by their score, then those that lack least."""
    score = node.score or 0.0
    return (
        not node.chosen,
        not node.fits,
        node.barrier == "rule",
        node.lack,
        node.lender,
        score if entry.best == "lowest" else -score,
    )


def _rows(entry: TaskEntry, nodes: Sequence[NodeEntry], *, together: bool) -> list[tuple[Row, int]]:
    """A line for each node, and how many it speaks of; where they are many, one for all that are alike."""
    groups: dict[Row | int, list[NodeEntry]] = {}
    for number, node in enumerate(nodes):
        groups.setdefault(_cells(entry, node) if together and not node.chosen else number, []).append(node)
    return [
        ((_names([node.node for node in alike]), *_cells(entry, alike[0])), len(alike))
        for alike in groups.values()
    ]


def _cells(entry: TaskEntry, node: NodeEntry) -> Row:
    pool = f"{node.pool} (lends)" if node.lender else node.pool
    score = "-" if node.score is None else f"{node.score:g}"
    if entry.policy in ("JobAffinity", "JobAntiAffinity"):
        score = f"{node.siblings} pods, {score}"
    return pool, score, _node_text(entry, node)


def _node_text(entry: TaskEntry, node: NodeEntry) -> str:
    """What becomes of a node, in a few words."""
    takes = "fits" if entry.count == 1 or not entry.waiting else f"fits {node.takes} of {entry.waiting}"
    stand = takes if node.fits else node.why
    if not node.chosen:
        return stand
    chosen = f"chosen for {_names(node.pods)}"
    return f"{chosen}; {stand}" if entry.waiting else chosen


def _names(names: Sequence[str]) -> str:
    return printable(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more")


def _node_table(entry: TaskEntry, rows: Iterable[Row]) -> Table:
    pools = len({node.pool for node in entry.nodes}) > 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(("POOL",) if pools else ()), "SCORE", "WHAT OF IT"):
        table.add_column(title, no_wrap=title in ("POOL", "SCORE"), overflow="fold")
    for name, pool, score, says in rows:
        table.add_row(*(Text(cell) for cell in (name, *((pool,) if pools else ()), score, says)))
    return table


def _change_table(changes: Iterable[Change]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for change in changes:
        table.add_row(change.dimension, Text(printable(change.text)))
    return table


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
