"""`-f` and `-R`, as kubectl has them. What they name is read in another module, which is slower to import."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def files_option(*, required: bool = True) -> Callable[[_F], _F]:
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
