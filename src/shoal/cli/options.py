"""Options that many commands have, each said once."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from shoal.api.durations import seconds
from shoal.cli.printing import output_option

_F = TypeVar("_F", bound=Callable[..., Any])

labels_option: Final = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only those with such labels: a=b,c!=d,e in (f,g)."
)
fields_option: Final = click.option(
    "--field-selector",
    default="",
    metavar="FIELDS",
    help="Only those with such fields: status.phase=Running.",
)
everywhere_option: Final = click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
dry_run_option: Final = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    is_flag=False,
    flag_value="client",
    help="Only say what would be done: without asking the server, or having it rehearse.",
)


all_option: Final = click.option("--all", is_flag=True, help="All objects of the kind.")


def tagging_options(command: _F) -> _F:
    """What `label` and `annotate` have."""
    overwrite = click.option("--overwrite", is_flag=True, help="Also change what has another value.")
    listing = click.option("--list", "list_", is_flag=True, help="Print what there is.")
    for option in (output_option(), dry_run_option, listing, overwrite, all_option, labels_option):
        command = option(command)
    return everywhere_option(command)


def duration(_: click.Context, __: click.Parameter, value: str) -> float:
    """A duration such as 30s or 5m, as seconds."""
    try:
        return seconds(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
