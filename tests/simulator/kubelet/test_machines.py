"""Machines on virtual time: lives of days, nodes that fall silent and come back, and lives by dice."""

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
    run_once,
    run,
)
from shoal.simulator.kubelet import (
    LEASES_LIVE_IN,
    ScriptDistribution,
    SimulatedKubelet,
    PodScript,
    LoopClock,
    ScriptSource,
    random_scripts,
    simulated_kubelet,
    runs_for,
)
from tests.simulator.scenes import name_of, opened

DAY = 86_400.0


@asynccontextmanager
async def playing(
    simulation: Simulation, store: SimulatedCluster, script: ScriptSource, heartbeat: float = 10.0
) -> AsyncIterator[SimulatedKubelet]:
    """Nodes n1 and n2, with clocks that never jump."""
    steady = WallClock(asyncio.get_running_loop().time, simulation.clock())
    pace = ReflectorOptions(rng=simulation.dice("kubelet"))
    nodes = ["n1", "n2"]
    async with simulated_kubelet(
        store, nodes, script=script, clock=LoopClock(steady), heartbeat=heartbeat, pace=pace
    ) as machines:
        yield machines


async def bound(store: SimulatedCluster, name: str, node: str) -> Object:
    spec = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    made = await store.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await store.bind(name, "default", node)
    return made


def phases(store: SimulatedCluster) -> dict[str, str]:
    return {name_of(pod): pod["status"]["phase"] for pod in store.all(PODS)}


def renewed(store: SimulatedCluster, node: str) -> str:
    (lease,) = (each for each in store.all(LEASES) if name_of(each) == node)
    assert lease["metadata"]["namespace"] == LEASES_LIVE_IN
    return str(lease["spec"]["renewTime"])


def test_a_pod_lives_for_days() -> None:
    async def main(simulation: Simulation) -> list[dict[str, str]]:
        async with opened(simulation) as store:
            script = lambda _: runs_for(2 * DAY, creating=60)  # noqa: E731
            async with playing(simulation, store, script, heartbeat=600):
                await bound(store, "a", "n1")
                seen = []
                for seconds in (30, DAY, DAY, 60):
                    await asyncio.sleep(seconds)
                    seen.append(phases(store))
                return seen

    assert run(main) == [{"a": "Pending"}, {"a": "Running"}, {"a": "Running"}, {"a": "Succeeded"}]


def test_a_lost_node_is_silent_and_its_pods_live_on() -> None:
    async def main(simulation: Simulation) -> None:
        async with (
            opened(simulation) as store,
            playing(simulation, store, lambda _: runs_for(100)) as machines,
        ):
            uid = (await bound(store, "a", "n1"))["metadata"]["uid"]
            await asyncio.sleep(35)
            faults = FaultInjector(Schedule((NodeLoss(at=5, node="n1", seconds=200),)), simulation.clock)
            faults.lost_nodes.append(lambda loss: machines.lose(loss.node, loss.seconds))
            await asyncio.sleep(6)
            silent_since, others = renewed(store, "n1"), renewed(store, "n2")
            await asyncio.sleep(30)
            assert machines.running() == {"n1": [uid], "n2": []}
            await asyncio.sleep(100)
            assert machines.running() == {"n1": [], "n2": []}, "it ended"
            assert phases(store) == {"a": "Running"}, "but nobody was told"
            assert renewed(store, "n1") == silent_since
            assert renewed(store, "n2") > others
            await asyncio.sleep(100)
            assert phases(store) == {"a": "Succeeded"}, "until the node came back"
            assert renewed(store, "n1") > silent_since

    run(main)


def test_what_a_lost_node_misses_it_hears_when_it_is_back() -> None:
    async def main(simulation: Simulation) -> None:
        async with opened(simulation) as store, playing(simulation, store, lambda _: PodScript()) as machines:
            old = (await bound(store, "again", "n1"))["metadata"]["uid"]
            await bound(store, "deleted", "n1")
            await asyncio.sleep(1)
            machines.lose("n1", 60)
            machines.lose("n1", 100)
            await store.delete(PODS, "deleted", "default")
            await store.delete(PODS, "again", "default", Deletion(grace=0))
            new = (await bound(store, "again", "n2"))["metadata"]["uid"]
            late = (await bound(store, "late", "n1"))["metadata"]["uid"]
            await bound(store, "never-seen", "n1")
            await store.delete(PODS, "never-seen", "default", Deletion(grace=0))
            await asyncio.sleep(90)
            assert phases(store) == {"again": "Running", "deleted": "Running", "late": "Pending"}
            assert old in machines.running()["n1"], "it was made again elsewhere, and still runs here"
            await asyncio.sleep(20)
            assert phases(store) == {"again": "Running", "late": "Running"}
            assert machines.running() == {"n1": [late], "n2": [new]}

    run(main)


def test_who_is_not_there_cannot_be_lost() -> None:
    async def main(simulation: Simulation) -> None:
        async with opened(simulation) as store, playing(simulation, store, lambda _: PodScript()) as machines:
            machines.lose("n3", 1)

    with pytest.raises(KeyError, match="n3"):
        run(main)


# --- lives by dice ----------------------------------------------------------------------------------------


def lives(seed: str, habits: ScriptDistribution) -> list[PodScript]:
    script = random_scripts(seed, habits)
    return [script({"metadata": {"uid": str(number)}}) for number in range(2000)]


def test_lives_are_as_usual_on_the_whole() -> None:
    found = lives("1", ScriptDistribution(running=100, creating=4, dying=6, failing=0.2, stumbling=0.1))
    many = len(found)
    assert sum(step.seconds for life in found for step in life.steps) / many == pytest.approx(100, rel=0.1)
    assert sum(life.creating for life in found) / many == pytest.approx(4, rel=0.1)
    assert sum(life.dying for life in found) / many == pytest.approx(6, rel=0.1)
    assert sum(life.exit_code for life in found) / many == pytest.approx(0.2, rel=0.2)
    assert sum(len(life.steps) == 3 for life in found) / many == pytest.approx(0.1, rel=0.2)


def test_a_pod_has_the_same_life_whenever_it_is_asked_about() -> None:
    assert lives("1", ScriptDistribution()) == lives("1", ScriptDistribution())
    assert lives("1", ScriptDistribution()) != lives("2", ScriptDistribution())


def test_the_same_seed_gives_the_same_days() -> None:
    async def main(simulation: Simulation) -> bytes:
        async with opened(simulation) as store:
            chronicle = ChangeLog()
            store.witnesses.append(chronicle)
            script = random_scripts(str(simulation.seed))
            async with playing(simulation, store, script, heartbeat=300) as machines:
                for number in range(50):
                    await bound(store, f"p{number}", f"n{number % 2 + 1}")
                    await asyncio.sleep(30)
                    if number % 20 == 0:
                        machines.lose("n1", 200)
                await asyncio.sleep(DAY)
            return chronicle.text()

    assert run(main, seed=1) == run(main, seed=1)
    assert run(main, seed=1) != run(main, seed=2)


def test_a_node_that_is_taken_for_lost_contradicts() -> None:
    async def main(simulation: Simulation) -> list[str]:
        async with opened(simulation) as store, playing(simulation, store, lambda _: PodScript()):
            doubt = {"type": "Ready", "status": "Unknown"}
            await store.patch_status(NODES, "n1", patch={"status": {"conditions": [doubt]}})
            said = []
            for _ in range(2):
                node = await store.get(NODES, "n1")
                said += [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
                await asyncio.sleep(11)
            return said

    assert run(main) == ["Unknown", "True"]


def test_a_clock_that_is_set_back_keeps_no_node_silent() -> None:
    async def main(simulation: Simulation) -> None:
        async with opened(simulation) as store:
            clock, pace = LoopClock(simulation.clock), ReflectorOptions(rng=simulation.dice("kubelet"))
            beats: list[float] = []
            async with simulated_kubelet(store, ["n1"], clock=clock, pace=pace):
                now = asyncio.get_running_loop().time
                store.witnesses.append(lambda _: beats.append(now()))
                await asyncio.sleep(25)
                simulation.clock.jump(-3600)
                await asyncio.sleep(20)
            assert beats == [10, 20, 30, 40]

    run(main)


def test_a_node_that_comes_back_outlives_the_process_that_was_hit() -> None:
    async def main(simulation: Simulation) -> dict[str, str]:
        async with (
            opened(simulation) as store,
            playing(simulation, store, lambda _: runs_for(50)) as machines,
        ):
            loss, crash = NodeLoss(nth=1, node="n1", seconds=10), Crash(at=20)
            faults = FaultInjector(Schedule((loss, crash)), simulation.clock)
            faults.lost_nodes.append(lambda loss: machines.lose(loss.node, loss.seconds))

            async def program(cluster: Cluster) -> None:
                await cluster.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
                await bound(store, "late", "n1")
                await asyncio.sleep(DAY)

            with contextlib.suppress(CrashedError):
                await run_once(store, faults, program)
            await asyncio.sleep(100)
            return phases(store)

    assert run(main) == {"late": "Succeeded"}
