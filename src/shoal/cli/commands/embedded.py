"""`shoal up`: the embedded home, served until it is told to stop, or in the background."""

import json
import os
import select
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.cli.input.connection import home_option
from shoal.cli.input.options import config_option
from shoal.cluster.resources import NODES, PODS
from shoal.embedded.daemon import KEEP_PODS_SIGNAL, LOG_FILE, STATUS_PATH, detached, is_locked, require_daemon

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.client.client import Client
    from shoal.embedded.serve import NodeLayout, ServeOptions
    from shoal.kubelet.nodes import LocalNodes

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
    from shoal.embedded.daemon import tune_garbage_collection

    tune_garbage_collection()  # from the beginning: nothing of what is imported is any
    from shoal.cli.input.planning import read_config

    settings = read_config(config, schedulerNames=["*"])
    from shoal.embedded.serve import NodeLayout, ServeOptions, load_layout

    said = NodeLayout(nodes=nodes or 0, cpu=node_cpu, memory=node_memory, gpus=node_gpu)
    layout = load_layout(home) if nodes is None and said == NodeLayout() else said
    order = ServeOptions(
        home=home.absolute(),
        config=settings,
        layout=layout,
        nodes=_machines(layout),
        listen=listen,
        port=port,
        keep_pods=keep_pods,
    )
    if not detach:
        _run(order, click.echo)
        return
    with detached(order.home / LOG_FILE) as tell:
        _run(order, tell)


def _machines(layout: "NodeLayout") -> "LocalNodes":
    from shoal.api.quantity import Quantity
    from shoal.kubelet.nodes import local_nodes

    for option, text in (("--node-cpu", layout.cpu), ("--node-memory", layout.memory)):
        try:
            Quantity(text or "1")
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint=option) from None
    return local_nodes(layout.nodes or None, cpu=layout.cpu, memory=layout.memory, gpus=layout.gpus)


def _run(order: "ServeOptions", tell: "Callable[[str], None]") -> None:
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


_LONGEST: Final = 2**31 - 1
"""Milliseconds that the system can wait at once."""


@click.command()
@home_option
@click.option("--keep-pods", is_flag=True, help="Let pods run on: the next `shoal up` finds them.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long pods may take to end; then they are killed.",
)
def down(*, home: Path, keep_pods: bool, timeout: float) -> None:
    r"""Stop the embedded cluster: its pods first, each within its grace, then the daemon.

    Objects stay: the next `shoal up` goes on with them. Pods that were ended are started again if their
    restart policy says so; a Job makes new ones.

    \b
    Examples:
      shoal down
      shoal down --keep-pods
    """
    home = home.absolute()
    if is_locked(home):
        _stop(home, timeout, KEEP_PODS_SIGNAL if keep_pods else signal.SIGTERM)
        said = "Shoal is down."
    else:
        said = f"{home} is not served."
    if not keep_pods and (left := _running(home)):  # a daemon that was killed could not end them
        remedy = "`shoal up -d` finds them, and then `shoal down` ends them"
        raise click.ClickException(f"{said} But {left} of its containers run on: {remedy}")
    click.echo(said)


def _stop(home: Path, timeout: float, number: signal.Signals) -> None:
    """End the daemon; when this returns it is gone, and not only its lock."""
    pid = int(require_daemon(home)["pid"])
    try:
        daemon = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for told in (number, signal.SIGTERM):  # the second time it kills
            signal.pidfd_send_signal(daemon, told)
            if _ended(daemon, timeout):
                return
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"the daemon (pid {pid}) belongs to another user") from None
    finally:
        os.close(daemon)
    raise click.ClickException(f"the daemon (pid {pid}) does not end: its log says more")


def _ended(daemon: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    return bool(poll.poll(min(seconds * 1000, _LONGEST)))


def _running(home: Path) -> int:
    """How many containers live: each has a lock in the directory of its run, as a daemon in its home."""
    return sum(is_locked(run) for run in home.glob("pods/*/runs/*/*"))


@click.command()
@home_option
@click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
def status(home: Path, output: str | None) -> None:
    r"""Show how the embedded cluster is: where it is served, its nodes and pods, what cannot be done here.

    Exits with 1 if it is not up.

    \b
    Examples:
      shoal status
      shoal status -o json
    """
    from shoal.cli.input.session import open_session

    home = home.absolute()
    facts = require_daemon(home)
    with open_session(home, "", "", "") as session:
        found = gather(session.client, facts)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(drawn(found))


def gather(client: "Client", facts: dict[str, Any]) -> dict[str, Any]:
    """All that is to be known."""
    pods = [pod.get("status", {}).get("phase", "Unknown") for pod in client.list(PODS)]
    return {
        **facts,
        **client.ask(STATUS_PATH),
        "nodes": [_node(node) for node in client.list(NODES)],
        "pods": {phase: pods.count(phase) for phase in sorted(set(pods))},
    }


def _node(node: dict[str, Any]) -> dict[str, Any]:
    ready = [one["status"] for one in node["status"].get("conditions", ()) if one["type"] == "Ready"]
    return {
        "name": node["metadata"]["name"],
        "ready": ready == ["True"],
        "capacity": node["status"].get("capacity", {}),
    }


def drawn(found: dict[str, Any]) -> str:
    """The same for people."""
    health, able = found["health"], found["abilities"]
    lines = [
        f"Shoal {found['version']} is up at {found['url']}",
        f"home      {found['home']}",
        f"pid       {found['pid']}, for {_duration(found['uptimeSeconds'])}",
        f"pods      {', '.join(f'{n} {phase}' for phase, n in found['pods'].items()) or 'none'}",
        f"names     {_NAMING[found['naming']]}",
        f"limits    {_LIMITS[bool(able['cgroups'])].format(cgroups=able['cgroups'])}",
        *(f"note      {note}" for note in able["notes"]),
        f"health    {'ready' if health.get('ready') else 'not ready yet'}, {health.get('cycles', 0)} cycles",
        *(f"trouble   {trouble}" for trouble in health.get("troubles", ())),
        *(f"left out  {name}: {why}" for name, why in health.get("unreadable", {}).items()),
    ]
    return "\n".join((*lines, "", *_table(found["nodes"])))


_NAMING: Final = {
    "hosts files": "host names of pods resolve, by a hosts file for each namespace",
    "variables": "host names of pods do not resolve here: addresses are in SHOAL_ variables instead",
}
_LIMITS: Final = {
    True: "cpu and memory limits are kept, by cgroups {cgroups}",
    False: "cpu and memory limits are not kept here",
}


def _table(nodes: list[dict[str, Any]]) -> list[str]:
    rows = [("NODE", "READY", "CPU", "MEMORY", "GPU")]
    for node in nodes:
        amounts = node["capacity"]
        gpus = amounts.get("nvidia.com/gpu", "0")
        ready = "yes" if node["ready"] else "no"
        rows.append((node["name"], ready, amounts.get("cpu", "0"), amounts.get("memory", "0"), gpus))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _duration(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes % 60}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


@click.group()
def node() -> None:
    """Play that a node of the embedded cluster is lost, and found again."""


@node.command()
@home_option
@click.argument("name")
@click.option("--network", is_flag=True, help="Cut it off: its processes run on, unseen and unheard.")
def stop(home: Path, name: str, *, network: bool) -> None:
    r"""Take a node away: its processes are killed, and nothing more is heard of it.

    After `nodeLostSeconds` it is taken for lost, and its pods are given up.

    \b
    Examples:
      shoal node stop node-1
      shoal node stop node-1 --network
    """
    _set(home, name, "network" if network else "power")
    click.echo(f"node/{name} stopped")


@node.command()
@home_option
@click.argument("name")
def start(home: Path, name: str) -> None:
    r"""Bring a node back: it says that it is ready, and ends what was given up meanwhile.

    \b
    Example:
      shoal node start node-1
    """
    _set(home, name, None)
    click.echo(f"node/{name} started")


def _set(home: Path, name: str, how: str | None) -> None:
    from shoal.cli.input.session import open_session
    from shoal.kubelet.nodes import MACHINE_ANNOTATION, STOPPED_ANNOTATION

    require_daemon(home.absolute())
    with open_session(home.absolute(), "", "", "") as session:
        if MACHINE_ANNOTATION not in session.client.get(NODES, name)["metadata"].get("annotations", {}):
            raise click.ClickException(f"node {name} is only described: nobody plays it")
        session.client.patch(NODES, name, patch={"metadata": {"annotations": {STOPPED_ANNOTATION: how}}})
