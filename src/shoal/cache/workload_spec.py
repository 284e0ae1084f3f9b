"""Slots: the pods that a job wants, and rows of them that are numbered.

Elastic jobs: how a kind says what its job is resized by, and how that becomes the engine's Growth.

Sketch: what a job of any kind wants, before it is known which of its pods exist.

A kind says in a Sketch which pods its job wants, in which order, and how many of them it needs; the rest of
the way to a Workload is the same for all kinds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import count, islice

import msgspec

from shoal.api.meta import ObjectMeta, OwnerReference, ScaleRecord
from shoal.api.names import small_number
from shoal.cache.pod_classes import Blueprint
from shoal.cache.pods import PodRecord
from shoal.engine.workload import (
    NOWHERE,
    Following,
    Growth,
    PlacementPolicy,
    QueuePolicy,
    Reason,
    Series,
    Task,
)


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


class Followers(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A role whose number follows the size of the job, from `least` to `most`."""

    row: Row
    least: int
    most: int


class Elastic(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How a job is resized: by what, up to how many, and when it was last."""

    row: Row
    ceiling: int
    records: tuple[ScaleRecord, ...] = ()
    followers: Followers | None = None

    @property
    def blueprints(self) -> Iterator[Blueprint]:
        """What more pods are made by."""
        yield self.row.blueprint
        if self.followers:
            yield self.followers.row.blueprint

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the names of more pods begin with."""
        return (self.row.prefix, *((self.followers.row.prefix,) if self.followers else ()))

    def row_of(self, role: str) -> Row:
        """How pods of a role are made."""
        return self.followers.row if self.followers and self.followers.row.role == role else self.row


def growth_of(
    elastic: Elastic, taken: Iterable[Task | Slot], foreign: Callable[[str], frozenset[int]]
) -> Growth:
    """How a workload is resized; `taken` have their numbers already, `foreign` knows those of others."""
    present = list(taken)

    def series(row: Row, *, varying: bool) -> Series:
        return Series(
            prefix=row.prefix,
            role=row.role,
            shape=row.blueprint.shape,
            identity=row.blueprint.identity,
            taken=frozenset(one.number for one in present if one.role == row.role),
            foreign=foreign(row.prefix),
            varying=varying,
        )

    followers = elastic.followers
    return Growth(
        series=series(elastic.row, varying=True),
        ceiling=elastic.ceiling,
        changed=max((record.time.timestamp() for record in elastic.records), default=None),
        following=Following(
            series=series(followers.row, varying=False), least=followers.least, most=followers.most
        )
        if followers
        else None,
    )


PartyKey = tuple[str, str, str]
"""Kind, namespace and name of a job, a loose pod or a gang: of whoever is planned as one."""

Seniority = tuple[float, str, str, str]
"""Who was there first, whatever the order of the input; the older comes first."""


class Sketch(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A job as its kind describes it.

    `created` is in seconds. `allocations` and `nominations` give nodes by the names of
    pods. `optimistic`: its pods are made even before there is room for them.
    """

    kind: str
    metadata: ObjectMeta
    created: float
    slots: tuple[Slot, ...]
    minimum: int
    maximum: int
    elastic: Elastic | None = None
    optimistic: bool = False
    priority_class: str = ""
    own_priority: int | None = None
    queue_policy: QueuePolicy = "Priority"
    placement: PlacementPolicy = "BinPack"
    may_borrow: bool = True
    evictable: bool = True
    held: Reason | None = None
    allocations: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    broken_since: float | None = None

    @property
    def key(self) -> PartyKey:
        """What nobody else is called."""
        return self.kind, self.metadata.namespace, self.metadata.name

    @property
    def seniority(self) -> Seniority:
        """Its place among all sketches."""
        return self.created, self.metadata.namespace, self.metadata.name, self.kind

    @property
    def blueprints(self) -> Iterator[Blueprint]:
        """What its pods are made by, those it may grow by too."""
        yield from (slot.blueprint for slot in self.slots)
        if self.elastic:
            yield from self.elastic.blueprints

    def pod(self, name: str, blueprint: Blueprint, number: int) -> PodRecord:
        """A pod that the job is to make."""
        meta = self.metadata
        return PodRecord(
            namespace=meta.namespace,
            name=name,
            blueprint=blueprint,
            created=self.created,
            owner=OwnerReference(kind=self.kind, name=meta.name, uid=meta.uid, controller=True),
            rank=None if number == NOWHERE else number,
        )


def timestamp(time: datetime | None) -> float | None:
    """A time in seconds."""
    return None if time is None else time.timestamp()
