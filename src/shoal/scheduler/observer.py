"""The observer: is told how decisions went, and lets metrics and Events say so."""

from functools import cache

from shoal.cluster.errors import ClusterError
from shoal.scheduler.decisions import Bind, Evict
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.status_reporter import StatusReporter


class Observer:
    """Sees to it that what happens is known."""

    def __init__(self, metrics: Metrics, telling: StatusReporter) -> None:
        self._metrics, self._telling = metrics, telling
        self._writes = cache(metrics.writes.labels)

    def bound(self, pool: str, bind: Bind) -> None:
        """A pod has its node."""
        self._metrics.placements.inc()
        text = f"Successfully assigned {'/'.join(bind.key)} to {bind.node}"
        self._telling.event(pool, bind.key, bind.uid, "Scheduled", text)

    def evicted(self, pool: str, eviction: Evict) -> None:
        """A pod was sent away. What everybody looks for is called `Preempted`, whichever rule it was."""
        doom = eviction.doom
        self._metrics.evictions.labels(doom.reason).inc()
        reason = "Preempted" if doom.reason == "Reclaimed" else doom.reason
        self._telling.event(pool, eviction.key, eviction.uid, reason, str(doom))

    def written(self, kind: str, seconds: float) -> None:
        """A write was made, and took so long."""
        self._writes(kind, "done").observe(seconds)

    def refused(self, kind: str, error: ClusterError, seconds: float) -> None:
        """A write was refused, and that took so long."""
        self._writes(kind, error.reason).observe(seconds)
