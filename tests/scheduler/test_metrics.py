"""Metrics of a scheduler at work, as Prometheus reads them."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from shoal.scheduler.metrics import Metrics
from tests.builders import open_pool
from tests.scheduler.cases import CLASSES, HIGH, A, B, in_pool, small
from tests.scheduler.scenarios import Step, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

Samples = dict[tuple[str, ...], float]


def samples(metrics: Metrics) -> Samples:
    """What is measured, by its name and the values of its labels, in the order of the labels' names."""
    families = text_string_to_metric_families(metrics.text().decode())
    found = (sample for family in families for sample in family.samples)
    return {(one.name, *(one.labels[label] for label in sorted(one.labels))): one.value for one in found}


def measured() -> Samples:
    async def main(one: Run) -> Samples:
        closed = open_pool("c", preempts=False, borrows=False, shares=False)
        for thing in (A, B, closed, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2", cpu=8)):
            await one.testbed.create(thing)
        step = Step(
            create=[
                small("f", "b", cpu=8),
                small("g", "b", cpu=2),
                small("large", "a", cpu=100),
                small("waits", "c", cpu=1),
            ],
            on={"f": "n2", "g": "n1"},
            waits={"large": "would not fit", "waits": "pool c"},
        )
        last = Step(create=[small("h", "a", cpu=4, priority=HIGH)], on={"h": "n1"}, gone=["g"])
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock) as manager,
            run_nodes(one.store, one.simulation.clock),
        ):
            for one_step in (step, last):
                await one.testbed.perform(one_step)
                await until(lambda: one.testbed.missing(one_step), "it")  # noqa: B023 - at once
            await asyncio.sleep(10)
            return samples(manager.metrics)

    return simulated(main)


def test_pools_and_queues_and_writes_are_measured() -> None:
    found = measured()
    expected: Samples = {
        ("scheduler_pool_resource_details", "a", "cpu", "capacity"): 4,
        ("scheduler_pool_resource_details", "a", "cpu", "used"): 4,
        ("scheduler_pool_resource_details", "a", "cpu", "pending"): 100,
        ("scheduler_pool_resource_details", "b", "cpu", "allocatable"): 8,
        ("scheduler_pool_resource_details", "b", "cpu", "shared"): 0,
        ("scheduler_pool_features", "borrowing", "c"): 0,
        ("scheduler_pool_features", "sharing", "a"): 1,
        ("scheduler_pool_nodes", "n1", "a"): 1,
        ("scheduler_pool_nodes", "n2", "b"): 1,
        ("scheduler_pool_queue_details", "a", "infeasible"): 1,
        ("scheduler_pool_queue_details", "a", "pods"): 1,
        ("scheduler_verdict_reasons", "NeverFits"): 1,
        ("scheduler_write_duration_seconds_count", "bind", "done"): 3,
        ("scheduler_write_duration_seconds_count", "evict", "done"): 1,
        ("scheduler_placements_total",): 3,
        ("scheduler_evictions_total", "Reclaimed"): 1,
        ("scheduler_decisions_under_way",): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["scheduler_cycle_duration_seconds_count",] >= 2


def test_the_status_of_pools_is_not_written_before_the_first_cycle() -> None:
    names = {name for name, *_ in samples(Metrics())}
    assert not {name for name in names if name.startswith("scheduler_pool")}
