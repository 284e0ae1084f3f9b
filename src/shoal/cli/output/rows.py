"""Rows of tables that servers make of their objects, drawn as kubectl draws them."""

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.output.tables import Columns
from shoal.client.kinds import short
from shoal.cluster.resources import Object, Resource


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns are drawn, and whether with a header."""

    wide: bool = False
    namespaces: bool = False
    kinds: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    headers: bool = True


class Drawer:
    """Draws rows of one kind, at once or as they come."""

    def __init__(self, resource: Resource[Any], style: Style) -> None:
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


def table_of(page: Object) -> Object:
    """The table that a server made; of objects, if it makes none, one of their names."""
    if page.get("kind") == "Table":
        return page
    items = page.get("items", [page])
    rows = [{"cells": [item["metadata"]["name"]], "object": item} for item in items or ()]
    return {"columnDefinitions": [{"name": "Name"}], "rows": rows, "metadata": page.get("metadata", {})}
