"""Resource amounts as whole numbers, and their formatting.

CPU is counted in millicores, everything else in ones (bytes, devices, pods): the resource's unit. Requests
are rounded up and capacities are rounded down, so rounding never creates room that does not exist.

The end of the module formats amounts for people: short, and never as 0 if there is more than nothing. Nothing
here needs numpy, so that commands that only validate objects start quickly; arrays are in `layout`.
"""

from collections.abc import Mapping
from string import ascii_letters
from typing import Final

from shoal.api.quantity import NANO, Quantity, format_bytes, format_milli

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
UNLIMITED: Final = 2**60
"""More than any node has: the number of pods on a node without a pod limit, and the cap of a request."""

STANDARD_RESOURCES: Final = (CPU, MEMORY, "ephemeral-storage", PODS)
"""Resources that every layout has, in the order of their rows."""
_MILLI: Final = 10**6


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
