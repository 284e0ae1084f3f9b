"""`shoal validate` and `shoal crds`: validation and schemas of Shoal's kinds, without a cluster."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from shoal.api import registry
from shoal.cli.input.options import filename_options

if TYPE_CHECKING:
    from shoal.api.kinds import Kind
    from shoal.api.loader import LoadResult


@click.command()
@filename_options()
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
def validate(filenames: Sequence[str], *, recursive: bool, quiet: bool) -> None:
    """Validate the objects in files.

    All errors of all objects are printed on standard error, with file, object and field. Exits with 2 if
    there is one. Kinds that Shoal does not support are skipped.
    """
    from shoal.api.loader import display_name
    from shoal.cli.input import files

    loaded = files.load(filenames, recursive=recursive)
    if not quiet:
        for kind, view in loaded.views:
            click.echo(f"{display_name(kind, view.metadata.namespace, view.metadata.name)}: valid")
        click.echo(_summary(loaded))
    files.report(loaded)


def _summary(loaded: "LoadResult") -> str:
    parts = [f"{len(loaded.views)} valid"]
    if loaded.invalid:
        parts.append(f"{loaded.invalid} invalid")
    if loaded.unknown:
        parts.append(f"{loaded.unknown.total()} skipped")
    return ", ".join(parts)


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Output format.")
def crds(kinds: Sequence[str], output: Literal["yaml", "json"]) -> None:
    """Print the CustomResourceDefinitions of all or of the given kinds, for `kubectl apply -f -`.

    A KIND is named as in kubectl: TYJob, tyjob, tyjobs or tyjobs.tyrl.io.
    """
    from shoal.api import crds as definitions

    chosen = [_find(name) for name in kinds] or list(registry.kinds())
    found = [definitions.crd(kind) for kind in chosen]
    if output == "json":
        click.echo(_as_json(found), nl=False)
        return
    from shoal.cli.output.printing import as_yaml

    click.echo(as_yaml(found, sort=False), nl=False)


def _find(name: str) -> "Kind":
    for kind in registry.kinds():
        singular = kind.kind.lower()
        if name.lower() in (singular, kind.plural, f"{kind.plural}.{kind.group}"):
            return kind
    known = ", ".join(kind.kind for kind in registry.kinds())
    raise click.BadParameter(f"{name} is not one of {known}", param_hint="KIND")


def _as_json(found: Sequence[dict[str, Any]]) -> str:
    """One object, or several in a List, because a JSON text has one value."""
    whole = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(found)}
    return json.dumps(whole, indent=2) + "\n"
