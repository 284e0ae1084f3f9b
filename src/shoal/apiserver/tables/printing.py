"""Printing: columns, rows of cells, and the table that they make."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from shoal.cluster.resources import Object
from shoal.cluster.times import since

Include = Literal["None", "Metadata", "Object"]
"""What of an object comes with its row."""

Cell = str | int | float | bool | None
Cells = Callable[[Object, float], list[Cell]]
"""The cells of one object at a time: all of them, wide columns too."""

NONE: Final = "<none>"


class Column(msgspec.Struct, frozen=True):
    """A column: a wide one is shown with `-o wide` only."""

    name: str
    type: str = "string"
    wide: bool = False
    format: str = ""
    about: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.about,
            "priority": int(self.wide),
        }


NAME: Final = Column("Name", format="name", about="The name of the object.")
AGE: Final = Column("Age", about="How long the object has been there.")


class Printer(msgspec.Struct, frozen=True):
    """How objects of one kind are shown; `conditions` are what is remarkable about one."""

    columns: tuple[Column, ...]
    cells: Cells
    conditions: Callable[[Object], list[Object]] = lambda _: []


class _Row(msgspec.Struct):
    metadata: msgspec.Raw


_metadata: Final = msgspec.json.Decoder(_Row)
_whole: Final = msgspec.json.Decoder(dict[str, Any])


def table(printer: Printer, texts: Iterable[bytes], include: Include, now: float) -> Object:
    """A table of objects; that of a single one has its version."""
    rows = [_row(printer, text, include, now) for text in texts]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": rows[0][1]} if len(rows) == 1 else {},
        "columnDefinitions": [column.definition() for column in printer.columns],
        "rows": [row for row, _ in rows],
    }


def _row(printer: Printer, text: bytes, include: Include, now: float) -> tuple[Object, str]:
    thing = _whole.decode(text)
    row: Object = {"cells": printer.cells(thing, now)}
    if found := printer.conditions(thing):
        row["conditions"] = found
    if include == "Object":
        row["object"] = msgspec.Raw(text)
    elif include == "Metadata":
        metadata = _metadata.decode(text).metadata
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
        }
    return row, thing["metadata"].get("resourceVersion", "")


def name_of(thing: Object) -> str:
    """The name of an object."""
    return str(thing["metadata"].get("name", ""))


def age_of(thing: Object, now: float) -> str:
    """How long an object has been there."""
    return since(thing["metadata"].get("creationTimestamp"), now)


def labels(selector: Mapping[str, Any] | None) -> str:
    """Labels as a selector shows them."""
    return ",".join(f"{name}={value}" for name, value in sorted((selector or {}).items())) or NONE


def part(thing: Any, *path: str) -> Any:  # noqa: ANN401 - whatever JSON has there
    """What is somewhere in an object, if there is anything."""
    for name in path:
        thing = thing.get(name) if isinstance(thing, dict) else None
    return thing


def entries(thing: object, *path: str) -> list[Object]:
    """The members of a list somewhere in an object."""
    found = part(thing, *path)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def condition(thing: Object, kind: str) -> str | None:
    """The status of a condition, if the object has it."""
    found = (
        entry.get("status") for entry in entries(thing, "status", "conditions") if entry.get("type") == kind
    )
    return next(found, None)
