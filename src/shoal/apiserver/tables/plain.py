"""Kinds of which a few fields say all."""

from collections.abc import Callable
from typing import Final

from shoal.apiserver.tables.printing import AGE, NAME, Cell, Column, Printer, age_of, name_of, part
from shoal.cluster.resources import Object


def _plain(*columns: tuple[Column, Callable[[Object], Cell]], after: tuple[Column, ...] = ()) -> Printer:
    """A printer of a name, some fields and the age, with fields `after` it."""
    before = [(column, cell) for column, cell in columns if column not in after]
    late = [(column, cell) for column, cell in columns if column in after]

    def cells(thing: Object, now: float) -> list[Cell]:
        return [
            name_of(thing),
            *(cell(thing) for _, cell in before),
            age_of(thing, now),
            *(cell(thing) for _, cell in late),
        ]

    return Printer((NAME, *(column for column, _ in before), AGE, *after), cells)


def _text(*path: str) -> Callable[[Object], Cell]:
    return lambda thing: part(thing, *path) or ""


def _count(*names: str) -> Callable[[Object], Cell]:
    return lambda thing: sum(len(part(thing, name) or ()) for name in names)


def _amount(*path: str) -> Callable[[Object], Cell]:
    """A number or a share that may be absent."""

    def cell(thing: Object) -> Cell:
        found = part(thing, *path)
        return "N/A" if found is None else str(found)

    return cell


_PREEMPTION: Final = Column("PreemptionPolicy", about="Whether others may be taken away for it.")

NAMESPACES: Final = _plain((Column("Status", about="Active, or on its way out."), _text("status", "phase")))
CONFIG_MAPS: Final = _plain((Column("Data", about="How many entries."), _count("data", "binaryData")))
SECRETS: Final = _plain(
    (Column("Type", about="What the secret is for."), _text("type")),
    (Column("Data", about="How many entries."), _count("data")),
)
LEASES: Final = _plain((Column("Holder", about="Who has the lease."), _text("spec", "holderIdentity")))
PRIORITY_CLASSES: Final = _plain(
    (Column("Value", "integer", about="The priority."), lambda thing: part(thing, "value") or 0),
    (
        Column("Global-Default", "boolean", about="Whether pods have it that name no class."),
        lambda thing: bool(part(thing, "globalDefault")),
    ),
    (_PREEMPTION, _text("preemptionPolicy")),
    after=(_PREEMPTION,),
)
BUDGETS: Final = _plain(
    (Column("Min Available", about="How many pods must stay."), _amount("spec", "minAvailable")),
    (Column("Max Unavailable", about="How many pods may go."), _amount("spec", "maxUnavailable")),
    (
        Column("Allowed Disruptions", "integer", about="How many pods may go now."),
        lambda thing: part(thing, "status", "disruptionsAllowed") or 0,
    ),
)
