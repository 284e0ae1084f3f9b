"""What is measured of controllers: how much waits, for how long, and how often it fails."""

import asyncio

from prometheus_client import CollectorRegistry

from shoal.cluster.object_store import Key
from shoal.cluster.resources import JOBS, PODS
from shoal.controllers.metrics import Measures
from shoal.controllers.queue import WorkQueue
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.controllers.scenes import registry
from tests.controllers.test_house import JOB, pace
from tests.controllers.test_queue import SURE, A, B, C, Worker
from tests.controllers.virtual import clock, virtually
from tests.scheduler.test_metrics import Samples, samples


def measured(keys: list[Key], worker: Worker) -> Samples:
    """What is measured of a queue that works on one key after the other, at the end of the work."""

    async def scene() -> Samples:
        found = CollectorRegistry()
        queue = WorkQueue("q", worker, at_once=1, patience=SURE, measures=Measures(found))
        for key in keys:
            queue.add(key)
        queue.start()
        await asyncio.sleep(25)
        queue.abort()
        return {
            (one.name, *sorted(one.labels.values())): one.value
            for metric in found.collect()
            for one in metric.samples
            if not one.name.endswith(("_created", "_bucket"))
        }

    return virtually(scene)


def test_waiting_and_working_are_measured() -> None:
    found = measured([A, B, A, C], Worker(takes=10))
    assert found == found | {
        ("workqueue_adds_total", "q"): 3,
        ("workqueue_depth", "q"): 0,
        ("workqueue_queue_duration_seconds_count", "q"): 3,
        ("workqueue_queue_duration_seconds_sum", "q"): 0 + 10 + 20,
        ("workqueue_work_duration_seconds_count", "q"): 2,
        ("workqueue_work_duration_seconds_sum", "q"): 20,
        ("controller_runtime_reconcile_total", "q", "success"): 2,
        ("workqueue_retries_total", "q"): 0,
    }


def test_who_waits_is_counted() -> None:
    assert measured([A, B, C], Worker(takes=100))["workqueue_depth", "q"] == 2


def test_failures_are_measured() -> None:
    found = measured([A], Worker(fails=2, again=60))
    assert found == found | {
        ("workqueue_retries_total", "q"): 2,
        ("controller_runtime_reconcile_errors_total", "q"): 2,
        ("controller_runtime_reconcile_total", "error", "q"): 2,
        ("controller_runtime_reconcile_total", "q", "requeue_after"): 1,
    }


def test_a_manager_tells_of_its_controllers() -> None:
    async def scene() -> tuple[Samples, int]:
        async with registry() as home:
            await home.create(JOBS, JOB)
            async with running(home, SchedulerConfig(), clock=clock, pace=pace(), native=True) as manager:
                await asyncio.sleep(30)
                return samples(manager.metrics), len((await home.list(PODS)).items)

    found, pods = virtually(scene)
    assert pods == 3
    for name in ("job-controller", "disruption-controller", "node-controller", "pool-controller"):
        assert found["workqueue_depth", name] == 0
    assert found["workqueue_adds_total", "job-controller"] >= 1
    assert found["controller_runtime_reconcile_total", "job-controller", "success"] >= 1
