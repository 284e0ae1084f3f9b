"""The simulated home: a registry that keeps nothing, with a clock and dice that can be had again."""

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from shoal.cluster.registry import Registry, Retention
from shoal.cluster.registry.home import TIDY_EVERY
from shoal.cluster.registry.records import Change
from shoal.cluster.registry.watching import BOOKMARK_EVERY
from shoal.cluster.resources import Resource

T = TypeVar("T")

Witness = Callable[[Sequence[Change]], None]
"""Is told what one commit has changed, when readers can see it and before anybody acts on it."""


class SimulatedCluster(Registry):
    """A home of objects in memory, with the behaviour of a Kubernetes API server."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        dice: random.Random,
        retention: Retention | None = None,
        bookmark_every: float = BOOKMARK_EVERY,
        tidy_every: float = TIDY_EVERY,
    ) -> None:
        super().__init__(
            clock=clock,
            dice=dice,
            retention=retention,
            bookmark_every=bookmark_every,
            tidy_every=tidy_every,
        )
        self.witnesses: Final[list[Witness]] = []

    def all(self, resource: Resource[T]) -> list[T]:
        """All objects of a resource as they are, in order: for a witness, who cannot wait."""
        collection = self._state.collection(resource.full_name)
        return [resource.decode(collection.records[place].body) for place in collection.places()]

    def _committed(self, changes: Sequence[Change]) -> None:
        super()._committed(changes)
        for tell in self.witnesses:
            tell(changes)


class Chronicle:
    """A witness who writes everything down: one line for each change, the same in every run of a seed."""

    def __init__(self) -> None:
        self.lines: Final[list[bytes]] = []

    def __call__(self, changes: Sequence[Change]) -> None:
        self.lines.extend(
            b"%.6f %s %s" % (made.record.time, b"-" if made.record.deleted else b"+", made.record.body)
            for made in changes
        )

    def text(self) -> bytes:
        """All that happened."""
        return b"".join(line + b"\n" for line in self.lines)
