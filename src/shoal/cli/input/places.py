"""Where the embedded home keeps its state."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def home_option(command: _F) -> _F:
    """Give a command the option `--home`, as the parameter `home`."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        default=usual_home,
        metavar="DIR",
        help="Where the embedded home keeps its state; by default $SHOAL_HOME, else ~/.shoal.",
    )(command)


def usual_home() -> Path:
    """Where it is if nobody says."""
    return Path(os.environ.get("SHOAL_HOME") or "~/.shoal").expanduser()
