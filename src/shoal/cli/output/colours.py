"""Colours, where there are people to see them: on a terminal, unless NO_COLOR asks for none."""

import os
import sys
from typing import Final

import click

WHEEL: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
"""Colours that are told apart on dark and on light paper."""


def coloured() -> bool:
    """Whether what is printed now may have colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str) -> str:
    """Text in a colour, where there are colours."""
    return click.style(text, fg=colour) if coloured() else text
