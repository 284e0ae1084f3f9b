"""Timers: when something will be due although nothing happens.

A gang that lost a part gives up, a node that is silent is lost, an elastic job has rested long enough: the
engine decides all of these by the clock alone, so somebody has to ask it at the right moment. Each moment can
be read from what a cycle saw and decided. (A coarse tick would do too, but would be late by up to its length,
and would wake an idle cluster for nothing.)
"""

from collections.abc import Iterator, Mapping
from typing import Final

from shoal.api.durations import seconds
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.plan import Plan
from shoal.scheduling.snapshot import Snapshot
from shoal.world.changes import Key
from shoal.world.population import silent_since
from shoal.world.world import World

_AFTER: Final = 0.001
"""Seconds by which a deadline that must have passed is passed."""


class Timers:
    """Knows the next moment at which the clock alone changes a plan."""

    def __init__(self, world: World, config: SchedulerConfig) -> None:
        self._world, self._config = world, config
        self._cooldown: Final = seconds(config.cooldown)
        self._silent: dict[str, float] = {}

    def next(self, changes: Mapping[str, set[Key]], snapshot: Snapshot, plan: Plan) -> float | None:
        """The first moment after a cycle at which another is due; None if only events matter."""
        self._listen(changes)
        moments = (*self._lost_nodes(), *self._given_up(plan), *self._rested(snapshot))
        return min((moment for moment in moments if moment > snapshot.now), default=None)

    def _listen(self, changes: Mapping[str, set[Key]]) -> None:
        """Note which nodes are silent, and since when."""
        for _, name in changes["Node"]:
            node = self._world.nodes.get(name)
            since = silent_since(node) if node else None
            if since is None:
                self._silent.pop(name, None)
            else:
                self._silent[name] = since

    def _lost_nodes(self) -> Iterator[float]:
        yield from (since + self._config.node_lost_seconds + _AFTER for since in self._silent.values())

    def _given_up(self, plan: Plan) -> Iterator[float]:
        for verdict in plan.verdicts.values():
            if verdict.broken is not None:
                yield verdict.broken + self._config.gang_recovery_seconds

    def _rested(self, snapshot: Snapshot) -> Iterator[float]:
        for workload in snapshot.elastic:
            if workload.growth and workload.growth.changed is not None:
                yield workload.growth.changed + self._cooldown
