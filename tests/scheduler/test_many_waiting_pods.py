"""Ten thousand pods that wait in one pool do not delay the pods of another pool."""

import asyncio

from shoal.cluster.resources import PODS
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import open_pool
from tests.scheduler.cases import in_pool, small
from tests.scheduler.scenarios import until, waiting_reason
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, check_no_overcommit, simulated

MANY = 10_000


def test_many_waiting_pods_do_not_delay_other_pools() -> None:
    async def main(one: Run) -> None:
        one.store.commit_observers.clear()

        async def unserved(name: str) -> list[str]:
            """The name of a pod that has neither a node nor a reason."""
            pod = await one.store.get(PODS, name, one.testbed.namespace)
            return [] if pod["spec"].get("nodeName") or waiting_reason(pod) else [name]

        closed = open_pool("a", borrows=False, shares=False)
        for thing in (closed, open_pool("b"), in_pool("a", "n1", cpu=1), in_pool("b", "n2")):
            await one.testbed.create(thing)
        for number in range(MANY):
            await one.testbed.create(small(f"c{number}", "a", cpu=2))
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock) as manager,
            run_nodes(one.store, one.simulation.clock),
        ):
            await manager.ready()
            await asyncio.sleep(1)
            cycles = manager.scheduler.cycles
            await one.testbed.create(small("b1", "b"))
            await until(lambda: unserved("b1"), "the other pool is served")
            assert manager.scheduler.cycles <= cycles + 3, "it is served in the first cycle that sees it"
            waiting = [pod for pod in one.store.list_now(PODS) if not waiting_reason(pod)]
            assert len(waiting) > MANY / 2, "most waiting pods have no reason yet"
            await one.testbed.create(small("b2", "b", cpu=100))
            await until(lambda: unserved("b2"), "its reason is written in turn")
            assert len([pod for pod in one.store.list_now(PODS) if not waiting_reason(pod)]) > MANY / 2
        check_no_overcommit(one.store, ())

    simulated(main)
