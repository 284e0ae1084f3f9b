"""`shoal up`: the embedded home, served until it is told to stop, or in the background."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shoal.cli.input.configuring import config_option, read_config
from shoal.cli.input.places import home_option
from shoal.embedded.daemon import LOG, detached

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.embedded.serve import Layout, Order
    from shoal.kubelet.nodes import Machines

_LOOPBACK: Final = "127.0.0.1"
_MOST_NODES: Final = 1000


@click.command()
@home_option
@config_option
@click.option("-d", "--detach", is_flag=True, help="Go on in the background; returns when it is ready.")
@click.option(
    "--nodes",
    type=click.IntRange(0, _MOST_NODES),
    metavar="N",
    help="Be several nodes, node-0 and so on; 0 is one, named like this machine. By default as last time.",
)
@click.option("--node-cpu", default="", metavar="CPUS", help="CPUs of each node; by default its share.")
@click.option("--node-memory", default="", metavar="BYTES", help="Memory of each node; by default its share.")
@click.option(
    "--node-gpu",
    type=click.IntRange(0),
    metavar="N",
    help="GPUs of each node, whether or not there are so many; by default its share.",
)
@click.option("--keep-pods", is_flag=True, help="When it stops, let pods run on: the next one finds them.")
@click.option(
    "--listen",
    default=_LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Any but a loopback address lets other machines knock.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The port to listen on, 0 for any that is free; by default the one of last time.",
)
def up(  # noqa: PLR0913 - one parameter an option
    *,
    home: Path,
    config: Path | None,
    detach: bool,
    nodes: int | None,
    node_cpu: str,
    node_memory: str,
    node_gpu: int | None,
    keep_pods: bool,
    listen: str,
    port: int | None,
) -> None:
    r"""Run a cluster on this machine: objects in SQLite, pods as processes, an API that kubectl speaks.

    The state is in one directory, and so is a kubeconfig to reach it with. It runs until Ctrl-C, SIGTERM or
    `shoal down`; nothing that was acknowledged is lost, however it ends. When it is killed its pods run on,
    and the next `shoal up` finds them; when it is stopped they are ended, unless they are to be kept.

    \b
    Examples:
      shoal up
      shoal up -d && export KUBECONFIG=~/.shoal/kubeconfig
      shoal up -d --nodes 4 --node-cpu 2 --node-memory 4Gi --node-gpu 1
      shoal apply -f examples/jobs.yaml
    """
    from shoal.embedded.daemon import look_for_garbage_rarely

    look_for_garbage_rarely()  # from the beginning: nothing of what is imported is any
    settings = read_config(config, schedulerNames=["*"])
    from shoal.embedded.serve import Layout, Order, last

    said = Layout(nodes=nodes or 0, cpu=node_cpu, memory=node_memory, gpus=node_gpu)
    layout = last(home) if nodes is None and said == Layout() else said
    order = Order(
        home=home.absolute(),
        settings=settings,
        layout=layout,
        machines=_machines(layout),
        listen=listen,
        port=port,
        keep_pods=keep_pods,
    )
    if not detach:
        _run(order, click.echo)
        return
    with detached(order.home / LOG) as tell:
        _run(order, tell)


def _machines(layout: "Layout") -> "Machines":
    from shoal.api.quantity import Quantity
    from shoal.kubelet.nodes import machines

    for option, text in (("--node-cpu", layout.cpu), ("--node-memory", layout.memory)):
        try:
            Quantity(text or "1")
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint=option) from None
    return machines(layout.nodes or None, cpu=layout.cpu, memory=layout.memory, gpus=layout.gpus)


def _run(order: "Order", tell: "Callable[[str], None]") -> None:
    """Serve, and tell where; what cannot be is said in one line."""
    import uvloop

    from shoal.apiserver.credentials import CredentialsError
    from shoal.apiserver.http.server import ListenError
    from shoal.cluster.errors import StorageError
    from shoal.embedded.serve import serve

    def ready(url: str, kubeconfig: Path) -> None:
        tell(f"Shoal is up at {url}\nexport KUBECONFIG={shlex.quote(str(kubeconfig))}")

    try:
        uvloop.run(serve(order, ready, click.echo))
    except (StorageError, CredentialsError, ListenError) as problem:
        raise click.ClickException(str(problem)) from None
