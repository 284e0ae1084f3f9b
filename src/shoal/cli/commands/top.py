"""What nodes and pods really use, from the metrics API (`metrics.k8s.io`).

`shoal top`: what nodes and pods use, and what pools have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cli.input import connection
from shoal.cli.input.completing import names_of
from shoal.cli.input.configuring import config_option
from shoal.cli.input.connection import session_option
from shoal.cli.input.options import everywhere_option, labels_option
from shoal.cli.input.session import Refused, Session
from shoal.client.errors import UnreachableError
from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.resources import Object

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


def usage_of(amounts: Mapping[str, str]) -> Usage:
    """What quantities say; thousandths are rounded up, so that what is used is never nothing."""
    cpu, memory = (Quantity(amounts.get(name) or "0").nano for name in ("cpu", "memory"))
    return Usage(-(-cpu * 1000 // NANO), memory // NANO)


def percent(part: int, whole: int) -> str:
    """A part of a whole, for people."""
    return f"{part * 100 // whole}%" if whole else "<unknown>"


def node_usage(session: Session, labels: str = "") -> dict[str, Usage]:
    """What each node uses."""
    found = _ask(session, f"{_ROOT}/nodes", labels)
    return {item["metadata"]["name"]: usage_of(item["usage"]) for item in found["items"]}


def pod_usage(session: Session, namespace: str, labels: str = "") -> dict[tuple[str, str], dict[str, Usage]]:
    """What each container uses, by namespace and pod."""
    path = f"{_ROOT}/namespaces/{namespace}/pods" if namespace else f"{_ROOT}/pods"
    found = _ask(session, path, labels)
    return {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): {
            container["name"]: usage_of(container["usage"]) for container in item.get("containers") or ()
        }
        for item in found["items"]
    }


def _ask(session: Session, path: str, labels: str) -> Object:
    try:
        return session.client.ask(path, _query(labels))
    except UnreachableError:
        raise
    except (NotFoundError, UnavailableError):
        raise Refused("error: Metrics API not available") from None


def _query(labels: str) -> dict[str, Any]:
    return {"labelSelector": labels} if labels else {}


_ORDERS = click.Choice(["", "cpu", "memory"])


class _Singular(click.Group):
    """Knows its commands by the singular too: `top node`, `top no`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        full = {"node": "nodes", "no": "nodes", "pod": "pods", "po": "pods", "pool": "pools"}
        return super().get_command(ctx, full.get(cmd_name, cmd_name))


@click.group(cls=_Singular)
def top() -> None:
    r"""Print what nodes, pods and pools have and use.

    \b
    Examples:
      shoal top nodes
      shoal top pods -A --sort-by=memory
      shoal top pools --usage
    """


@top.command()
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=names_of("nodes"))
@session_option
@labels_option
@click.option("--sort-by", type=_ORDERS, default="", help="The largest first.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def nodes(session: Session, names: tuple[str, ...], selector: str, *, sort_by: str, no_headers: bool) -> None:
    r"""Print what nodes use of what they have.

    \b
    Examples:
      shoal top nodes
      shoal top nodes -l rack=7 --sort-by=cpu
    """
    from shoal.cli.output.consumption import draw_nodes

    draw_nodes(session, names, selector, order=sort_by, headers=not no_headers)


@top.command()
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=names_of("pods"))
@session_option
@labels_option
@everywhere_option
@click.option("--containers", is_flag=True, help="Print each container.")
@click.option("--sort-by", type=_ORDERS, default="", help="The largest first.")
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
    from shoal.cli.output.consumption import PodTable, draw_pods

    table = PodTable(everywhere=all_namespaces, containers=containers, order=sort_by, headers=not no_headers)
    draw_pods(session, names, selector, table)


@top.command()
@connection.options
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
    from shoal.cli.output.pooltop import draw_pools

    draw_pools(home, kubeconfig, context, config, usage=usage)
