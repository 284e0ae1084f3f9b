"""`shoal top`: resource usage of nodes and pods, from the metrics API, and the resources of pools."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cli.input.completion import complete_names
from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import (
    all_namespaces_option,
    config_option,
    no_headers_option,
    selector_option,
)
from shoal.cli.input.session import CommandError, Failures, Session, open_session, session_option
from shoal.cli.output.tables import format_table
from shoal.client.connection import UnreachableError
from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, Object

if TYPE_CHECKING:
    from shoal.engine.report import CycleResult, PoolEntry, Report

_METRICS_API: Final = "/apis/metrics.k8s.io/v1beta1"
_MI: Final = 2**20
_Key = TypeVar("_Key", str, tuple[str, str])


# --- commands ----------------------------------------------------------------------------------------------


class _AliasGroup(click.Group):
    """Accepts singulars and short names of its commands: `top node`, `top no`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        full = {"node": "nodes", "no": "nodes", "pod": "pods", "po": "pods", "pool": "pools"}
        return super().get_command(ctx, full.get(cmd_name, cmd_name))


_sort_by_option: Final = click.option(
    "--sort-by", type=click.Choice(["", "cpu", "memory"]), default="", help="Sort by usage, largest first."
)


@click.group(cls=_AliasGroup)
def top() -> None:
    r"""Show resource usage of nodes, pods and pools.

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
@_sort_by_option
@no_headers_option
def nodes(session: Session, names: tuple[str, ...], selector: str, *, sort_by: str, no_headers: bool) -> None:
    r"""Show resource usage of nodes, as amounts and as percentages of what is allocatable.

    \b
    Examples:
      shoal top nodes
      shoal top nodes -l rack=7 --sort-by=cpu
    """
    print_nodes(session, names, selector, sort_by=sort_by, headers=not no_headers)


@top.command()
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=complete_names("pods"))
@session_option
@selector_option
@all_namespaces_option
@click.option("--containers", is_flag=True, help="Show each container.")
@_sort_by_option
@no_headers_option
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
    r"""Show resource usage of pods.

    \b
    Examples:
      shoal top pods
      shoal top pods -A --containers --sort-by=memory
    """
    options = PodTableOptions(
        all_namespaces=all_namespaces, containers=containers, sort_by=sort_by, headers=not no_headers
    )
    print_pods(session, names, selector, options)


@top.command()
@cluster_options
@config_option
@click.option("--usage", is_flag=True, help="Also show actual usage, from the metrics of the nodes.")
def pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    r"""Show the resources of pools: allocatable, requested by pods, lent, and pending.

    The table is that of `shoal plan`. USED is what pods request; --usage adds what they actually use.

    \b
    Examples:
      shoal top pools
      shoal top pools --usage
    """
    print_pools(home, kubeconfig, context, config, usage=usage)


# --- metrics -----------------------------------------------------------------------------------------------


class Usage(msgspec.Struct, frozen=True):
    """CPU in thousandths of a core, memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.cpu + other.cpu, self.memory + other.memory)

    def formatted(self) -> tuple[str, str]:
        """CPU and memory as kubectl prints them: in m and Mi."""
        return f"{self.cpu}m", f"{self.memory // _MI}Mi"


def parse_usage(amounts: Mapping[str, str]) -> Usage:
    """Parse quantities; thousandths of a core are rounded up, so that usage above 0 never shows as 0."""
    cpu, memory = (Quantity(amounts.get(name) or "0").nano for name in ("cpu", "memory"))
    return Usage(-(-cpu * 1000 // NANO), memory // NANO)


def percent(part: int, whole: int) -> str:
    """A part as a percentage of the whole."""
    return f"{part * 100 // whole}%" if whole else "<unknown>"


def node_usage(session: Session, labels: str = "") -> dict[str, Usage]:
    """Usage of each node."""
    metrics = _get_metrics(session, f"{_METRICS_API}/nodes", labels)
    return {item["metadata"]["name"]: parse_usage(item["usage"]) for item in metrics["items"]}


def pod_usage(session: Session, namespace: str, labels: str = "") -> dict[tuple[str, str], dict[str, Usage]]:
    """Usage of each container, by namespace and pod."""
    path = f"{_METRICS_API}/namespaces/{namespace}/pods" if namespace else f"{_METRICS_API}/pods"
    metrics = _get_metrics(session, path, labels)
    return {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): {
            container["name"]: parse_usage(container["usage"]) for container in item.get("containers") or ()
        }
        for item in metrics["items"]
    }


def _get_metrics(session: Session, path: str, labels: str) -> Object:
    query: dict[str, Any] = {"labelSelector": labels} if labels else {}
    try:
        return session.client.get_path(path, query)
    except UnreachableError:
        raise
    except (NotFoundError, UnavailableError):
        raise CommandError("error: Metrics API not available") from None


# --- nodes and pods ----------------------------------------------------------------------------------------


def print_nodes(
    session: Session, names: Sequence[str], selector: str, *, sort_by: str, headers: bool
) -> None:
    """Print the usage of nodes, beside what is allocatable."""
    usage, failures = node_usage(session, selector), Failures()
    for name in names:
        if name not in usage:
            failures.report(f'Error from server (NotFound): nodes "{name}" not found')
    listed = session.client.list(NODES, Selector(labels=selector))
    allocatable = {node["metadata"]["name"]: parse_usage(node["status"]["allocatable"]) for node in listed}
    rows = [
        _node_row(name, usage[name], allocatable.get(name, Usage()))
        for name in _sorted_names(usage, sort_by)
        if not names or name in names
    ]
    _print_table(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], rows, headers=headers)
    failures.exit_if_any()


def _node_row(name: str, used: Usage, allocatable: Usage) -> list[str]:
    cpu, memory = used.formatted()
    return [name, cpu, percent(used.cpu, allocatable.cpu), memory, percent(used.memory, allocatable.memory)]


class PodTableOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Columns, rows and order of the table of pods."""

    all_namespaces: bool
    containers: bool
    sort_by: str
    headers: bool


def print_pods(session: Session, names: Sequence[str], selector: str, options: PodTableOptions) -> None:
    """Print the usage of pods, or of each of their containers."""
    failures, namespace = Failures(), session.namespace_for(PODS, all_namespaces=options.all_namespaces)
    usage = pod_usage(session, namespace, selector)
    for name in names:
        if not any(pod == name for _, pod in usage):
            failures.report(f'Error from server (NotFound): pods "{name}" not found')
    selected = {key: containers for key, containers in usage.items() if not names or key[1] in names}
    totals = {key: sum(containers.values(), Usage()) for key, containers in selected.items()}
    rows = list[list[str]]()
    for key in _sorted_names(totals, options.sort_by):
        pod_cells = key if options.all_namespaces else key[1:]
        if options.containers:
            rows += ([*pod_cells, name, *used.formatted()] for name, used in selected[key].items())
        else:
            rows.append([*pod_cells, *totals[key].formatted()])
    titles = [
        *(["NAMESPACE"] if options.all_namespaces else []),
        *(["POD", "NAME"] if options.containers else ["NAME"]),
    ]
    if rows:
        _print_table([*titles, "CPU(cores)", "MEMORY(bytes)"], rows, headers=options.headers)
    elif not failures.count:
        suffix = "" if options.all_namespaces else f" in {session.namespace} namespace"
        click.echo(f"No resources found{suffix}.", err=True)
    failures.exit_if_any()


def _sorted_names(usage: Mapping[_Key, Usage], sort_by: str) -> list[_Key]:
    """Names in alphabetical order, or by usage, the largest first."""
    names = sorted(usage)
    return sorted(names, key=lambda name: -getattr(usage[name], sort_by)) if sort_by else names


def _print_table(titles: list[str], rows: Iterable[Sequence[str]], *, headers: bool) -> None:
    click.echo(format_table([titles, *rows] if headers else rows))


# --- pools -------------------------------------------------------------------------------------------------


def print_pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    """Plan the cluster for one cycle, and print the table of its pools.

    The imports are here because planning is slow to import, and the other commands do not need it.
    """
    from shoal.cache.dry_run import run_cycles
    from shoal.cli.input.planning import open_policy, read_cluster
    from shoal.cli.output.plan import open_console
    from shoal.engine.report import report

    world, scheduler_config = read_cluster(resolve_access(home, kubeconfig, context), config)
    with open_policy(scheduler_config) as policy:
        steps = run_cycles(world, scheduler_config, policy=policy)
    plan_report = report(steps, scheduler_config)
    _print_pool_table(steps[-1], plan_report)
    if usage:
        with open_session(home, kubeconfig, context, "") as session:
            used = node_usage(session)
        console = open_console()
        console.print()
        console.print(_usage_table(plan_report.pools, used), markup=False)


def _print_pool_table(result: "CycleResult", plan_report: "Report") -> None:
    from shoal.cli.output.plan import open_console
    from shoal.cli.output.pool_table import (
        POOL_LEGEND,
        node_counts,
        pool_blocks,
        render_pools,
        total_block,
    )
    from shoal.engine.report import used_after

    console = open_console()
    counts = node_counts(result, used_after(result.snapshot, result.plan))
    blocks = pool_blocks(plan_report.pools, counts)
    console.print(render_pools([*blocks, total_block(blocks)] if len(blocks) > 1 else blocks))
    console.print(POOL_LEGEND, style="dim", markup=False)


def _usage_table(pools: "Iterable[PoolEntry]", used: dict[str, Usage]) -> str:
    """Actual usage of each pool's nodes, beside what their pods request and what is allocatable."""
    titles = ["POOL", "CPU(requests)", "CPU(used)", "CPU(%)", "MEMORY(requests)", "MEMORY(used)", "MEMORY(%)"]
    return format_table([titles, *(_usage_row(pool, used) for pool in pools)])


def _usage_row(pool: "PoolEntry", used: dict[str, Usage]) -> list[str]:
    actual = sum((used.get(node, Usage()) for node in pool.nodes), Usage())
    requested, allocatable = parse_usage(pool.used), parse_usage(pool.allocatable)
    (cpu, memory), (requested_cpu, requested_memory) = actual.formatted(), requested.formatted()
    return [
        pool.pool,
        requested_cpu,
        cpu,
        percent(actual.cpu, allocatable.cpu),
        requested_memory,
        memory,
        percent(actual.memory, allocatable.memory),
    ]
