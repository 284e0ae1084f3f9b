"""The table of pools of a live cluster, and what is really used of them."""

from collections.abc import Iterable
from pathlib import Path

from shoal.cache.dry_run import rehearse
from shoal.cli.commands.top import Usage, node_usage, percent, usage_of
from shoal.cli.input import connection
from shoal.cli.input.living import look, policy_of
from shoal.cli.input.session import opened
from shoal.cli.output import pooltable
from shoal.cli.output.drawing import console
from shoal.cli.output.tables import columns
from shoal.engine.pools import used_after
from shoal.engine.report import PoolEntry, Report, Step, report


def draw_pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    """Plan the cluster once, and draw what its pools have."""
    world, settings = look(connection.find(home, kubeconfig, context), config)
    with policy_of(settings) as policy:
        steps = rehearse(world, settings, policy=policy)
    answer = report(steps, settings)
    _draw(steps[-1], answer)
    if usage:
        with opened(home, kubeconfig, context, "") as session:
            used = node_usage(session)
        paper = console()
        paper.print()
        paper.print(_really_used(answer.pools, used), markup=False)


def _draw(last: Step, answer: Report) -> None:
    paper = console()
    counts = pooltable.node_counts(last, used_after(last.snapshot, last.plan))
    cluster = pooltable.blocks(answer.pools, counts)
    paper.print(pooltable.table([*cluster, pooltable.total(cluster)] if len(cluster) > 1 else cluster))
    paper.print(pooltable.LEGEND, style="dim", markup=False)


def _really_used(pools: Iterable[PoolEntry], used: dict[str, Usage]) -> str:
    """What the nodes of each pool use, beside what their pods have asked for and what they may have."""
    titles = ["POOL", "CPU(asked)", "CPU(used)", "CPU(%)", "MEMORY(asked)", "MEMORY(used)", "MEMORY(%)"]
    return columns([titles, *(_row(pool, used) for pool in pools)])


def _row(pool: PoolEntry, used: dict[str, Usage]) -> list[str]:
    real = sum((used.get(node, Usage()) for node in pool.nodes), Usage())
    asked, there = usage_of(pool.used), usage_of(pool.allocatable)
    (cpu, memory), (asked_cpu, asked_memory) = real.shown(), asked.shown()
    return [
        pool.pool,
        asked_cpu,
        cpu,
        percent(real.cpu, there.cpu),
        asked_memory,
        memory,
        percent(real.memory, there.memory),
    ]
