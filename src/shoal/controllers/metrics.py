"""Metrics of controllers, under the names that client-go and controller-runtime use."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS: Final = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


class ControllerMetrics:
    """All metrics of controllers, in one registry, or in none."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def histogram(name: str, about: str) -> Histogram:
            return Histogram(name, about, ("name",), buckets=_BUCKETS, registry=registry)

        self.depth: Final = Gauge("workqueue_depth", "Keys in the queue.", ("name",), registry=registry)
        self.adds: Final = counter("workqueue_adds", "Keys that were queued.", "name")
        self.retries: Final = counter("workqueue_retries", "Keys that failed and are retried.", "name")
        self.queue_duration: Final = histogram(
            "workqueue_queue_duration_seconds", "How long a key waited in the queue."
        )
        self.work_duration: Final = histogram(
            "workqueue_work_duration_seconds", "How long the reconcile of a key took."
        )
        self.reconciles: Final = counter(
            "controller_runtime_reconcile", "Reconciles, by result.", "controller", "result"
        )
        self.errors: Final = counter(
            "controller_runtime_reconcile_errors", "Reconciles that failed.", "controller"
        )


class QueueMetrics:
    """The metrics of one work queue."""

    def __init__(self, metrics: ControllerMetrics, name: str, depth: Callable[[], int]) -> None:
        """`depth` returns the current number of queued keys; it is called when metrics are collected."""
        metrics.depth.labels(name).set_function(depth)
        self._adds, self._retries = metrics.adds.labels(name), metrics.retries.labels(name)
        self._queue_duration = metrics.queue_duration.labels(name)
        self._work_duration = metrics.work_duration.labels(name)
        self._errors = metrics.errors.labels(name)
        self._reconciles = {
            result: metrics.reconciles.labels(name, result)
            for result in ("success", "requeue_after", "error")
        }

    def added(self) -> None:
        """Count a key that was queued."""
        self._adds.inc()

    def started(self, queued: float) -> None:
        """Record that the reconcile of a key starts, after `queued` seconds in the queue."""
        self._queue_duration.observe(queued)

    def succeeded(self, took: float, *, requeued: bool) -> None:
        """Record a successful reconcile; `requeued`: it asked to be run again at a time."""
        self._work_duration.observe(took)
        self._reconciles["requeue_after" if requeued else "success"].inc()

    def failed(self, took: float) -> None:
        """Record a reconcile that failed and is retried."""
        self._work_duration.observe(took)
        self._reconciles["error"].inc()
        self._errors.inc()
        self._retries.inc()
