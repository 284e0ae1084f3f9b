"""Tables as kubectl draws them: columns as wide as what is in them, three blanks apart."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from shoal.client.kinds import qualified_kind
from shoal.cluster.resources import Object, Resource

_GAP: Final = 3
_MIN_WIDTH: Final = 6
_BREAK: Final = re.compile(r"[\f\n\r]")


class Columns:
    """Lines up rows. Widths are remembered, so that rows that come later stand below those before."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def drawn(self, rows: Iterable[Sequence[object]]) -> list[str]:
        """The rows as lines; the last cell of each is as wide as it is."""
        shown = [[cell_text(value) for value in row] for row in rows]
        for row in shown:
            self._widen(row)
        return [self._line(row) for row in shown]

    def _widen(self, row: Sequence[str]) -> None:
        self._widths += [0] * (len(row) - len(self._widths))
        for number, text in enumerate(row):
            self._widths[number] = max(self._widths[number], len(text) + _GAP, _MIN_WIDTH)

    def _line(self, row: Sequence[str]) -> str:
        *before, last = row
        return "".join(text.ljust(width) for text, width in zip(before, self._widths, strict=False)) + last


def cell_text(value: object) -> str:
    """What stands in a cell: one line, the first of several."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    first, *rest = _BREAK.split(text, maxsplit=1)
    return f"{first}..." if rest else first


def format_table(rows: Iterable[Sequence[object]]) -> str:
    """A whole table."""
    return "\n".join(Columns().drawn(rows))


class TableStyle(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns are drawn, and whether with a header."""

    wide: bool = False
    namespaces: bool = False
    kinds: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    headers: bool = True


class TablePrinter:
    """Draws rows of one kind, at once or as they come."""

    def __init__(self, resource: Resource[Any], style: TableStyle) -> None:
        self._resource, self._style = resource, style
        self._columns = Columns()
        self._shown: list[int] = []
        self._titles: list[str] = []
        self._headed = not style.headers

    def know(self, definitions: Sequence[Object] | None) -> None:
        """Learn which columns there are; only the first table of a stream says it."""
        if not definitions:
            return
        self._shown = [i for i, one in enumerate(definitions) if self._style.wide or not one.get("priority")]
        self._titles = [str(definitions[i]["name"]).upper() for i in self._shown]

    def draw(self, rows: Iterable[Object]) -> None:
        """Draw some rows, below a header if there was none yet."""
        cells = [self._cells(row) for row in rows]
        header = [] if self._headed else [self._header()]
        self._headed = True
        for line in self._columns.drawn([*header, *cells]):
            click.echo(line)

    def _header(self) -> list[str]:
        style = self._style
        named = [label.rpartition("/")[2].upper() for label in style.label_columns]
        return [
            *(["NAMESPACE"] if style.namespaces else []),
            *self._titles,
            *named,
            *(["LABELS"] if style.labels else []),
        ]

    def _cells(self, row: Object) -> list[object]:
        style, metadata = self._style, row.get("object", {}).get("metadata", {})
        labels = metadata.get("labels") or {}
        cells = [row["cells"][i] for i in self._shown]
        if style.kinds and cells:
            cells[0] = f"{short(self._resource)}/{cells[0]}"
        said = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        return [
            *([metadata.get("namespace", "")] if style.namespaces else []),
            *cells,
            *(labels.get(label, "") for label in style.label_columns),
            *([said or "<none>"] if style.labels else []),
        ]


def as_table(page: Object) -> Object:
    """The table that a server made; of objects, if it makes none, one of their names."""
    if page.get("kind") == "Table":
        return page
    items = page.get("items", [page])
    rows = [{"cells": [item["metadata"]["name"]], "object": item} for item in items or ()]
    return {"columnDefinitions": [{"name": "Name"}], "rows": rows, "metadata": page.get("metadata", {})}


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
"""Colours that are told apart on dark and on light paper."""


def colours_enabled() -> bool:
    """Whether what is printed now may have colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Text in a colour, where there are colours."""
    return click.style(text, fg=colour) if colours_enabled() else text
