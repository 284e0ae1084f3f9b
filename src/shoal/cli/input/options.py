"""Options that many commands have, each said once."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from shoal.api.quantity import seconds
from shoal.cli.input.completing import complete_wanted
from shoal.cli.input.connection import session_option
from shoal.cli.input.filenames import files_option
from shoal.cli.output.printing import output_option

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
grace_option: Final = click.option(
    "--grace-period", type=int, default=-1, metavar="SECONDS", help="How long pods may take to end."
)


def wanted_argument(metavar: str) -> Callable[[_F], _F]:
    """What a command is about, as the parameter `wanted`."""
    return click.argument("wanted", nargs=-1, metavar=metavar, shell_complete=complete_wanted)


def choosing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which objects are meant: by name, in files, by selectors, or all; and `session`."""
    for option in (all_option, everywhere_option, fields_option, labels_option, files_option(required=False)):
        command = option(command)
    return wanted_argument("KIND [NAME]...")(session_option(command))


def tagging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What `label` and `annotate` have: all but the words."""
    overwrite = click.option("--overwrite", is_flag=True, help="Also change what has another value.")
    listing = click.option("--list", "list_", is_flag=True, help="Print what there is.")
    for option in (output_option(), dry_run_option, listing, overwrite, all_option, labels_option):
        command = option(command)
    return wanted_argument("KIND NAME... KEY=VALUE... KEY-...")(session_option(everywhere_option(command)))


def duration(_: click.Context, __: click.Parameter, value: str) -> float:
    """A duration such as 30s or 5m, as seconds."""
    try:
        return seconds(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
