"""Click options and arguments that several commands share.

This module imports nothing slow: what the options name is read elsewhere.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from shoal.cli.input.completion import complete_targets

_F = TypeVar("_F", bound=Callable[..., Any])

selector_option: Final = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Label selector: a=b,c!=d,e in (f,g)."
)
field_selector_option: Final = click.option(
    "--field-selector",
    default="",
    metavar="FIELDS",
    help="Field selector: status.phase=Running.",
)
all_namespaces_option: Final = click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
dry_run_option: Final = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    is_flag=False,
    flag_value="client",
    help="Change nothing: client sends no change, server has the server validate it.",
)
all_option: Final = click.option("--all", is_flag=True, help="All objects of the kind.")
grace_period_option: Final = click.option(
    "--grace-period",
    type=int,
    default=-1,
    metavar="SECONDS",
    help="Time that pods get to terminate; -1 uses each pod's own.",
)
no_headers_option: Final = click.option("--no-headers", is_flag=True, help="Omit the column headers.")
ignore_not_found_option: Final = click.option(
    "--ignore-not-found", is_flag=True, help="Treat missing objects as success."
)


def targets_argument(metavar: str, *, required: bool = False) -> Callable[[_F], _F]:
    """Add the argument that names kinds and objects, as the parameter `arguments`."""
    return click.argument(
        "arguments", nargs=-1, required=required, metavar=metavar, shell_complete=complete_targets
    )


def filename_options(*, required: bool = True) -> Callable[[_F], _F]:
    """Add the options `-f` and `-R`, as the parameters `filenames` and `recursive`."""
    filename_option = click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        required=required,
        metavar="FILE",
        help="File, directory, or - for standard input; may be repeated.",
    )
    recursive_option = click.option("-R", "--recursive", is_flag=True, help="Read directories recursively.")
    return lambda command: filename_option(recursive_option(command))


def config_option(command: _F) -> _F:
    """Add the option `--config`, as the parameter `config`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Configuration file of the scheduler (scheduler.yaml).",
    )(command)


def duration_callback(_: click.Context, __: click.Parameter, value: str) -> float:
    """Click callback that parses a duration such as 30s or 5m into seconds."""
    from shoal.api.quantity import parse_duration

    try:
        return parse_duration(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
