"""`shoal crds`: the CustomResourceDefinitions, to be piped into `kubectl apply -f -`."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import click

from shoal.api import crds as definitions
from shoal.api.kinds import OWN_KINDS, Kind


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="How to print them."
)
def crds(kinds: Sequence[str], output: Literal["yaml", "json"]) -> None:
    """Print the CustomResourceDefinitions of all kinds, or of those that are named.

    A KIND is named as kubectl names it: TYJob, tyjob, tyjobs or tyjobs.tyrl.io.
    """
    chosen = [_find(name) for name in kinds] or list(OWN_KINDS)
    found = [definitions.crd(kind) for kind in chosen]
    if output == "json":
        click.echo(_as_json(found), nl=False)
        return
    from shoal.cli.output.printing import as_yaml

    click.echo(as_yaml(found, sort=False), nl=False)


def _find(name: str) -> Kind:
    for kind in OWN_KINDS:
        singular = kind.kind.lower()
        if name.lower() in (singular, kind.plural, f"{kind.plural}.{kind.group}"):
            return kind
    known = ", ".join(kind.kind for kind in OWN_KINDS)
    raise click.BadParameter(f"{name} is not one of {known}", param_hint="KIND")


def _as_json(found: Sequence[dict[str, Any]]) -> str:
    """One object, or a List of several: a text has one JSON value."""
    whole = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(found)}
    return json.dumps(whole, indent=2) + "\n"
