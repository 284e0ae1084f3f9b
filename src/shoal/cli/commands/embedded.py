"""`shoal up`, `down`, `status` and `node`: the embedded cluster of this machine.

`up` runs the daemon, in the foreground or in the background; the others work on a running daemon. Imports
that only one command needs are inside that command, so that `down` and `status` start quickly.
"""

import json
import os
import select
import shlex
import signal
from contextlib import suppress
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
_MAX_NODES: Final = 1000
_MAX_POLL_MS: Final = 2**31 - 1
"""Longest timeout of poll(2), in milliseconds."""
_DNS_TEXTS: Final = {
    "hosts files": "host names of pods resolve, by a hosts file for each namespace",
    "variables": "host names of pods do not resolve here: variables of pods have addresses in their place",
}
_LIMIT_TEXTS: Final = {
    True: "cpu and memory limits are enforced, by cgroups {cgroups}",
    False: "cpu and memory limits are not enforced here",
}


# --- up ----------------------------------------------------------------------------------------------------


@click.command()
@home_option
@config_option
@click.option("-d", "--detach", is_flag=True, help="Run in the background; return when it is ready.")
@click.option(
    "--nodes",
    type=click.IntRange(0, _MAX_NODES),
    metavar="N",
    help="Number of nodes, named node-0, node-1, …; 0 is one named like this machine. Default as before.",
)
@click.option("--node-cpu", default="", metavar="CPUS", help="CPUs of each node; default an equal share.")
@click.option(
    "--node-memory", default="", metavar="BYTES", help="Memory of each node; default an equal share."
)
@click.option(
    "--node-gpu",
    type=click.IntRange(0),
    metavar="N",
    help="GPUs of each node, even if the machine has fewer; default an equal share.",
)
@click.option(
    "--keep-pods", is_flag=True, help="On stop, keep pods running; the next `shoal up` adopts them."
)
@click.option(
    "--listen",
    default=_LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; any but a loopback address is reachable from other machines.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 is any free port. Default as before.",
)
@click.option(
    "--server-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of the DI server on the loopback address; 0 is any free port. Default as before.",
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
    server_port: int | None,
) -> None:
    r"""Run a cluster on this machine: objects in SQLite, pods as processes, and an API for kubectl.

    One directory has the state and a kubeconfig. The cluster runs until Ctrl-C, SIGTERM or `shoal down`; no
    acknowledged write is lost, however it ends. A stop ends the pods too, unless --keep-pods is given; after
    a kill they keep running, and the next `shoal up` adopts them.

    \b
    Examples:
      shoal up
      shoal up -d && export KUBECONFIG=~/.shoal/kubeconfig
      shoal up -d --nodes 4 --node-cpu 2 --node-memory 4Gi --node-gpu 1
      shoal apply -f examples/jobs.yaml
    """
    from shoal.embedded.daemon import tune_garbage_collection

    tune_garbage_collection()  # before the imports: what they create is never garbage
    from shoal.cli.input.planning import read_config

    scheduler_config = read_config(config, schedulerNames=["*"])
    from shoal.embedded.serve import NodeLayout, ServeOptions, load_layout

    given = NodeLayout(nodes=nodes or 0, cpu=node_cpu, memory=node_memory, gpus=node_gpu)
    layout = load_layout(home) if nodes is None and given == NodeLayout() else given
    options = ServeOptions(
        home=home.absolute(),
        config=scheduler_config,
        layout=layout,
        nodes=_local_nodes(layout),
        listen=listen,
        port=port,
        server_port=server_port,
        keep_pods=keep_pods,
    )
    if not detach:
        _serve(options, click.echo)
        return
    with detached(options.home / LOG_FILE) as announce:
        _serve(options, announce)


def _local_nodes(layout: "NodeLayout") -> "LocalNodes":
    from shoal.api.quantity import Quantity
    from shoal.kubelet.nodes import local_nodes

    for option, text in (("--node-cpu", layout.cpu), ("--node-memory", layout.memory)):
        try:
            Quantity(text or "1")
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint=option) from None
    return local_nodes(layout.nodes or None, cpu=layout.cpu, memory=layout.memory, gpus=layout.gpus)


def _serve(options: "ServeOptions", announce: "Callable[[str], None]") -> None:
    """Serve, and announce the address; a failure to start is one line."""
    import uvloop

    from shoal.apiserver.credentials import CredentialsError
    from shoal.apiserver.http.server import ListenError
    from shoal.cluster.errors import ClusterError
    from shoal.embedded.serve import serve

    def ready(url: str, kubeconfig: Path) -> None:
        announce(f"Shoal is up at {url}\nexport KUBECONFIG={shlex.quote(str(kubeconfig))}")

    try:
        uvloop.run(serve(options, ready, _echo_if_read))
    except (ClusterError, CredentialsError, ListenError) as problem:
        raise click.ClickException(str(problem)) from None


def _echo_if_read(message: str) -> None:
    """Print a message; a reader that has gone must not keep the daemon from stopping its pods."""
    with suppress(OSError):
        click.echo(message)


# --- down ---------------------------------------------------------------------------------------------------


@click.command()
@home_option
@click.option("--keep-pods", is_flag=True, help="Keep pods running; the next `shoal up` adopts them.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for pods to terminate before they are killed.",
)
def down(*, home: Path, keep_pods: bool, timeout: float) -> None:
    r"""Stop the embedded cluster: first its pods, each within its grace period, then the daemon.

    Objects are kept: the next `shoal up` continues with them. Stopped pods are restarted if their restart
    policy says so; a Job creates new ones.

    \b
    Examples:
      shoal down
      shoal down --keep-pods
    """
    home = home.absolute()
    if is_locked(home):
        _stop(home, timeout, KEEP_PODS_SIGNAL if keep_pods else signal.SIGTERM)
        result = "Shoal is down."
    else:
        result = f"{home} is not served."
    if not keep_pods and (orphans := _count_running(home)):  # a killed daemon leaves its containers running
        remedy = "stop them with `shoal up -d` and then `shoal down`"
        raise click.ClickException(f"{result} But {orphans} of its containers still run: {remedy}")
    click.echo(result)


def _stop(home: Path, timeout: float, number: signal.Signals) -> None:
    """Stop the daemon, and wait until its process has exited."""
    pid = int(require_daemon(home)["pid"])
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for signal_number in (number, signal.SIGTERM):  # at the second signal it kills its pods
            signal.pidfd_send_signal(process, signal_number)
            if _wait_for_exit(process, timeout):
                return
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"the daemon (pid {pid}) belongs to another user") from None
    finally:
        os.close(process)
    raise click.ClickException(f"the daemon (pid {pid}) does not stop: see its log, {home / LOG_FILE}")


def _wait_for_exit(process: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(min(seconds * 1000, _MAX_POLL_MS)))


def _count_running(home: Path) -> int:
    """Number of running containers: each holds a lock in its run directory."""
    return sum(is_locked(run) for run in home.glob("pods/*/runs/*/*"))


# --- status -------------------------------------------------------------------------------------------------


@click.command()
@home_option
@click.option("-o", "--output", type=click.Choice(["json"]), help="Output format.")
def status(home: Path, output: str | None) -> None:
    r"""Show the status of the embedded cluster: its URL, nodes, pods, health, and what this machine lacks.

    Exits with 1 if it is not running.

    \b
    Examples:
      shoal status
      shoal status -o json
    """
    from shoal.cli.input.session import open_session

    home = home.absolute()
    facts = require_daemon(home)
    with open_session(home, "", "", "") as session:
        info = collect_status(session.client, facts)
    if output == "json":
        click.echo(json.dumps(info, indent=2))
    else:
        click.echo(format_status(info))


def collect_status(client: "Client", facts: dict[str, Any]) -> dict[str, Any]:
    """Collect the status from the daemon's record and the API."""
    pods = [pod.get("status", {}).get("phase", "Unknown") for pod in client.list(PODS)]
    return {
        **facts,
        **client.get_path(STATUS_PATH),
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


def format_status(info: dict[str, Any]) -> str:
    """Format the status as text."""
    health, abilities = info["health"], info["abilities"]
    lines = [
        f"Shoal {info['version']} is up at {info['url']}",
        f"server    {info['server']}, for the workers of jobs",
        f"home      {info['home']}",
        f"pid       {info['pid']}, for {_format_uptime(info['uptimeSeconds'])}",
        f"pods      {', '.join(f'{n} {phase}' for phase, n in info['pods'].items()) or 'none'}",
        f"names     {_DNS_TEXTS[info['naming']]}",
        f"limits    {_LIMIT_TEXTS[bool(abilities['cgroups'])].format(cgroups=abilities['cgroups'])}",
        *(f"note      {note}" for note in abilities["notes"]),
        f"health    {'ready' if health.get('ready') else 'not ready yet'}, {health.get('cycles', 0)} cycles",
        *(f"trouble   {trouble}" for trouble in health.get("troubles", ())),
        *(f"left out  {name}: {why}" for name, why in health.get("unreadable", {}).items()),
    ]
    return "\n".join((*lines, "", *_node_table(info["nodes"])))


def _node_table(nodes: list[dict[str, Any]]) -> list[str]:
    rows = [("NODE", "READY", "CPU", "MEMORY", "GPU")]
    for node in nodes:
        amounts = node["capacity"]
        gpus = amounts.get("nvidia.com/gpu", "0")
        ready = "yes" if node["ready"] else "no"
        rows.append((node["name"], ready, amounts.get("cpu", "0"), amounts.get("memory", "0"), gpus))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _format_uptime(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes % 60}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


# --- node ---------------------------------------------------------------------------------------------------


@click.group()
def node() -> None:
    """Simulate the loss and the return of a node of the embedded cluster."""


@node.command()
@home_option
@click.argument("name")
@click.option("--network", is_flag=True, help="Cut only the network: its processes keep running.")
def stop(home: Path, name: str, *, network: bool) -> None:
    r"""Simulate the loss of a node: its processes are killed, and it reports nothing more.

    After `nodeLostSeconds` the node counts as lost, and its pods are evicted.

    \b
    Examples:
      shoal node stop node-1
      shoal node stop node-1 --network
    """
    _set_stopped(home, name, "network" if network else "power")
    click.echo(f"node/{name} stopped")


@node.command()
@home_option
@click.argument("name")
def start(home: Path, name: str) -> None:
    r"""Bring a node back: it becomes ready again, and ends the pods that were evicted from it.

    \b
    Example:
      shoal node start node-1
    """
    _set_stopped(home, name, None)
    click.echo(f"node/{name} started")


def _set_stopped(home: Path, name: str, mode: str | None) -> None:
    from shoal.cli.input.session import open_session
    from shoal.kubelet.nodes import MACHINE_ANNOTATION, STOPPED_ANNOTATION

    require_daemon(home.absolute())
    with open_session(home.absolute(), "", "", "") as session:
        if MACHINE_ANNOTATION not in session.client.get(NODES, name)["metadata"].get("annotations", {}):
            raise click.ClickException(f"node {name} is not simulated by this `shoal up`")
        session.client.patch(NODES, name, patch={"metadata": {"annotations": {STOPPED_ANNOTATION: mode}}})
