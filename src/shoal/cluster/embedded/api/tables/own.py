"""Shoal's own kinds: the columns of their CustomResourceDefinitions."""

from typing import Any, Final

from shoal.api.crds import crd
from shoal.api.kinds import Kind
from shoal.cluster.embedded.api.tables.printing import NAME, Cell, Column, Printer, name_of, part
from shoal.cluster.resources import Object
from shoal.cluster.times import since

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "string": (str, int, float, bool),
}


def printer(kind: Kind) -> Printer:
    """What is shown of one of our kinds, here as on Kubernetes."""
    shown = crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
    paths = [(column["type"], column["jsonPath"].strip(".").split(".")) for column in shown]

    def cells(thing: Object, now: float) -> list[Cell]:
        return [name_of(thing), *(_cell(sort, part(thing, *path), now) for sort, path in paths)]

    return Printer((NAME, *map(_column, shown)), cells)


def _column(shown: dict[str, Any]) -> Column:
    return Column(
        shown["name"],
        shown["type"],
        wide=bool(shown.get("priority")),
        about=f"{shown['jsonPath']} of the object.",
    )


def _cell(sort: str, value: Any, now: float) -> Cell:  # noqa: ANN401 - whatever JSON has there
    """A value as its column's type; nothing if it has another."""
    if value is not None and sort == "date":
        return since(value, now)
    cell: Cell = value
    if not isinstance(value, _TYPES[sort]):
        return None
    return str(cell) if sort == "string" else cell
