"""Tables as kubectl prints them, with colours on a terminal.

Columns are as wide as their widest cell, three blanks apart. The server formats most tables; this module
chooses the columns and aligns them.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from shoal.client.kind_resolver import qualified_kind
from shoal.cluster.resources import Object, Resource

_GAP: Final = 3
_MIN_WIDTH: Final = 6
_LINE_BREAK: Final = re.compile(r"[\f\n\r]")

PALETTE: Final = (
    "cyan",
    "green",
    "magenta",
    "yellow",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_magenta",
)
"""Colours that are readable on dark and on light backgrounds."""


# --- columns -----------------------------------------------------------------------------------------------


class Columns:
    """Aligns rows. Widths are kept, so that later rows are aligned with earlier ones."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def format(self, rows: Iterable[Sequence[object]]) -> list[str]:
        """Format rows as lines; the last cell of each is not padded."""
        texts = [[cell_text(value) for value in row] for row in rows]
        for row in texts:
            self._widen(row)
        return [self._line(row) for row in texts]

    def _widen(self, row: Sequence[str]) -> None:
        self._widths += [0] * (len(row) - len(self._widths))
        for number, text in enumerate(row):
            self._widths[number] = max(self._widths[number], len(text) + _GAP, _MIN_WIDTH)

    def _line(self, row: Sequence[str]) -> str:
        *before, last = row
        return "".join(text.ljust(width) for text, width in zip(before, self._widths, strict=False)) + last


def cell_text(value: object) -> str:
    """Text of a cell: the first line of the value, with an ellipsis if there are more."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    first, *rest = _LINE_BREAK.split(text, maxsplit=1)
    return f"{first}..." if rest else first


def format_table(rows: Iterable[Sequence[object]]) -> str:
    """Format a whole table."""
    return "\n".join(Columns().format(rows))


# --- tables of the server ----------------------------------------------------------------------------------


class TableStyle(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns are printed, and whether with a header."""

    wide: bool = False
    namespaces: bool = False
    kinds: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    headers: bool = True


class TablePrinter:
    """Prints rows of one kind, all at once or as they arrive."""

    def __init__(self, resource: Resource[Any], style: TableStyle) -> None:
        self._resource, self._style = resource, style
        self._columns = Columns()
        self._visible: list[int] = []
        self._titles: list[str] = []
        self._header_printed = not style.headers

    def set_columns(self, definitions: Sequence[Object] | None) -> None:
        """Set the columns; only the first table of a watch defines them."""
        if not definitions:
            return
        self._visible = [
            i for i, each in enumerate(definitions) if self._style.wide or not each.get("priority")
        ]
        self._titles = [str(definitions[i]["name"]).upper() for i in self._visible]

    def print_rows(self, rows: Iterable[Object]) -> None:
        """Print rows, after the header if it has not been printed yet."""
        cells = [self._cells(row) for row in rows]
        header = [] if self._header_printed else [self._header()]
        self._header_printed = True
        for line in self._columns.format([*header, *cells]):
            click.echo(line)

    def _header(self) -> list[str]:
        style = self._style
        label_titles = [label.rpartition("/")[2].upper() for label in style.label_columns]
        return [
            *(["NAMESPACE"] if style.namespaces else []),
            *self._titles,
            *label_titles,
            *(["LABELS"] if style.labels else []),
        ]

    def _cells(self, row: Object) -> list[object]:
        style, metadata = self._style, row.get("object", {}).get("metadata", {})
        labels = metadata.get("labels") or {}
        cells = [row["cells"][i] for i in self._visible]
        if style.kinds and cells:
            cells[0] = f"{qualified_kind(self._resource)}/{cells[0]}"
        label_text = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        return [
            *([metadata.get("namespace", "")] if style.namespaces else []),
            *cells,
            *(labels.get(label, "") for label in style.label_columns),
            *([label_text or "<none>"] if style.labels else []),
        ]


def as_table(page: Object) -> Object:
    """The server's table; a table of names if the server has answered with objects."""
    if page.get("kind") == "Table":
        return page
    items = page.get("items", [page])
    rows = [{"cells": [item["metadata"]["name"]], "object": item} for item in items or ()]
    return {"columnDefinitions": [{"name": "Name"}], "rows": rows, "metadata": page.get("metadata", {})}


# --- colours -----------------------------------------------------------------------------------------------


def colours_enabled() -> bool:
    """Whether output has colours: on a terminal, unless NO_COLOR is set or TERM is dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Colour a text, if colours are enabled."""
    return click.style(text, fg=colour) if colours_enabled() else text
