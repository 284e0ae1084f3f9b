"""The observer: is told how decisions went, and lets metrics and Events say so."""

from collections.abc import Mapping
from typing import Final

from shoal.cluster.errors import ClusterError
from shoal.scheduler.decisions import Bind, Evict
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.telling import Telling
from shoal.scheduling.plan import EvictionReason

_DEEDS: Final[Mapping[EvictionReason, str]] = {
    "Preempted": "Preempted",
    "Reclaimed": "Preempted",
    "Shrunk": "Shrunk",
    "Moved": "Moved",
    "GangLost": "GangLost",
}
"""The reasons of Events: `Preempted` is what everybody looks for."""


class Observer:
    """Sees to it that what happens is known."""

    def __init__(self, metrics: Metrics, telling: Telling) -> None:
        self._metrics, self._telling = metrics, telling

    def bound(self, pool: str, bind: Bind) -> None:
        """A pod has its node."""
        self._metrics.placements.inc()
        text = f"Successfully assigned {'/'.join(bind.key)} to {bind.node}"
        self._telling.event(pool, bind.key, bind.uid, "Scheduled", text)

    def evicted(self, pool: str, eviction: Evict) -> None:
        """A pod was sent away."""
        self._metrics.evictions.labels(eviction.reason).inc()
        whose = f" for {eviction.beneficiary}" if eviction.beneficiary else ""
        text = f"{eviction.reason}{whose}"
        self._telling.event(pool, eviction.key, eviction.uid, _DEEDS[eviction.reason], text)

    def written(self, kind: str, seconds: float) -> None:
        """A write was made, and took so long."""
        self._metrics.writes.labels(kind, "done").observe(seconds)

    def refused(self, kind: str, error: ClusterError, seconds: float) -> None:
        """A write was refused, and that took so long."""
        self._metrics.writes.labels(kind, error.reason).observe(seconds)
