"""WorkloadSpec: what a job of any kind wants, before it is known which of its pods exist.

A kind describes in a WorkloadSpec which pods its job wants (slots), in which order, and how many of them it
needs. From there on the way to a Workload of the engine is the same for all kinds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import count, islice
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.meta import ObjectMeta, OwnerReference, ScaleRecord
from shoal.api.names import parse_small_int
from shoal.engine.workload import (
    NO_NUMBER,
    FollowingRole,
    Growth,
    PlacementPolicy,
    QueuePolicy,
    Reason,
    ReplicaSeries,
    Task,
)
from shoal.kinds.pod_classes import PodClass
from shoal.kinds.pods import PodRecord

WorkloadKey = tuple[str, str, str]
"""Unique key of a job, a loose pod or a gang: kind, namespace, name."""

Seniority = tuple[float, str, str, str]
"""Sort key by age: creation time, namespace, name, kind. The older workload comes first."""


SUSPENDED: Final = Reason("Held", "it is suspended")
"""Why a suspended job gets nothing."""


class Slot(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """One pod that a job may have; the pod's name tells whether it exists.

    `varying`: the number of such pods may vary, so it counts towards minimum and size. `leads`: it is placed
    as the leader. `follows`: its number follows the size of the job. `number` is its rank or index, if any.
    `completed`: the status says that its pod succeeded.
    """

    name: str
    role: str
    pod_class: PodClass
    varying: bool = True
    leads: bool = False
    follows: bool = False
    number: int = NO_NUMBER
    completed: bool = False


class SlotSeries(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A role whose pods are numbered, and which can have more of them: `<prefix><number>`."""

    prefix: str
    role: str
    pod_class: PodClass

    def slot(self, number: int, *, varying: bool = True, follows: bool = False) -> Slot:
        """The slot of a number."""
        return Slot(
            name=f"{self.prefix}{number}",
            role=self.role,
            pod_class=self.pod_class,
            varying=varying,
            follows=follows,
            number=number,
        )

    def number_of(self, name: str) -> int | None:
        """The number of a pod by its name; None if the name is not of this series."""
        text = name.removeprefix(self.prefix)
        number = parse_small_int(text) if name.startswith(self.prefix) else None
        return number if number is not None and str(number) == text else None

    def wanted_slots(
        self,
        occupied: Iterable[int],
        least: int,
        *,
        nominated: Iterable[int] = (),
        completed: AbstractSet[int] = frozenset(),
        abandoned: AbstractSet[int] = frozenset(),
    ) -> list[Slot]:
        """Slots with a pod, a node or success, the lowest others until there are `least`, and nominated ones.

        `abandoned` numbers are no slots.
        """
        present = {*occupied, *completed} - abandoned
        missing = (number for number in count() if number not in present and number not in abandoned)
        lowest = islice(missing, max(least - len(present), 0))
        wanted = {*present, *lowest, *nominated} - abandoned
        return [replace(self.slot(number), completed=number in completed) for number in sorted(wanted)]

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """The numbers of pods by their names; names of other series are left out."""
        return [number for name in names if (number := self.number_of(name)) is not None]


class FollowingSpec(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A role whose number of pods follows the size of the job, from `least` to `most`."""

    series: SlotSeries
    least: int
    most: int


class ElasticSpec(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How a job is resized: by pods of which series, up to how many, and its changes of size so far."""

    series: SlotSeries
    ceiling: int
    records: tuple[ScaleRecord, ...] = ()
    following: FollowingSpec | None = None
    sized_by_policy: bool = False
    """Whether the configured elastic policy decides on its size; else it is sized by fulfilment."""

    @property
    def pod_classes(self) -> Iterator[PodClass]:
        """Classes of the pods that it may grow by."""
        yield self.series.pod_class
        if self.following:
            yield self.following.series.pod_class

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Name prefixes of the pods that it may grow by."""
        return (self.series.prefix, *((self.following.series.prefix,) if self.following else ()))

    def series_of(self, role: str) -> SlotSeries:
        """The series of a role."""
        following = self.following
        return following.series if following and following.series.role == role else self.series


class WorkloadSpec(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A job as its kind describes it.

    `created` is in seconds since 1970. `allocations` and `nominations` map pod names to nodes, as its status
    does. `held`: why it is suspended; then its allocations hold no room. `optimistic`: its pods are created
    before there is room for them. `whole_minimum` is the minimum with which it was whole the last time.
    """

    kind: str
    metadata: ObjectMeta
    created: float
    slots: tuple[Slot, ...]
    minimum: int
    maximum: int
    elastic: ElasticSpec | None = None
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
    whole_minimum: int | None = None

    @property
    def key(self) -> WorkloadKey:
        """Unique key: kind, namespace, name."""
        return self.kind, self.metadata.namespace, self.metadata.name

    @property
    def seniority(self) -> Seniority:
        """Sort key by age."""
        return self.created, self.metadata.namespace, self.metadata.name, self.kind

    @property
    def pod_classes(self) -> Iterator[PodClass]:
        """Classes of its pods, also of those that it may grow by."""
        yield from (slot.pod_class for slot in self.slots)
        if self.elastic:
            yield from self.elastic.pod_classes

    def pod(self, name: str, pod_class: PodClass, number: int) -> PodRecord:
        """The record of a pod that the job has not created yet."""
        meta = self.metadata
        return PodRecord(
            namespace=meta.namespace,
            name=name,
            pod_class=pod_class,
            created=self.created,
            owner=OwnerReference(kind=self.kind, name=meta.name, uid=meta.uid, controller=True),
            rank=None if number == NO_NUMBER else number,
        )


def growth_of(
    elastic: ElasticSpec, taken: Iterable[Task | Slot], foreign: Callable[[str], frozenset[int]]
) -> Growth:
    """The engine's Growth of an elastic job.

    Numbers of `taken` are in use already; `foreign` returns the numbers of a name prefix that are used by, or
    reserved for, pods of other owners.
    """
    present = list(taken)

    def replicas(series: SlotSeries, *, varying: bool) -> ReplicaSeries:
        return ReplicaSeries(
            prefix=series.prefix,
            role=series.role,
            shape=series.pod_class.shape,
            identity=series.pod_class.identity,
            taken=frozenset(one.number for one in present if one.role == series.role),
            taken_names=foreign(series.prefix),
            varying=varying,
        )

    following = elastic.following
    return Growth(
        series=replicas(elastic.series, varying=True),
        ceiling=elastic.ceiling,
        resized_at=max((record.time.timestamp() for record in elastic.records), default=None),
        following=FollowingRole(
            series=replicas(following.series, varying=False), least=following.least, most=following.most
        )
        if following
        else None,
    )


def timestamp(time: datetime | None) -> float | None:
    """A time in seconds since 1970."""
    return None if time is None else time.timestamp()
