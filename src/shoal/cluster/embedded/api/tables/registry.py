"""The printer of every kind."""

import functools
from typing import Any, Final

from shoal.api.kinds import KINDS
from shoal.cluster.embedded.api.tables import events, jobs, nodes, own, plain, pods, services
from shoal.cluster.embedded.api.tables.printing import Printer
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
    Resource,
)

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
    return own.printer(KINDS[api_version, kind])
