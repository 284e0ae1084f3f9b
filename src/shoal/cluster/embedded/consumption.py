"""What nodes and pods really consume, as who runs them measures it."""

from collections.abc import Mapping

import msgspec


class Load(msgspec.Struct, frozen=True):
    """Cores in use, on average over the window of the measurement, and bytes of memory at its end."""

    cpu: float
    memory: int


class Consumption(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of everything: when it was made, and over how many seconds."""

    at: float
    window: float
    nodes: Mapping[str, Load] = {}
    pods: Mapping[tuple[str, str], Mapping[str, Load]] = {}
    """By namespace and name of the pod, then by container."""


NOTHING = Consumption(at=0, window=0)
