"""Amounts for the eye: short, and never 0 for what is more than nothing."""

from string import ascii_letters
from typing import Final

from shoal.api.quantity import Quantity
from shoal.scheduling.resources import CPU, MEMORY, step_of

STORAGE: Final = "ephemeral-storage"

# Two decimals from Ti on: with one, 1500Gi and 1536Gi would look the same.
_BYTES: Final = (("Mi", 2**20, 10), ("Gi", 2**30, 10), ("Ti", 2**40, 100), ("Pi", 2**50, 100))
_NEXT: Final = 1024


def brief(resource: str, amount: int) -> str:
    """Counted units of a resource: cores with at most one decimal, bytes in the unit that suits them."""
    if resource == CPU:
        return _rounded(amount, 1000, 10)
    if resource in (MEMORY, STORAGE):
        return _in_bytes(amount)
    return str(amount)


def counted(resource: str, text: str) -> int:
    """An amount as a report writes it, in counted units; a sum may be more than any one quantity."""
    number = text.rstrip(ascii_letters)
    return int(number) * Quantity(f"1{text[len(number) :]}").nano // step_of(resource)


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
