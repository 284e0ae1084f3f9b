"""Metrics of the server: its requests, by call, method and status."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class ServerMetrics:
    """All metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry: Final = CollectorRegistry()
        self._requests: Final = Counter(
            "shoal_server_requests",
            "Requests, by call, method and status.",
            ("call", "method", "code"),
            registry=self._registry,
        )
        self._seconds: Final = Histogram(
            "shoal_server_request_duration_seconds",
            "How long a request took, waiting for another list included.",
            ("call", "method"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.running: Final = Gauge(
            "shoal_server_requests_running", "Requests that are being handled.", registry=self._registry
        )

    def answered(self, call: str, method: str, code: int, seconds: float) -> None:
        """Count a request with its response."""
        self._requests.labels(call, method, str(code)).inc()
        self._seconds.labels(call, method).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics, in the text format of Prometheus."""
        return generate_latest(self._registry)
