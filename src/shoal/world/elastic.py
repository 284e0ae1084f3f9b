"""Elastic jobs: how a kind says what its job is resized by, and how that becomes the engine's Growth."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from shoal.api.meta import ScaleRecord
from shoal.scheduling.workload import Following, Growth, Series, Task
from shoal.world.book import Blueprint
from shoal.world.slots import Row, Slot


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
