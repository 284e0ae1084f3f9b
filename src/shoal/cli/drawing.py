"""A plan as people like to read it: nodes with bars and what came to them, jobs that wait and why."""

import os
from collections import Counter, defaultdict
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.api.podspec import is_gpu
from shoal.scheduling.pools import used_after
from shoal.scheduling.report import JobEntry, PoolEntry, Report, Step
from shoal.scheduling.resources import CPU, MEMORY, shown

_BAR: Final = 10
_FEW_NODES: Final = 30
_PLAIN_WIDTH: Final = 120
_COLOURS: Final = {
    "ScheduledSucceed": "green",
    "ScheduledPartly": "yellow",
    "Unscheduled": "yellow",
    "ScheduledFailed": "red",
}


def console() -> Console:
    """Where a plan is drawn: the terminal; in a pipe as wide as a good one, without colours."""
    usual = Console(highlight=False)
    if usual.is_terminal or "COLUMNS" in os.environ:
        return usual
    return Console(highlight=False, width=_PLAIN_WIDTH)


def draw(paper: Console, last: Step, answer: Report, *, wide: bool = False) -> None:
    """Draw a plan; `wide` shows every node and every job."""
    paper.print(_headline(answer))
    for pool in answer.pools:
        paper.print()
        paper.print(_pool_line(pool))
        if pool.nodes:
            _draw_nodes(paper, last, answer, pool, wide=wide)
    _draw_jobs(paper, answer, wide=wide)


def _headline(answer: Report) -> Text:
    states = Counter(job.state for job in answer.jobs)
    waiting, failed = states["Unscheduled"] + states["ScheduledPartly"], states["ScheduledFailed"]
    parts = [f"{_many(len(answer.placements), 'pod')} placed"]
    parts += [f"{_many(len(answer.evictions), 'pod')} evicted"] if answer.evictions else []
    parts += [f"{_many(waiting, 'job')} waiting"] if waiting else []
    parts += [f"{_many(failed, 'job')} that can never run"] if failed else []
    ended = "stable" if answer.stable else "not stable yet"
    return Text(f"Plan: {', '.join(parts)} ({_many(answer.cycles, 'cycle')}, {ended})", style="bold")


def _pool_line(pool: PoolEntry) -> Text:
    """The pool's name, its size, and its features as the seed of pools draws them."""
    features = "  ".join(
        f"{name} {'√' if on else 'x'}"
        for name, on in (
            ("preemption", pool.preemption),
            ("borrowing", pool.borrowing),
            ("sharing", pool.sharing),
        )
    )
    size = _many(len(pool.nodes), "node")
    if pool.pending_pods:
        size += f", {_many(pool.pending_pods, 'pod')} pending"
    return Text.assemble((f"Pool {pool.pool}", "bold cyan"), f"  {size}  ", (features, "dim"))


def _draw_nodes(paper: Console, last: Step, answer: Report, pool: PoolEntry, *, wide: bool) -> None:
    arrived: defaultdict[str, list[str]] = defaultdict(list)
    for placement in answer.placements:
        arrived[placement.node].append(placement.pod.partition("/")[2])
    nodes = list(pool.nodes)
    if len(nodes) > _FEW_NODES and not wide:
        nodes = [node for node in nodes if node in arrived][:_FEW_NODES]
    resources = _resources(last, pool)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(_title(name) for name in resources), "PLACED HERE"):
        table.add_column(title, no_wrap=title != "PLACED HERE", overflow="fold")
    use = _Use(last)
    for node in nodes:
        bars = [use.bar(node, resource) for resource in resources]
        table.add_row(node, *bars, Text(", ".join(_ranges(arrived[node]))))
    if nodes:
        paper.print(table)
    if len(nodes) < len(pool.nodes):
        paper.print(
            Text(f"… and {len(pool.nodes) - len(nodes)} other nodes (-o wide shows all)", style="dim")
        )


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
    why = Text("\n".join(f"{reason.code}: {reason.message}" for reason in job.reasons))
    position = "" if job.position is None else str(job.position)
    return [position, job.job, job.pool, Text(job.state, style=_COLOURS[job.state]), size, *more, why]


def _resources(last: Step, pool: PoolEntry) -> list[str]:
    gpus = [
        name
        for name in last.snapshot.nodes.layout.names
        if is_gpu(name) and pool.allocatable.get(name, "0") != "0"
    ]
    return [CPU, MEMORY, *gpus]


def _title(resource: str) -> str:
    return "GPU" if resource == "nvidia.com/gpu" else resource.upper()


class _Use:
    """What is used of each node after the last cycle."""

    def __init__(self, last: Step) -> None:
        self._nodes = last.snapshot.nodes
        self._used = used_after(last.snapshot, last.plan)

    def bar(self, node: str, resource: str) -> Text:
        row, column = self._nodes.layout.rows[resource], self._nodes.columns[node]
        used, there = int(self._used[row, column]), int(self._nodes.alloc[row, column])
        if not there:
            return Text("-", style="dim")
        filled = min(used * _BAR // there, _BAR) or bool(used)
        colour = "red" if used > there else "yellow" if used == there else "green"
        amounts = f" {_short(resource, used)}/{_short(resource, there)}"
        return Text.assemble(("█" * filled, colour), ("░" * (_BAR - filled), "dim"), amounts)


def _short(resource: str, amount: int) -> str:
    """An amount for the eye: at most one decimal."""
    if resource == CPU:
        return f"{amount / 1000:.1f}".removesuffix(".0")
    if resource == MEMORY:
        return f"{amount / 2**30:.1f}".removesuffix(".0") + "Gi"
    return shown(resource, amount)


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"


def _ranges(names: list[str]) -> list[str]:
    """Names with neighbouring numbers drawn together: `a-worker-0…3`."""
    found: list[tuple[str, int, int] | str] = []
    for name in sorted(names, key=_in_order):
        stem, _, tail = name.rpartition("-")
        if not (tail.isascii() and tail.isdigit()):
            found.append(name)
            continue
        number, before = int(tail), found[-1] if found else ""
        if isinstance(before, tuple) and before[0] == stem and before[2] == number - 1:
            found[-1] = (stem, before[1], number)
        else:
            found.append((stem, number, number))
    return [
        f if isinstance(f, str) else f"{f[0]}-{f[1]}" + (f"…{f[2]}" if f[2] > f[1] else "") for f in found
    ]


def _in_order(name: str) -> tuple[str, int]:
    stem, _, tail = name.rpartition("-")
    return (stem, int(tail)) if tail.isascii() and tail.isdigit() else (name, -1)
