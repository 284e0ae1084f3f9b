"""Tables (server-side printing for kubectl get): columns, cells and rows, and helpers for printers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from shoal.cluster.resources import Object
from shoal.cluster.times import format_age

IncludeObject = Literal["None", "Metadata", "Object"]
"""Part of the object that is included in its row."""

Cell = str | int | float | bool | None
Cells = Callable[[Object, float], list[Cell]]
"""Returns the cells of an object at a given time, including those of wide columns."""

NONE: Final = "<none>"


class Column(msgspec.Struct, frozen=True):
    """A column; wide columns are only shown with `-o wide`."""

    name: str
    type: str = "string"
    wide: bool = False
    format: str = ""
    description: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": int(self.wide),
        }


NAME: Final = Column("Name", format="name", description="Name of the object.")
AGE: Final = Column("Age", description="Time since the object was created.")


class Printer(msgspec.Struct, frozen=True):
    """Columns and cells of one kind; `conditions` returns the row conditions of an object."""

    columns: tuple[Column, ...]
    cells: Cells
    conditions: Callable[[Object], list[Object]] = lambda _: []


class _Row(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder: Final = msgspec.json.Decoder(_Row)
_object_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def make_table(printer: Printer, texts: Iterable[bytes], include: IncludeObject, now: float) -> Object:
    """Return a Table of objects; with a single object it has its resource version."""
    rows = [_row(printer, text, include, now) for text in texts]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": rows[0][1]} if len(rows) == 1 else {},
        "columnDefinitions": [column.definition() for column in printer.columns],
        "rows": [row for row, _ in rows],
    }


def _row(printer: Printer, text: bytes, include: IncludeObject, now: float) -> tuple[Object, str]:
    obj = _object_decoder.decode(text)
    row: Object = {"cells": printer.cells(obj, now)}
    if found := printer.conditions(obj):
        row["conditions"] = found
    if include == "Object":
        row["object"] = msgspec.Raw(text)
    elif include == "Metadata":
        metadata = _metadata_decoder.decode(text).metadata
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
        }
    return row, obj["metadata"].get("resourceVersion", "")


def object_name(obj: Object) -> str:
    """Return the name of an object."""
    return str(obj["metadata"].get("name", ""))


def object_age(obj: Object, now: float) -> str:
    """Return the age of an object."""
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def format_labels(selector: Mapping[str, Any] | None) -> str:
    """Format labels as a selector."""
    return ",".join(f"{name}={value}" for name, value in sorted((selector or {}).items())) or NONE


def value_at(obj: Any, *path: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a path; None if it is absent."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def objects_at(obj: object, *path: str) -> list[Object]:
    """Return the objects in the list at a path; empty if it is absent."""
    found = value_at(obj, *path)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def condition_status(obj: Object, kind: str) -> str | None:
    """Return the status of a condition; None if the object does not have it."""
    found = (
        entry.get("status") for entry in objects_at(obj, "status", "conditions") if entry.get("type") == kind
    )
    return next(found, None)
