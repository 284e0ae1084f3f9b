"""Simulated nodes on virtual time: long runs, partitions, and random scripts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import CONFIG_MAPS, LEASES, NODES, PODS, Object
from shoal.simulator import (
    ChangeLog,
    Crash,
    CrashedError,
    FaultInjector,
    NodeLoss,
    Schedule,
    SimulatedCluster,
    Simulation,
    WallClock,
    run,
    run_once,
)
from shoal.simulator.kubelet import (
    NODE_LEASE_NAMESPACE,
    LoopClock,
    PodScript,
    ScriptDistribution,
    ScriptSource,
    SimulatedKubelet,
    random_scripts,
    runs_for,
    simulated_kubelet,
)
from tests.simulator.harness import name_of, open_store

DAY = 86_400.0


@asynccontextmanager
async def two_nodes(
    simulation: Simulation, store: SimulatedCluster, script: ScriptSource, heartbeat: float = 10.0
) -> AsyncIterator[SimulatedKubelet]:
    """Run the nodes n1 and n2, with clocks that never jump."""
    steady = WallClock(asyncio.get_running_loop().time, simulation.clock())
    options = ReflectorOptions(rng=simulation.rng("kubelet"))
    nodes = ["n1", "n2"]
    async with simulated_kubelet(
        store, nodes, script=script, clock=LoopClock(steady), heartbeat=heartbeat, reflector_options=options
    ) as kubelet:
        yield kubelet


async def bound(store: SimulatedCluster, name: str, node: str) -> Object:
    spec = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    made = await store.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await store.bind(name, "default", node)
    return made


def phases(store: SimulatedCluster) -> dict[str, str]:
    return {name_of(pod): pod["status"]["phase"] for pod in store.list_now(PODS)}


def renewed(store: SimulatedCluster, node: str) -> str:
    (lease,) = (each for each in store.list_now(LEASES) if name_of(each) == node)
    assert lease["metadata"]["namespace"] == NODE_LEASE_NAMESPACE
    return str(lease["spec"]["renewTime"])


def test_a_pod_runs_for_days() -> None:
    async def main(simulation: Simulation) -> list[dict[str, str]]:
        async with open_store(simulation) as store:
            script = lambda _: runs_for(2 * DAY, start_delay=60)  # noqa: E731
            async with two_nodes(simulation, store, script, heartbeat=600):
                await bound(store, "a", "n1")
                seen = []
                for seconds in (30, DAY, DAY, 60):
                    await asyncio.sleep(seconds)
                    seen.append(phases(store))
                return seen

    assert run(main) == [{"a": "Pending"}, {"a": "Running"}, {"a": "Running"}, {"a": "Succeeded"}]


def test_a_partitioned_node_sends_no_heartcommits_and_its_pods_run_on() -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            open_store(simulation) as store,
            two_nodes(simulation, store, lambda _: runs_for(100)) as kubelet,
        ):
            uid = (await bound(store, "a", "n1"))["metadata"]["uid"]
            await asyncio.sleep(35)
            faults = FaultInjector(Schedule((NodeLoss(at=5, node="n1", seconds=200),)), simulation.clock)
            faults.node_loss_handlers.append(lambda loss: kubelet.partition(loss.node, loss.seconds))
            await asyncio.sleep(6)
            last_renewed, others = renewed(store, "n1"), renewed(store, "n2")
            await asyncio.sleep(30)
            assert kubelet.running_pods() == {"n1": [uid], "n2": []}
            await asyncio.sleep(100)
            assert kubelet.running_pods() == {"n1": [], "n2": []}, "it ended"
            assert phases(store) == {"a": "Running"}, "but this was not reported"
            assert renewed(store, "n1") == last_renewed
            assert renewed(store, "n2") > others
            await asyncio.sleep(100)
            assert phases(store) == {"a": "Succeeded"}, "until the node recovered"
            assert renewed(store, "n1") > last_renewed

    run(main)


def test_a_partitioned_node_handles_missed_changes_when_it_recovers() -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            open_store(simulation) as store,
            two_nodes(simulation, store, lambda _: PodScript()) as kubelet,
        ):
            old = (await bound(store, "again", "n1"))["metadata"]["uid"]
            await bound(store, "deleted", "n1")
            await asyncio.sleep(1)
            kubelet.partition("n1", 60)
            kubelet.partition("n1", 100)
            await store.delete(PODS, "deleted", "default")
            await store.delete(PODS, "again", "default", Deletion(grace=0))
            new = (await bound(store, "again", "n2"))["metadata"]["uid"]
            late = (await bound(store, "late", "n1"))["metadata"]["uid"]
            await bound(store, "never-seen", "n1")
            await store.delete(PODS, "never-seen", "default", Deletion(grace=0))
            await asyncio.sleep(90)
            assert phases(store) == {"again": "Running", "deleted": "Running", "late": "Pending"}
            assert old in kubelet.running_pods()["n1"], "it was recreated elsewhere, and still runs here"
            await asyncio.sleep(20)
            assert phases(store) == {"again": "Running", "late": "Running"}
            assert kubelet.running_pods() == {"n1": [late], "n2": [new]}

    run(main)


def test_an_unknown_node_cannot_be_partitioned() -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            open_store(simulation) as store,
            two_nodes(simulation, store, lambda _: PodScript()) as kubelet,
        ):
            kubelet.partition("n3", 1)

    with pytest.raises(KeyError, match="n3"):
        run(main)


# --- random scripts -------------------------------------------------------------------------------------


def scripts(seed: str, distribution: ScriptDistribution) -> list[PodScript]:
    source = random_scripts(seed, distribution)
    return [source({"metadata": {"uid": str(number)}}) for number in range(2000)]


def test_random_scripts_follow_their_distribution() -> None:
    found = scripts(
        "1", ScriptDistribution(run_time=100, start_delay=4, shutdown=6, failing=0.2, unready=0.1)
    )
    many = len(found)
    assert sum(step.seconds for script in found for step in script.steps) / many == pytest.approx(
        100, rel=0.1
    )
    assert sum(script.start_delay for script in found) / many == pytest.approx(4, rel=0.1)
    assert sum(script.shutdown for script in found) / many == pytest.approx(6, rel=0.1)
    assert sum(script.exit_code for script in found) / many == pytest.approx(0.2, rel=0.2)
    assert sum(len(script.steps) == 3 for script in found) / many == pytest.approx(0.1, rel=0.2)


def test_a_pod_always_gets_the_same_script() -> None:
    assert scripts("1", ScriptDistribution()) == scripts("1", ScriptDistribution())
    assert scripts("1", ScriptDistribution()) != scripts("2", ScriptDistribution())


def test_the_same_seed_gives_the_same_run() -> None:
    async def main(simulation: Simulation) -> bytes:
        async with open_store(simulation) as store:
            change_log = ChangeLog()
            store.commit_observers.append(change_log)
            script = random_scripts(str(simulation.seed))
            async with two_nodes(simulation, store, script, heartbeat=300) as kubelet:
                for number in range(50):
                    await bound(store, f"p{number}", f"n{number % 2 + 1}")
                    await asyncio.sleep(30)
                    if number % 20 == 0:
                        kubelet.partition("n1", 200)
                await asyncio.sleep(DAY)
            return change_log.text()

    assert run(main, seed=1) == run(main, seed=1)
    assert run(main, seed=1) != run(main, seed=2)


def test_a_node_with_an_unknown_condition_becomes_ready_again() -> None:
    async def main(simulation: Simulation) -> list[str]:
        async with open_store(simulation) as store, two_nodes(simulation, store, lambda _: PodScript()):
            unknown = {"type": "Ready", "status": "Unknown"}
            await store.patch_status(NODES, "n1", patch={"status": {"conditions": [unknown]}})
            seen = []
            for _ in range(2):
                node = await store.get(NODES, "n1")
                seen += [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
                await asyncio.sleep(11)
            return seen

    assert run(main) == ["Unknown", "True"]


def test_heartcommits_continue_when_the_clock_is_set_back() -> None:
    async def main(simulation: Simulation) -> None:
        async with open_store(simulation) as store:
            clock, options = LoopClock(simulation.clock), ReflectorOptions(rng=simulation.rng("kubelet"))
            commits: list[float] = []
            async with simulated_kubelet(store, ["n1"], clock=clock, reflector_options=options):
                now = asyncio.get_running_loop().time
                store.commit_observers.append(lambda _: commits.append(now()))
                await asyncio.sleep(25)
                simulation.clock.jump(-3600)
                await asyncio.sleep(20)
            assert commits == [10, 20, 30, 40]

    run(main)


def test_a_partition_does_not_end_with_the_process_that_caused_it() -> None:
    async def main(simulation: Simulation) -> dict[str, str]:
        async with (
            open_store(simulation) as store,
            two_nodes(simulation, store, lambda _: runs_for(50)) as kubelet,
        ):
            loss, crash = NodeLoss(nth=1, node="n1", seconds=10), Crash(at=20)
            faults = FaultInjector(Schedule((loss, crash)), simulation.clock)
            faults.node_loss_handlers.append(lambda loss: kubelet.partition(loss.node, loss.seconds))

            async def program(cluster: Cluster) -> None:
                await cluster.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
                await bound(store, "late", "n1")
                await asyncio.sleep(DAY)

            with contextlib.suppress(CrashedError):
                await run_once(store, faults, program)
            await asyncio.sleep(100)
            return phases(store)

    assert run(main) == {"late": "Succeeded"}
