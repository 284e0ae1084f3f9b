"""The simulated kubelet, on every implementation of the port, with a clock that the tests move."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Literal

import pytest_asyncio

from shoal.cluster.port import Cluster, Deletion, Selector, WatchEvent
from shoal.cluster.resources import LEASES, NODES, PODS, Object
from shoal.simulator.kubelet import (
    NEVER_STARTS,
    NODE_LEASE_NAMESPACE,
    SIGTERM_EXIT_CODE,
    PodScript,
    ScriptSource,
    ScriptStep,
    SimulatedKubelet,
    runs_for,
    simulated_kubelet,
)
from tests.conformance.objects import pod, uid_of, unique, version_of
from tests.conformance.waiting import PATIENCE, Events, exists, until, until_gone
from tests.simulator.kubelet.manual_clock import ManualClock


@pytest_asyncio.fixture(loop_scope="session")
async def node(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a node, which is removed after the test."""
    name = unique("node")
    yield name
    await SimulatedKubelet(cluster, [name], lambda _: PodScript(), ManualClock()).remove_nodes()


def phase(wanted: str) -> Callable[[Object], bool]:
    return lambda seen: seen["status"]["phase"] == wanted


def ready(wanted: Literal["True", "False"]) -> Callable[[Object], bool]:
    def holds(seen: Object) -> bool:
        conditions = seen["status"].get("conditions", ())
        return ("Ready", wanted) in [(each["type"], each["status"]) for each in conditions]

    return holds


async def bound(
    cluster: Cluster, namespace: str, node: str, name: str = "a", restart_policy: str = "Never"
) -> Object:
    made = await cluster.create(PODS, pod(name, namespace, restartPolicy=restart_policy))
    await cluster.bind(name, namespace, node)
    return made


async def deletion(events: Events) -> WatchEvent[Object]:
    """Wait for the DELETED event."""
    async with asyncio.timeout(PATIENCE):
        while (event := await anext(events)).type != "DELETED":
            pass
    return event


SCRIPTS = {"short": runs_for(0), "long": PodScript()}


def always(script: PodScript) -> ScriptSource:
    return lambda _: script


async def test_a_node_is_registered(cluster: Cluster, node: str) -> None:
    clock = ManualClock()
    async with simulated_kubelet(
        cluster, [node], clock=clock, capacity={"cpu": "3"}, labels={"zone": "z"}
    ) as kubelet:
        made = await cluster.get(NODES, node)
        assert made["status"]["allocatable"] == {"cpu": "3"}
        assert made["metadata"]["labels"]["zone"] == "z"
        assert ready("True")(made)
        lease = await cluster.get(LEASES, node, NODE_LEASE_NAMESPACE)
        assert lease["spec"]["holderIdentity"] == node
        clock.advance(10)
        renewed = lease["spec"]["renewTime"]
        await until(
            cluster, LEASES, node, NODE_LEASE_NAMESPACE, holds=lambda its: its["spec"]["renewTime"] > renewed
        )
        await kubelet.set_ready(node, ready=False)
        assert ready("False")(await cluster.get(NODES, node))


async def test_a_pod_runs_and_succeeds(cluster: Cluster, namespace: str, node: str) -> None:
    clock = ManualClock()
    async with simulated_kubelet(cluster, [node], script=always(runs_for(20, start_delay=5)), clock=clock):
        await bound(cluster, namespace, node)
        waiting = await until(cluster, PODS, "a", namespace, holds=lambda seen: "startTime" in seen["status"])
        assert waiting["status"]["phase"] == "Pending"
        clock.advance(5)
        running = await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        assert ready("True")(running)
        assert running["status"]["podIP"].startswith("10.")
        clock.advance(20)
        ended = await until(cluster, PODS, "a", namespace, holds=phase("Succeeded"))
    (container,) = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 0
    assert ended["status"]["podIP"] == running["status"]["podIP"]
    assert {each["type"]: each["status"] for each in ended["status"]["conditions"]}["PodScheduled"] == "True"


async def test_a_pod_fails_with_its_exit_code(cluster: Cluster, namespace: str, node: str) -> None:
    async with simulated_kubelet(
        cluster, [node], script=always(runs_for(0, exit_code=7)), clock=ManualClock()
    ):
        await bound(cluster, namespace, node)
        ended = await until(cluster, PODS, "a", namespace, holds=phase("Failed"))
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


async def test_a_pod_is_not_ready_for_a_while(cluster: Cluster, namespace: str, node: str) -> None:
    clock = ManualClock()
    script = PodScript(steps=(ScriptStep(10), ScriptStep(10, ready=False), ScriptStep()))
    async with simulated_kubelet(cluster, [node], script=always(script), clock=clock):
        await bound(cluster, namespace, node)
        for holds in (ready("True"), ready("False"), ready("True")):
            await until(cluster, PODS, "a", namespace, holds=holds)
            clock.advance(10)


async def test_a_pod_is_restarted(cluster: Cluster, namespace: str, node: str) -> None:
    clock = ManualClock()
    async with simulated_kubelet(cluster, [node], script=always(runs_for(10, exit_code=1)), clock=clock):
        await bound(cluster, namespace, node, restart_policy="OnFailure")
        await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        clock.advance(11)
        await until(
            cluster,
            PODS,
            "a",
            namespace,
            holds=lambda seen: seen["status"]["containerStatuses"][0]["restartCount"] == 1,
        )


async def test_a_deleted_pod_ends_after_its_shutdown(cluster: Cluster, namespace: str, node: str) -> None:
    clock = ManualClock()
    async with simulated_kubelet(
        cluster, [node], script=always(PodScript(shutdown=10)), clock=clock
    ) as kubelet:
        await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        marked = await cluster.delete(PODS, "a", namespace)
        assert marked is not None
        await kubelet.observed(marked)
        clock.advance(9)
        assert await exists(cluster, PODS, "a", namespace)
        where = Selector(namespace=namespace)
        async with cluster.watch(PODS, where, version=version_of(marked)) as events:
            clock.advance(1)
            last = (await deletion(events)).object
    assert last is not None
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == SIGTERM_EXIT_CODE


async def test_a_deleted_pod_ends_within_its_grace_period(
    cluster: Cluster, namespace: str, node: str
) -> None:
    clock = ManualClock()
    async with simulated_kubelet(
        cluster, [node], script=always(PodScript(shutdown=1000)), clock=clock
    ) as kubelet:
        await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        marked = await cluster.delete(PODS, "a", namespace, Deletion(grace=3))
        assert marked is not None
        await kubelet.observed(marked)
        clock.advance(3)
        await until_gone(cluster, PODS, "a", namespace)


async def test_a_pod_that_is_deleted_before_its_start_ends(
    cluster: Cluster, namespace: str, node: str
) -> None:
    async with simulated_kubelet(cluster, [node], script=always(NEVER_STARTS), clock=ManualClock()):
        await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=lambda seen: "startTime" in seen["status"])
        await cluster.delete(PODS, "a", namespace)
        await until_gone(cluster, PODS, "a", namespace)


async def test_a_recreated_pod_runs_again(cluster: Cluster, namespace: str, node: str) -> None:
    async with simulated_kubelet(cluster, [node], clock=ManualClock()):
        first = await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        await cluster.delete(PODS, "a", namespace, Deletion(grace=0))
        second = await bound(cluster, namespace, node)
        running = await until(cluster, PODS, "a", namespace, holds=phase("Running"))
    assert uid_of(first) != uid_of(second)
    assert uid_of(running) == uid_of(second)


async def test_another_kubelet_continues_after_one_stopped(
    cluster: Cluster, namespace: str, node: str
) -> None:
    clock = ManualClock()
    script = always(runs_for(20))
    async with simulated_kubelet(cluster, [node], script=script, clock=clock):
        await bound(cluster, namespace, node)
        before = await until(cluster, PODS, "a", namespace, holds=phase("Running"))
    clock.advance(15)
    async with simulated_kubelet(cluster, [node], script=script, clock=clock):
        clock.advance(5)
        after = await until(cluster, PODS, "a", namespace, holds=phase("Succeeded"))
    for field in ("podIP", "startTime"):
        assert after["status"][field] == before["status"][field]


async def test_finished_and_deleted_pods_are_handled_after_a_restart(
    cluster: Cluster, namespace: str, node: str
) -> None:
    clock = ManualClock()
    async with simulated_kubelet(
        cluster, [node], script=lambda its: SCRIPTS[its["metadata"]["name"]], clock=clock
    ):
        await bound(cluster, namespace, node, "short")
        await bound(cluster, namespace, node, "long")
        ended = await until(cluster, PODS, "short", namespace, holds=phase("Succeeded"))
        await until(cluster, PODS, "long", namespace, holds=phase("Running"))
    await cluster.delete(PODS, "long", namespace)
    async with simulated_kubelet(cluster, [node], clock=clock):
        await until_gone(cluster, PODS, "long", namespace)
        await bound(cluster, namespace, node, "next")
        await until(cluster, PODS, "next", namespace, holds=phase("Running"))
        assert await cluster.get(PODS, "short", namespace) == ended


async def test_pods_have_unique_ips(cluster: Cluster, namespace: str, node: str) -> None:
    clock = ManualClock()
    names = "abcdef"
    async with simulated_kubelet(cluster, [node], clock=clock):
        for name in names[:3]:
            await bound(cluster, namespace, node, name)
            await until(cluster, PODS, name, namespace, holds=phase("Running"))
    async with simulated_kubelet(cluster, [node], clock=clock):
        for name in names[3:]:
            await bound(cluster, namespace, node, name)
            await until(cluster, PODS, name, namespace, holds=phase("Running"))
    found = await cluster.list(PODS, Selector(namespace=namespace))
    assert len({item["status"]["podIP"] for item in found.items}) == 6


async def test_pods_of_other_nodes_are_ignored(cluster: Cluster, namespace: str, node: str) -> None:
    async with simulated_kubelet(cluster, [node], clock=ManualClock()):
        await bound(cluster, namespace, "elsewhere", "other")
        await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=phase("Running"))
        assert (await cluster.get(PODS, "other", namespace))["status"]["phase"] == "Pending"


async def test_the_real_clock(cluster: Cluster, namespace: str, node: str) -> None:
    async with simulated_kubelet(cluster, [node], script=always(runs_for(0.01))):
        await bound(cluster, namespace, node)
        await until(cluster, PODS, "a", namespace, holds=phase("Succeeded"))
