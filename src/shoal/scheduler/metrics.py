"""Metrics for Prometheus, in a registry of their own, and structured log lines.

Figures of pools are computed from the last cycle when they are scraped: a cycle itself only updates a few
counters. A log line is an event with named values, `cycle placed=3 seconds=0.012`; a handler that writes JSON
finds the values in `record.facts`.
"""

import logging
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from shoal.engine.report import CycleResult, PoolUsage, pool_usages
from shoal.engine.resources import CPU
from shoal.engine.snapshot import Pool


def log_event(log: logging.Logger, level: int, event: str, **facts: object) -> None:
    """Log an event with its values."""
    if log.isEnabledFor(level):
        text = " ".join([event, *(f"{name}={_shown(value)}" for name, value in facts.items())])
        log.log(level, "%s", text, extra={"facts": {"event": event} | facts})


def _shown(value: object) -> str:
    """A value as one word: quoted if it has spaces."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text and not set(text) & set(' "=\n') else msgspec.json.encode(text).decode()


_TYPES: Final = ("capacity", "allocatable", "used", "shared", "system", "pending")
_DURATIONS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MILLI: Final = 1000


class Metrics:
    """All metrics of one scheduler."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.cycles: Final = Histogram(
            "scheduler_cycle_duration_seconds",
            "How long one cycle took: its snapshot, its plan, and the beginning of its writes.",
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self.writes: Final = Histogram(
            "scheduler_write_duration_seconds",
            "How long a write took, by what was written and what came of it.",
            ("kind", "outcome"),
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self.placements: Final = Counter(
            "scheduler_placements", "Pods that were given a node.", registry=self.registry
        )
        self.evictions: Final = Counter(
            "scheduler_evictions",
            "Pods that were sent away, by the reason.",
            ("reason",),
            registry=self.registry,
        )
        self.under_way: Final = Gauge(
            "scheduler_decisions_under_way", "Decisions that are being written.", registry=self.registry
        )
        self.to_tell: Final = Gauge(
            "scheduler_verdicts_to_tell", "Verdicts and events still to be written.", registry=self.registry
        )
        self.leader: Final = Gauge(
            "leader_election_master_status",
            "1 if this manager leads, 0 if it stands by.",
            ("name",),
            registry=self.registry,
        ).labels("shoal-manager")
        self.last: CycleResult | None = None
        """The last cycle."""
        self.registry.register(_Pools(self))

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self.registry)


class _Pools(Collector):
    """What the last cycle says of pools and queues."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Work it out, if there has been a cycle."""
        step = self._metrics.last
        if step is None:
            return
        pools, sums = step.snapshot.pools, pool_usages(step.snapshot, step.plan)
        yield _resources(pools, sums)
        yield _features(pools)
        yield _nodes(step)
        yield _queues(step, sums)
        yield _reasons(step)

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first cycle."""
        return ()


def _resources(pools: Iterable[Pool], sums: Iterable[PoolUsage]) -> Metric:
    family = GaugeMetricFamily(
        "scheduler_pool_resource_details",
        "What a pool has and how it is used, in cores, bytes and pieces.",
        labels=("pool", "resource", "type"),
    )
    for pool, amounts in zip(pools, sums, strict=True):
        for type_ in _TYPES:
            for resource, amount in getattr(amounts, type_).items():
                family.add_metric(
                    (pool.name, resource, type_), amount / _MILLI if resource == CPU else amount
                )
    return family


def _features(pools: Iterable[Pool]) -> Metric:
    family = GaugeMetricFamily(
        "scheduler_pool_features", "Whether a pool does something.", labels=("pool", "feature")
    )
    for pool in pools:
        for feature in ("preemption", "borrowing", "sharing"):
            family.add_metric((pool.name, feature), float(getattr(pool, feature)))
    return family


def _nodes(step: CycleResult) -> Metric:
    family = GaugeMetricFamily("scheduler_pool_nodes", "The nodes of a pool.", labels=("pool", "node"))
    nodes = step.snapshot.nodes
    for name, pool in zip(nodes.names, nodes.pools, strict=True):
        family.add_metric((pool, name), 1)
    return family


def _queues(step: CycleResult, sums: Iterable[PoolUsage]) -> Metric:
    """How many workloads a pool's queue has: those that wait, that can never run, that are held; and pods."""
    family = GaugeMetricFamily(
        "scheduler_pool_queue_details", "How much waits in the queue of a pool.", labels=("pool", "type")
    )
    found = Tally(_standing(step))
    for number, (pool, amounts) in enumerate(zip(step.snapshot.pools, sums, strict=True)):
        for type_ in ("waiting", "infeasible", "held"):
            family.add_metric((pool.name, type_), found[number, type_])
        family.add_metric((pool.name, "pods"), amounts.pending_pods)
    return family


def _standing(step: CycleResult) -> Iterator[tuple[int, str]]:
    for workload, verdict in step.plan.verdicts.items():
        if verdict.state == "ScheduledFailed":
            yield workload.pool, "infeasible"
        elif workload.held:
            yield workload.pool, "held"
        elif verdict.waiting:
            yield workload.pool, "waiting"


def _reasons(step: CycleResult) -> Metric:
    family = GaugeMetricFamily(
        "scheduler_verdict_reasons", "Workloads that wait, by the reason.", labels=("reason",)
    )
    codes = Tally(reason.code for verdict in step.plan.verdicts.values() for reason in verdict.reasons)
    for code, count in sorted(codes.items()):
        family.add_metric((code,), count)
    return family
