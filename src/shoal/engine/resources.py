"""Resources as whole numbers, and which row of the arrays each has.

CPU is counted in thousandths, everything else in ones. What is asked for is rounded up and what there is
is rounded down, so no rounding gives away room that is not there.

Amounts for the eye: short, and never 0 for what is more than nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from string import ascii_letters
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.api.podspec import is_extended
from shoal.api.quantity import NANO, Quantity, format_bytes, format_decimal

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
UNLIMITED: Final = 2**60
"""More than any node has: the number of pods on a node that names no limit."""

STANDARD_RESOURCES: Final = (CPU, MEMORY, "ephemeral-storage", PODS)
_MILLI: Final = 10**6
_LOW_BITS: Final = 30

Amounts = npt.NDArray[np.int64]
"""Amounts by resource (rows) and node (columns)."""


def nanos_per_unit(resource: str) -> int:
    """How many nano-units one counted unit has."""
    return _MILLI if resource == CPU else NANO


def request_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units that somebody asks for, in counted units; what is not asked for is left out.

    More than any node could have counts as just that, so that no sum overflows.
    """
    return {
        name: min(-(-nano // nanos_per_unit(name)), UNLIMITED) for name, nano in sorted(nanos.items()) if nano
    }


def capacity_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units that a node has, in counted units."""
    return {name: nano // nanos_per_unit(name) for name, nano in sorted(nanos.items())}


def format_amount(resource: str, amount: int) -> str:
    """An amount as Kubernetes writes it."""
    return format_decimal(amount) if resource == CPU else format_bytes(amount)


class ResourceLayout:
    """Which row each resource has; the everyday ones first, then the others by name."""

    def __init__(self, resources: Iterable[str]) -> None:
        """Give every resource a row."""
        others = sorted(set(resources) - set(STANDARD_RESOURCES))
        self.names: Final = (*STANDARD_RESOURCES, *others)
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


STORAGE: Final = "ephemeral-storage"

# Two decimals from Ti on: with one, 1500Gi and 1536Gi would look the same.
_BYTES: Final = (("Mi", 2**20, 10), ("Gi", 2**30, 10), ("Ti", 2**40, 100), ("Pi", 2**50, 100))
_NEXT: Final = 1024


def format_short(resource: str, amount: int) -> str:
    """Counted units of a resource: cores with at most one decimal, bytes in the unit that suits them."""
    if resource == CPU:
        return _rounded(amount, 1000, 10)
    if resource in (MEMORY, STORAGE):
        return _in_bytes(amount)
    return str(amount)


def parse_amount(resource: str, text: str) -> int:
    """An amount as a report writes it, in counted units; a sum may be more than any one quantity."""
    number = text.rstrip(ascii_letters)
    return int(number) * Quantity(f"1{text[len(number) :]}").nano // nanos_per_unit(resource)


def _in_bytes(amount: int) -> str:
    suits = (choice for choice in _BYTES if _parts(amount, *choice[1:]) < _NEXT * choice[2])
    suffix, unit, fine = next(suits, _BYTES[-1])
    return _rounded(amount, unit, fine) + suffix if amount else "0"


def _rounded(amount: int, unit: int, fine: int) -> str:
    """So many units in tenths (`fine` 10) or hundredths; too little to be said is `<0.1`."""
    parts = _parts(amount, unit, fine)
    sign, parts = ("<", 1) if amount and not parts else ("", parts)
    whole, rest = divmod(parts, fine)
    decimals = f"{rest / fine:g}".removeprefix("0")
    return f"{sign}{whole}{decimals}"


def _parts(amount: int, unit: int, fine: int) -> int:
    """The amount in fine parts of a unit, rounded."""
    return (2 * amount * fine + unit) // (2 * unit)
