"""Ten thousand pods that cannot be placed in one pool: another pool does not notice."""

import asyncio

from shoal.cluster.resources import PODS
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import open_pool
from tests.scheduler.cases import in_pool, small
from tests.scheduler.scenes import told, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, no_node_has_too_much, simulated

CROWD = 10_000


def test_many_waiting_pods_do_not_delay_other_pools() -> None:
    async def main(one: Run) -> None:
        one.store.commit_observers.clear()

        async def unserved(name: str) -> list[str]:
            """Nothing, if a pod has a node or was told why not."""
            pod = await one.store.get(PODS, name, one.stage.namespace)
            return [] if pod["spec"].get("nodeName") or told(pod) else [name]

        closed = open_pool("a", borrows=False, shares=False)
        for thing in (closed, open_pool("b"), in_pool("a", "n1", cpu=1), in_pool("b", "n2")):
            await one.stage.create(thing)
        for number in range(CROWD):
            await one.stage.create(small(f"c{number}", "a", cpu=2))
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock) as manager,
            run_nodes(one.store, one.simulation.clock),
        ):
            await manager.ready()
            await asyncio.sleep(1)
            cycles = manager.scheduler.cycles
            await one.stage.create(small("b1", "b"))
            await until(lambda: unserved("b1"), "the other pool is served")
            assert manager.scheduler.cycles <= cycles + 3, "it is served in the first cycle that sees it"
            waiting = [pod for pod in one.store.list_now(PODS) if not told(pod)]
            assert len(waiting) > CROWD / 2, "although most of the crowd has not even been told yet"
            await one.stage.create(small("b2", "b", cpu=100))
            await until(lambda: unserved("b2"), "and is told in its turn")
            assert len([pod for pod in one.store.list_now(PODS) if not told(pod)]) > CROWD / 2
        no_node_has_too_much(one.store, ())

    simulated(main)
