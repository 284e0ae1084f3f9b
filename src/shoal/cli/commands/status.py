"""`shoal status`: how the embedded home is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.cli.input.places import home_option
from shoal.cluster.resources import NODES, PODS
from shoal.embedded.daemon import STATUS_PAGE, must_be_up

if TYPE_CHECKING:
    from shoal.client.client import Client


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
    from shoal.cli.input.session import opened

    home = home.absolute()
    facts = must_be_up(home)
    with opened(home, "", "", "") as session:
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
        **client.ask(STATUS_PAGE),
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
