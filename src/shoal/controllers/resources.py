"""The resources that controllers read, decoded straight from JSON text to typed views."""

from typing import Final, TypeVar

import msgspec

from shoal.api.decode import decode
from shoal.api.managed import (
    Lease,
    ManagedBudget,
    ManagedConfigMap,
    ManagedJob,
    ManagedNode,
    ManagedPod,
    ManagedService,
)
from shoal.cluster.resources import BUDGETS, CONFIG_MAPS, JOBS, LEASES, NODES, PODS, SERVICES, Decode, Text

T = TypeVar("T")


def reader(kind: type[T]) -> Decode[T]:
    """Return a decoder to a view. Texts with nulls, which are rare, take a second, slower attempt."""
    decoder = msgspec.json.Decoder(kind)

    def read(text: Text) -> T:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError:
            return decode(kind, msgspec.json.decode(text))

    return read


POD: Final = PODS.read_as(reader(ManagedPod))
NODE: Final = NODES.read_as(reader(ManagedNode))
LEASE: Final = LEASES.read_as(reader(Lease))
BUDGET: Final = BUDGETS.read_as(reader(ManagedBudget))
SERVICE: Final = SERVICES.read_as(reader(ManagedService))
CONFIG_MAP: Final = CONFIG_MAPS.read_as(reader(ManagedConfigMap))
JOB: Final = JOBS.read_as(reader(ManagedJob))
