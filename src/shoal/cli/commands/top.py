"""What nodes and pods really use, from the metrics API (`metrics.k8s.io`).

`shoal top`: what nodes and pods use, and what pools have.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cache.dry_run import rehearse
from shoal.cli.input.completion import complete_names
from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import all_namespaces_option, config_option, selector_option
from shoal.cli.input.planning import open_policy, read_cluster
from shoal.cli.input.session import CommandError, Failures, Session, open_session, session_option
from shoal.cli.output.plan import open_console
from shoal.cli.output.pool_table import POOL_LEGEND, node_counts, pool_blocks, render_pools, total_block
from shoal.cli.output.tables import format_table
from shoal.client.errors import UnreachableError
from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, Object
from shoal.engine.pools import used_after
from shoal.engine.report import CycleResult, PoolEntry, Report, report

_ROOT: Final = "/apis/metrics.k8s.io/v1beta1"
_MI: Final = 2**20


class Usage(msgspec.Struct, frozen=True):
    """CPU in thousandths of a core, memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.cpu + other.cpu, self.memory + other.memory)

    def shown(self) -> tuple[str, str]:
        """Both as kubectl writes them: thousandths of cores, and Mi."""
        return f"{self.cpu}m", f"{self.memory // _MI}Mi"


def parse_usage(amounts: Mapping[str, str]) -> Usage:
    """What quantities say; thousandths are rounded up, so that what is used is never nothing."""
    cpu, memory = (Quantity(amounts.get(name) or "0").nano for name in ("cpu", "memory"))
    return Usage(-(-cpu * 1000 // NANO), memory // NANO)


def percent(part: int, whole: int) -> str:
    """A part of a whole, for people."""
    return f"{part * 100 // whole}%" if whole else "<unknown>"


def node_usage(session: Session, labels: str = "") -> dict[str, Usage]:
    """What each node uses."""
    found = _get_metrics(session, f"{_ROOT}/nodes", labels)
    return {item["metadata"]["name"]: parse_usage(item["usage"]) for item in found["items"]}


def pod_usage(session: Session, namespace: str, labels: str = "") -> dict[tuple[str, str], dict[str, Usage]]:
    """What each container uses, by namespace and pod."""
    path = f"{_ROOT}/namespaces/{namespace}/pods" if namespace else f"{_ROOT}/pods"
    found = _get_metrics(session, path, labels)
    return {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): {
            container["name"]: parse_usage(container["usage"]) for container in item.get("containers") or ()
        }
        for item in found["items"]
    }


def _get_metrics(session: Session, path: str, labels: str) -> Object:
    try:
        return session.client.ask(path, _query(labels))
    except UnreachableError:
        raise
    except (NotFoundError, UnavailableError):
        raise CommandError("error: Metrics API not available") from None


def _query(labels: str) -> dict[str, Any]:
    return {"labelSelector": labels} if labels else {}


_SORT_KEYS = click.Choice(["", "cpu", "memory"])


class _AliasGroup(click.Group):
    """Knows its commands by the singular too: `top node`, `top no`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        full = {"node": "nodes", "no": "nodes", "pod": "pods", "po": "pods", "pool": "pools"}
        return super().get_command(ctx, full.get(cmd_name, cmd_name))


@click.group(cls=_AliasGroup)
def top() -> None:
    r"""Print what nodes, pods and pools have and use.

    \b
    Examples:
      shoal top nodes
      shoal top pods -A --sort-by=memory
      shoal top pools --usage
    """


@top.command()
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=complete_names("nodes"))
@session_option
@selector_option
@click.option("--sort-by", type=_SORT_KEYS, default="", help="The largest first.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def nodes(session: Session, names: tuple[str, ...], selector: str, *, sort_by: str, no_headers: bool) -> None:
    r"""Print what nodes use of what they have.

    \b
    Examples:
      shoal top nodes
      shoal top nodes -l rack=7 --sort-by=cpu
    """
    print_nodes(session, names, selector, order=sort_by, headers=not no_headers)


@top.command()
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=complete_names("pods"))
@session_option
@selector_option
@all_namespaces_option
@click.option("--containers", is_flag=True, help="Print each container.")
@click.option("--sort-by", type=_SORT_KEYS, default="", help="The largest first.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def pods(  # noqa: PLR0913 - one parameter an option
    session: Session,
    names: tuple[str, ...],
    selector: str,
    *,
    all_namespaces: bool,
    containers: bool,
    sort_by: str,
    no_headers: bool,
) -> None:
    r"""Print what pods use.

    \b
    Examples:
      shoal top pods
      shoal top pods -A --containers --sort-by=memory
    """
    table = PodTableOptions(
        everywhere=all_namespaces, containers=containers, order=sort_by, headers=not no_headers
    )
    print_pods(session, names, selector, table)


@top.command()
@cluster_options
@config_option
@click.option("--usage", is_flag=True, help="Also print what is really used, from the metrics of the nodes.")
def pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    r"""Print what pools have, how it is used and by whom, and what waits for it.

    The table is that of `shoal plan`. What is used is what pods ask for; --usage adds what they really use.

    \b
    Examples:
      shoal top pools
      shoal top pools --usage
    """
    print_pools(home, kubeconfig, context, config, usage=usage)


_K = TypeVar("_K", str, tuple[str, str])


def print_nodes(session: Session, names: Sequence[str], selector: str, *, order: str, headers: bool) -> None:
    """Draw what nodes use of what pods may have of them."""
    used, failures = node_usage(session, selector), Failures()
    for name in names:
        if name not in used:
            failures.say(f'Error from server (NotFound): nodes "{name}" not found')
    found = session.client.list(NODES, Selector(labels=selector))
    there = {node["metadata"]["name"]: parse_usage(node["status"]["allocatable"]) for node in found}
    rows = [
        _node_row(name, used[name], there.get(name, Usage()))
        for name in _sorted_names(used, order)
        if not names or name in names
    ]
    _print_table(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], rows, headers=headers)
    failures.end()


def _node_row(name: str, used: Usage, there: Usage) -> list[str]:
    cpu, memory = used.shown()
    return [name, cpu, percent(used.cpu, there.cpu), memory, percent(used.memory, there.memory)]


class PodTableOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a table of pods is drawn."""

    everywhere: bool
    containers: bool
    order: str
    headers: bool


def print_pods(session: Session, names: Sequence[str], selector: str, table: PodTableOptions) -> None:
    """Draw what pods use, or each of their containers."""
    failures, space = Failures(), session.space(PODS, everywhere=table.everywhere)
    found = pod_usage(session, space, selector)
    for name in names:
        if not any(pod == name for _, pod in found):
            failures.say(f'Error from server (NotFound): pods "{name}" not found')
    wanted = {key: parts for key, parts in found.items() if not names or key[1] in names}
    totals = {key: sum(parts.values(), Usage()) for key, parts in wanted.items()}
    rows = list[list[str]]()
    for key in _sorted_names(totals, table.order):
        parts = wanted[key] if table.containers else {"": totals[key]}
        rows += (
            [*(key if table.everywhere else key[1:]), *_part(name), *used.shown()]
            for name, used in parts.items()
        )
    titles = [
        *(["NAMESPACE"] if table.everywhere else []),
        *(["POD", "NAME"] if table.containers else ["NAME"]),
    ]
    if rows:
        _print_table([*titles, "CPU(cores)", "MEMORY(bytes)"], rows, headers=table.headers)
    elif not failures.count:
        place = "" if table.everywhere else f" in {session.namespace} namespace"
        click.echo(f"No resources found{place}.", err=True)
    failures.end()


def _part(name: str) -> list[str]:
    return [name] if name else []


def _sorted_names(used: Mapping[_K, Usage], order: str) -> list[_K]:
    """By name, or the largest first."""
    names = sorted(used)
    return sorted(names, key=lambda name: -getattr(used[name], order)) if order else names


def _print_table(titles: list[str], rows: Iterable[Sequence[str]], *, headers: bool) -> None:
    click.echo(format_table([titles, *rows] if headers else rows))


def print_pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    """Plan the cluster once, and draw what its pools have."""
    world, settings = read_cluster(resolve_access(home, kubeconfig, context), config)
    with open_policy(settings) as policy:
        steps = rehearse(world, settings, policy=policy)
    answer = report(steps, settings)
    _print_pool_table(steps[-1], answer)
    if usage:
        with open_session(home, kubeconfig, context, "") as session:
            used = node_usage(session)
        paper = open_console()
        paper.print()
        paper.print(_usage_table(answer.pools, used), markup=False)


def _print_pool_table(last: CycleResult, answer: Report) -> None:
    paper = open_console()
    counts = node_counts(last, used_after(last.snapshot, last.plan))
    cluster = pool_blocks(answer.pools, counts)
    paper.print(render_pools([*cluster, total_block(cluster)] if len(cluster) > 1 else cluster))
    paper.print(POOL_LEGEND, style="dim", markup=False)


def _usage_table(pools: Iterable[PoolEntry], used: dict[str, Usage]) -> str:
    """What the nodes of each pool use, beside what their pods have asked for and what they may have."""
    titles = ["POOL", "CPU(asked)", "CPU(used)", "CPU(%)", "MEMORY(asked)", "MEMORY(used)", "MEMORY(%)"]
    return format_table([titles, *(_usage_row(pool, used) for pool in pools)])


def _usage_row(pool: PoolEntry, used: dict[str, Usage]) -> list[str]:
    real = sum((used.get(node, Usage()) for node in pool.nodes), Usage())
    asked, there = parse_usage(pool.used), parse_usage(pool.allocatable)
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
