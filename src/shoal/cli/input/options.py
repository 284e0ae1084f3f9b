"""Options that many commands have, each said once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from shoal.api.quantity import seconds
from shoal.cli.input.completion import complete_targets
from shoal.cli.input.session import session_option

_F = TypeVar("_F", bound=Callable[..., Any])

selector_option: Final = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only those with such labels: a=b,c!=d,e in (f,g)."
)
field_selector_option: Final = click.option(
    "--field-selector",
    default="",
    metavar="FIELDS",
    help="Only those with such fields: status.phase=Running.",
)
all_namespaces_option: Final = click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
dry_run_option: Final = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    is_flag=False,
    flag_value="client",
    help="Only say what would be done: without asking the server, or having it rehearse.",
)

all_option: Final = click.option("--all", is_flag=True, help="All objects of the kind.")
grace_period_option: Final = click.option(
    "--grace-period", type=int, default=-1, metavar="SECONDS", help="How long pods may take to end."
)


def targets_argument(metavar: str) -> Callable[[_F], _F]:
    """What a command is about, as the parameter `wanted`."""
    return click.argument("wanted", nargs=-1, metavar=metavar, shell_complete=complete_targets)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which objects are meant: by name, in files, by selectors, or all; and `session`."""
    for option in (
        all_option,
        all_namespaces_option,
        field_selector_option,
        selector_option,
        filename_options(required=False),
    ):
        command = option(command)
    return targets_argument("KIND [NAME]...")(session_option(command))


def parse_duration(_: click.Context, __: click.Parameter, value: str) -> float:
    """A duration such as 30s or 5m, as seconds."""
    try:
        return seconds(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


_F = TypeVar("_F", bound=Callable[..., Any])


def filename_options(*, required: bool = True) -> Callable[[_F], _F]:
    """Give a command the options `-f` and `-R`, as the parameters `filenames` and `recursive`."""
    named = click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        required=required,
        metavar="FILE",
        help="A file, a directory, or - for standard input; may be repeated.",
    )
    deep = click.option("-R", "--recursive", is_flag=True, help="Also read directories below directories.")
    return lambda command: named(deep(command))


def config_option(command: _F) -> _F:
    """Give a command the option `--config`, as the parameter `config`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The scheduler's configuration (scheduler.yaml).",
    )(command)
