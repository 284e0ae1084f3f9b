"""Sketch: what a job of any kind wants, before it is known which of its pods exist.

A kind says in a Sketch which pods its job wants, in which order, and how many of them it needs; the rest of
the way to a Workload is the same for all kinds.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from shoal.api.meta import ObjectMeta, OwnerReference
from shoal.scheduling.reasons import Reason
from shoal.scheduling.workload import NOWHERE, PlacementPolicy, QueuePolicy
from shoal.world.book import Blueprint
from shoal.world.elastic import Elastic
from shoal.world.pods import PodRecord
from shoal.world.slots import Slot

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
