"""Tables of what nodes and pods use."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import click
import msgspec

from shoal.cli.commands.top import Usage, node_usage, percent, pod_usage, usage_of
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.tables import columns
from shoal.cluster.port import Where
from shoal.cluster.resources import NODES, PODS

_K = TypeVar("_K", str, tuple[str, str])


def draw_nodes(session: Session, names: Sequence[str], selector: str, *, order: str, headers: bool) -> None:
    """Draw what nodes use of what pods may have of them."""
    used, failures = node_usage(session, selector), Failures()
    for name in names:
        if name not in used:
            failures.say(f'Error from server (NotFound): nodes "{name}" not found')
    found = session.client.list(NODES, Where(labels=selector))
    there = {node["metadata"]["name"]: usage_of(node["status"]["allocatable"]) for node in found}
    rows = [
        _node_row(name, used[name], there.get(name, Usage()))
        for name in _ordered(used, order)
        if not names or name in names
    ]
    _print(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], rows, headers=headers)
    failures.end()


def _node_row(name: str, used: Usage, there: Usage) -> list[str]:
    cpu, memory = used.shown()
    return [name, cpu, percent(used.cpu, there.cpu), memory, percent(used.memory, there.memory)]


class PodTable(msgspec.Struct, frozen=True, kw_only=True):
    """How a table of pods is drawn."""

    everywhere: bool
    containers: bool
    order: str
    headers: bool


def draw_pods(session: Session, names: Sequence[str], selector: str, table: PodTable) -> None:
    """Draw what pods use, or each of their containers."""
    failures, space = Failures(), session.space(PODS, everywhere=table.everywhere)
    found = pod_usage(session, space, selector)
    for name in names:
        if not any(pod == name for _, pod in found):
            failures.say(f'Error from server (NotFound): pods "{name}" not found')
    wanted = {key: parts for key, parts in found.items() if not names or key[1] in names}
    totals = {key: sum(parts.values(), Usage()) for key, parts in wanted.items()}
    rows = list[list[str]]()
    for key in _ordered(totals, table.order):
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
        _print([*titles, "CPU(cores)", "MEMORY(bytes)"], rows, headers=table.headers)
    elif not failures.count:
        place = "" if table.everywhere else f" in {session.namespace} namespace"
        click.echo(f"No resources found{place}.", err=True)
    failures.end()


def _part(name: str) -> list[str]:
    return [name] if name else []


def _ordered(used: Mapping[_K, Usage], order: str) -> list[_K]:
    """By name, or the largest first."""
    names = sorted(used)
    return sorted(names, key=lambda name: -getattr(used[name], order)) if order else names


def _print(titles: list[str], rows: Iterable[Sequence[str]], *, headers: bool) -> None:
    click.echo(columns([titles, *rows] if headers else rows))
