"""Metrics of controllers: queue depth, durations, results."""

import asyncio

from prometheus_client import CollectorRegistry

from shoal.cluster.object_store import Key
from shoal.cluster.resources import JOBS, PODS
from shoal.controllers.metrics import ControllerMetrics
from shoal.controllers.queue import WorkQueue
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.controllers.harness import registry
from tests.controllers.test_manager import JOB, reflector_options
from tests.controllers.test_queue import BACKOFF, A, B, C, Worker
from tests.controllers.virtual_time import clock, run_virtual
from tests.scheduler.test_metrics import Samples, samples


def metrics_of(keys: list[Key], worker: Worker) -> Samples:
    """Return the metrics of a queue that reconciles one key after the other."""

    async def scenario() -> Samples:
        found = CollectorRegistry()
        queue = WorkQueue("q", worker, max_concurrent=1, backoff=BACKOFF, metrics=ControllerMetrics(found))
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

    return run_virtual(scenario)


def test_queue_and_work_durations_are_measured() -> None:
    found = metrics_of([A, B, A, C], Worker(takes=10))
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


def test_depth_is_the_number_of_queued_keys() -> None:
    assert metrics_of([A, B, C], Worker(takes=100))["workqueue_depth", "q"] == 2


def test_failures_are_measured() -> None:
    found = metrics_of([A], Worker(fails=2, requeue_after=60))
    assert found == found | {
        ("workqueue_retries_total", "q"): 2,
        ("controller_runtime_reconcile_errors_total", "q"): 2,
        ("controller_runtime_reconcile_total", "error", "q"): 2,
        ("controller_runtime_reconcile_total", "q", "requeue_after"): 1,
    }


def test_a_manager_exports_the_metrics_of_its_controllers() -> None:
    async def scenario() -> tuple[Samples, int]:
        async with registry() as store:
            await store.create(JOBS, JOB)
            async with running(
                store, SchedulerConfig(), clock=clock, reflector_options=reflector_options(), native=True
            ) as manager:
                await asyncio.sleep(30)
                return samples(manager.metrics), len((await store.list(PODS)).items)

    found, pods = run_virtual(scenario)
    assert pods == 3
    for name in ("job-controller", "disruption-controller", "node-controller", "pool-controller"):
        assert found["workqueue_depth", name] == 0
    assert found["workqueue_adds_total", "job-controller"] >= 1
    assert found["controller_runtime_reconcile_total", "job-controller", "success"] >= 1
