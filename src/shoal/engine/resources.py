"""Resource amounts as whole numbers, and the array row of each resource.

CPU is counted in millicores, everything else in ones (bytes, devices, pods): the resource's unit. Requests
are rounded up and capacities are rounded down, so rounding never creates room that does not exist.

The end of the module formats amounts for people: short, and never as 0 if there is more than nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from string import ascii_letters
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.api.podspec import is_extended
from shoal.api.quantity import NANO, Quantity, format_bytes, format_milli

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
UNLIMITED: Final = 2**60
"""More than any node has: the number of pods on a node without a pod limit, and the cap of a request."""

STANDARD_RESOURCES: Final = (CPU, MEMORY, "ephemeral-storage", PODS)
"""Resources that every layout has, in the order of their rows."""
_MILLI: Final = 10**6
_LOW_BITS: Final = 30

Amounts = npt.NDArray[np.int64]
"""Amounts in units: resources are rows, nodes are columns."""


def nanos_per_unit(resource: str) -> int:
    """The number of nano-units (`Quantity.nano`) in one unit of a resource."""
    return _MILLI if resource == CPU else NANO


def request_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Requests in units, rounded up; resources of which nothing is requested are left out.

    Amounts are capped at UNLIMITED, so that sums do not overflow.
    """
    return {
        name: min(-(-nano // nanos_per_unit(name)), UNLIMITED) for name, nano in sorted(nanos.items()) if nano
    }


def capacity_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """What a node has, in units, rounded down."""
    return {name: nano // nanos_per_unit(name) for name, nano in sorted(nanos.items())}


def format_amount(resource: str, amount: int) -> str:
    """Format an amount as a Kubernetes quantity."""
    return format_milli(amount) if resource == CPU else format_bytes(amount)


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


STORAGE: Final = "ephemeral-storage"

# Two decimals from Ti on: with one decimal 1500Gi and 1536Gi would look the same.
_BYTES: Final = (("Mi", 2**20, 10), ("Gi", 2**30, 10), ("Ti", 2**40, 100), ("Pi", 2**50, 100))
_NEXT: Final = 1024


def format_short(resource: str, amount: int) -> str:
    """Format an amount in units for people: cores with at most one decimal, bytes with a binary suffix."""
    if resource == CPU:
        return _rounded(amount, 1000, 10)
    if resource in (MEMORY, STORAGE):
        return _in_bytes(amount)
    return str(amount)


def parse_amount(resource: str, text: str) -> int:
    """Parse an amount as `format_amount` writes it, in units; sums may exceed the range of a Quantity."""
    number = text.rstrip(ascii_letters)
    return int(number) * Quantity(f"1{text[len(number) :]}").nano // nanos_per_unit(resource)


def _in_bytes(amount: int) -> str:
    suits = (choice for choice in _BYTES if _parts(amount, *choice[1:]) < _NEXT * choice[2])
    suffix, unit, fine = next(suits, _BYTES[-1])
    return _rounded(amount, unit, fine) + suffix if amount else "0"


def _rounded(amount: int, unit: int, fine: int) -> str:
    """An amount in tenths (`fine` is 10) or hundredths (100) of a unit; below the smallest step `<0.1`."""
    parts = _parts(amount, unit, fine)
    sign, parts = ("<", 1) if amount and not parts else ("", parts)
    whole, rest = divmod(parts, fine)
    decimals = f"{rest / fine:g}".removeprefix("0")
    return f"{sign}{whole}{decimals}"


def _parts(amount: int, unit: int, fine: int) -> int:
    """The amount in tenths or hundredths of a unit, rounded half up."""
    return (2 * amount * fine + unit) // (2 * unit)
