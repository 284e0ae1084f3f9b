"""Slots: the pods that a job wants, and rows of them that are numbered."""

from collections.abc import Iterable
from itertools import count, islice

import msgspec

from shoal.api.names import small_number
from shoal.scheduling.workload import NOWHERE
from shoal.world.book import Blueprint


class Slot(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A pod that a job wants: whether it exists is found out by its name.

    `number` is its rank or index, where its role has such.
    """

    name: str
    role: str
    blueprint: Blueprint
    varying: bool = True
    leads: bool = False
    follows: bool = False
    number: int = NOWHERE


class Row(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A role whose pods are numbered, and of which there can be more: how the next ones are made."""

    prefix: str
    role: str
    blueprint: Blueprint

    def slot(self, number: int, *, varying: bool = True, follows: bool = False) -> Slot:
        """The pod of a number."""
        return Slot(
            name=f"{self.prefix}{number}",
            role=self.role,
            blueprint=self.blueprint,
            varying=varying,
            follows=follows,
            number=number,
        )


def seats(row: Row, seated: set[int], least: int, nominated: Iterable[str]) -> list[Slot]:
    """Pods that have a place, the lowest others until there are `least`, and those that room is kept for."""
    missing = (number for number in count() if number not in seated)
    lowest = islice(missing, max(least - len(seated), 0))
    promised = (numbered(name, row.prefix) for name in nominated)
    wanted = {*seated, *lowest, *(number for number in promised if number is not None)}
    return [row.slot(number) for number in sorted(wanted)]


def numbered(name: str, prefix: str) -> int | None:
    """The number of a pod of a row; None if its name is not of that row."""
    text = name.removeprefix(prefix)
    number = small_number(text) if name.startswith(prefix) else None
    return number if number is not None and str(number) == text else None
