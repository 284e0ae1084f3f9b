"""What is measured of controllers, under the names that client-go and controller-runtime have for it."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_DURATIONS: Final = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


class Measures:
    """All metrics of controllers, in one registry, or in none."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def durations(name: str, about: str) -> Histogram:
            return Histogram(name, about, ("name",), buckets=_DURATIONS, registry=registry)

        self.depth: Final = Gauge(
            "workqueue_depth", "Keys that wait for their turn.", ("name",), registry=registry
        )
        self.adds: Final = counter("workqueue_adds", "Keys that were queued.", "name")
        self.retries: Final = counter("workqueue_retries", "Keys that failed, and are tried again.", "name")
        self.waited: Final = durations(
            "workqueue_queue_duration_seconds", "How long a key waited for its turn."
        )
        self.worked: Final = durations("workqueue_work_duration_seconds", "How long the work on a key took.")
        self.turns: Final = counter(
            "controller_runtime_reconcile", "Turns, by what came of them.", "controller", "result"
        )
        self.errors: Final = counter(
            "controller_runtime_reconcile_errors", "Turns that failed.", "controller"
        )


class QueueMeasures:
    """What is measured of one queue."""

    def __init__(self, measures: Measures, name: str, depth: Callable[[], int]) -> None:
        """`depth` tells how many wait whenever somebody asks."""
        measures.depth.labels(name).set_function(depth)
        self._adds, self._retries = measures.adds.labels(name), measures.retries.labels(name)
        self._waited, self._worked = measures.waited.labels(name), measures.worked.labels(name)
        self._errors = measures.errors.labels(name)
        self._turns = {
            result: measures.turns.labels(name, result) for result in ("success", "requeue_after", "error")
        }

    def added(self) -> None:
        """A key was queued."""
        self._adds.inc()

    def begun(self, waited: float) -> None:
        """A key has its turn, and waited for it so many seconds."""
        self._waited.observe(waited)

    def done(self, took: float, *, again: bool) -> None:
        """The work on a key is done; whether it is to be looked at again at a time."""
        self._worked.observe(took)
        self._turns["requeue_after" if again else "success"].inc()

    def failed(self, took: float) -> None:
        """The work on a key failed, and is tried again."""
        self._worked.observe(took)
        self._turns["error"].inc()
        self._errors.inc()
        self._retries.inc()
