"""The layout of the engine's arrays: resources are rows, nodes are columns."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.api.podspec import is_extended
from shoal.engine.resources import CPU, MEMORY, STANDARD_RESOURCES

_LOW_BITS: Final = 30

Amounts = npt.NDArray[np.int64]
"""Amounts in units: resources are rows, nodes are columns."""


class ResourceLayout:
    """The array row of each resource: the standard resources first, then the others by name."""

    def __init__(self, resources: Iterable[str]) -> None:
        """Assign a row to every standard resource and to each of `resources`."""
        others = sorted(set(resources) - set(STANDARD_RESOURCES))
        self.names: Final = (*STANDARD_RESOURCES, *others)
        self.rows: Final = {name: row for row, name in enumerate(self.names)}
        self._weights: dict[tuple[Callable[[str], bool], int], tuple[int, ...]] = {}

    def vector(self, amounts: Mapping[str, int]) -> Amounts:
        """Amounts as one array column; resources that are not named are 0."""
        column = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            column[self.rows[name]] = amount
        return column

    def weights(self, heavy: Callable[[str], bool], weight: int) -> tuple[int, ...]:
        """The weight of each row in a node score.

        CPU, memory and extended resources weigh 1, or `weight` if `heavy` is true for them; all others weigh
        0.
        """
        key = (heavy, weight)
        if key not in self._weights:
            scored = ((name in (CPU, MEMORY) or is_extended(name), name) for name in self.names)
            self._weights[key] = tuple(
                weight if counts and heavy(name) else int(counts) for counts, name in scored
            )
        return self._weights[key]


def exact_sums(amounts: Amounts) -> list[int]:
    """The sum of each row as a Python int, which cannot overflow as an int64 sum could."""
    high = (amounts >> _LOW_BITS).sum(axis=1)
    low = (amounts & (2**_LOW_BITS - 1)).sum(axis=1)
    return [(int(h) << _LOW_BITS) + int(part) for h, part in zip(high, low, strict=True)]
