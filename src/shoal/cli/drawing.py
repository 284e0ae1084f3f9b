"""A plan as people like to read it: nodes with bars and what came to them, jobs that wait and why."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.api.fields import many, printable
from shoal.api.names import small_number
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
    use = _Use(last)
    arrived: dict[str, list[str]] = {}
    for placement in answer.placements:
        arrived.setdefault(placement.node, []).append(placement.pod.partition("/")[2])
    for pool in answer.pools:
        paper.print()
        paper.print(_pool_line(pool))
        if pool.nodes:
            _draw_nodes(paper, pool, use, arrived, wide=wide)
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
    size = many(len(pool.nodes), "node")
    if pool.pending_pods:
        size += f", {many(pool.pending_pods, 'pod')} pending"
    return Text.assemble((f"Pool {pool.pool}", "bold cyan"), f"  {size}  ", (features, "dim"))


def _draw_nodes(
    paper: Console, pool: PoolEntry, use: "_Use", arrived: Mapping[str, list[str]], *, wide: bool
) -> None:
    nodes = list(pool.nodes)
    if len(nodes) > _FEW_NODES and not wide:
        nodes = [node for node in nodes if node in arrived][:_FEW_NODES]
    resources = use.resources(pool)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NODE", *(_title(name) for name in resources), "PLACED HERE"):
        table.add_column(title, no_wrap=title != "PLACED HERE", overflow="fold")
    for node in nodes:
        bars = [use.bar(node, resource) for resource in resources]
        table.add_row(node, *bars, Text(", ".join(_ranges(arrived.get(node, ())))))
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


class _Use:
    """What is used of each node after the last cycle."""

    def __init__(self, last: Step) -> None:
        self._nodes = last.snapshot.nodes
        self._used = used_after(last.snapshot, last.plan)

    def resources(self, pool: PoolEntry) -> list[str]:
        """What is drawn of the nodes of a pool: CPU, memory, and the GPUs that it has."""
        names = self._nodes.layout.names
        return [CPU, MEMORY, *(n for n in names if is_gpu(n) and pool.allocatable.get(n, "0") != "0")]

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


def _ranges(names: Iterable[str]) -> list[str]:
    """Names with neighbouring numbers drawn together: `a-worker-0…3`."""
    found: list[tuple[str, int, int] | str] = []
    for stem, number in sorted(map(_numbered, names)):
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


def _numbered(name: str) -> tuple[str, int]:
    """A name as its stem and its number; one without a number (`007` is none) is all stem, with -1."""
    stem, _, tail = name.rpartition("-")
    number = small_number(tail)
    return (stem, number) if stem and number is not None and str(number) == tail else (name, -1)
