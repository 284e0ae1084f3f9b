"""Shoal's own kinds: the columns of their CustomResourceDefinitions.

The printer of every kind.
"""

import functools
from typing import Any, Final

from shoal.api.crds import crd
from shoal.api.kinds import KINDS, Kind
from shoal.apiserver.tables import events, jobs, nodes, plain, pods, services
from shoal.apiserver.tables.printing import NAME, Cell, Column, Printer, name_of, part
from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
)
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


_PRINTERS: Final = {
    PODS.full_name: pods.PRINTER,
    NODES.full_name: nodes.PRINTER,
    NAMESPACES.full_name: plain.NAMESPACES,
    SERVICES.full_name: services.PRINTER,
    CONFIG_MAPS.full_name: plain.CONFIG_MAPS,
    SECRETS.full_name: plain.SECRETS,
    EVENTS.full_name: events.PRINTER,
    LEASES.full_name: plain.LEASES,
    PRIORITY_CLASSES.full_name: plain.PRIORITY_CLASSES,
    BUDGETS.full_name: plain.BUDGETS,
    JOBS.full_name: jobs.PRINTER,
}


def printer_of(resource: Resource[Any]) -> Printer:
    """How objects of a resource are shown."""
    found = _PRINTERS.get(resource.full_name)
    return found or _own(resource.api_version, resource.kind)


@functools.cache
def _own(api_version: str, kind: str) -> Printer:
    return printer(KINDS[api_version, kind])
