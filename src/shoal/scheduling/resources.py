"""Resources as whole numbers, and which row of the arrays each has.

CPU is counted in thousandths, everything else in ones. What is asked for is rounded up and what there is
is rounded down, so no rounding gives away room that is not there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.api.podspec import is_extended
from shoal.api.quantity import NANO, format_bytes, format_decimal

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
UNLIMITED: Final = 2**60
"""More than any node has: the number of pods on a node that names no limit."""

EVERYDAY: Final = (CPU, MEMORY, "ephemeral-storage", PODS)
_MILLI: Final = 10**6
_LOW_BITS: Final = 30

Amounts = npt.NDArray[np.int64]
"""Amounts by resource (rows) and node (columns)."""


def step_of(resource: str) -> int:
    """How many nano-units one counted unit has."""
    return _MILLI if resource == CPU else NANO


def asked(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units that somebody asks for, in counted units; what is not asked for is left out.

    More than any node could have counts as just that, so that no sum overflows.
    """
    return {name: min(-(-nano // step_of(name)), UNLIMITED) for name, nano in sorted(nanos.items()) if nano}


def offered(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units that a node has, in counted units."""
    return {name: nano // step_of(name) for name, nano in sorted(nanos.items())}


def shown(resource: str, amount: int) -> str:
    """An amount as Kubernetes writes it."""
    return format_decimal(amount) if resource == CPU else format_bytes(amount)


class Layout:
    """Which row each resource has; the everyday ones first, then the others by name."""

    def __init__(self, resources: Iterable[str]) -> None:
        """Give every resource a row."""
        others = sorted(set(resources) - set(EVERYDAY))
        self.names: Final = (*EVERYDAY, *others)
        self.rows: Final = {name: row for row, name in enumerate(self.names)}
        self._weights: dict[tuple[Callable[[str], bool], int], tuple[int, ...]] = {}

    def vector(self, amounts: Mapping[str, int]) -> Amounts:
        """Amounts as a column."""
        column = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            column[self.rows[name]] = amount
        return column

    def weights(self, heavy: Callable[[str], bool], weight: int) -> tuple[int, ...]:
        """How much each row counts in a score: CPU, memory and extended resources once, `heavy` ones more."""
        key = (heavy, weight)
        if key not in self._weights:
            scored = ((name in (CPU, MEMORY) or is_extended(name), name) for name in self.names)
            self._weights[key] = tuple(
                weight if counts and heavy(name) else int(counts) for counts, name in scored
            )
        return self._weights[key]


def exact_sums(amounts: Amounts) -> list[int]:
    """The sum of each row, however large."""
    high = (amounts >> _LOW_BITS).sum(axis=1)
    low = (amounts & (2**_LOW_BITS - 1)).sum(axis=1)
    return [(int(h) << _LOW_BITS) + int(part) for h, part in zip(high, low, strict=True)]
