"""Nodes closed to new pods, and opened again."""

import click

from shoal.cli.input.session import Failures, Session
from shoal.cli.output.printing import rehearsal
from shoal.cluster.resources import NODES


def nodes_meant(session: Session, names: tuple[str, ...], selector: str, failures: Failures) -> list[str]:
    """The nodes that are named or selected; what is not there is said."""
    if not names and not selector:
        raise click.UsageError("name a node, or choose some with -l")
    if selector:
        from shoal.cluster.port import Where

        return [node["metadata"]["name"] for node in session.client.list(NODES, Where(labels=selector))]
    found = []
    for name in names:
        with failures.noted():
            session.client.get(NODES, name)
            found.append(name)
    return found


def set_cordon(session: Session, name: str, *, closed: bool, dry_run: str) -> None:
    """Close a node to new pods or open it, and say so."""
    node = session.client.get(NODES, name)
    done = "cordoned" if closed else "uncordoned"
    if bool(node.get("spec", {}).get("unschedulable")) is closed:
        click.echo(f"node/{name} already {done}{rehearsal(dry_run)}")
        return
    if dry_run != "client":
        patch = {"spec": {"unschedulable": True if closed else None}}
        session.client.patch(NODES, name, patch=patch, dry_run=dry_run == "server")
    click.echo(f"node/{name} {done}{rehearsal(dry_run)}")


def cordon_all(
    session: Session, names: tuple[str, ...], selector: str, *, closed: bool, dry_run: str
) -> None:
    """Close or open all nodes that are meant."""
    failures = Failures()
    for name in nodes_meant(session, names, selector, failures):
        with failures.noted():
            set_cordon(session, name, closed=closed, dry_run=dry_run)
    failures.end()
