"""Nodes that fall silent: what is said of them, and what becomes of their pods."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from shoal.cluster.port import Cluster, Where
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import EVENTS, JOBS, LEASES, NODES, PODS, Object
from shoal.cluster.times import as_text, moment
from shoal.controllers.changes import Changes, Delete, Patch, PatchStatus
from shoal.controllers.nodes import HeartbeatTracker, NodeView, last_heartbeat, node_controller, reconcile
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.controllers.views import Lease, Meta, Node, Pod, reader
from shoal.kinds.batchjob.reconcile import job_controller
from shoal.simulator import Connection, BreakWatch, FaultInjector, Schedule, SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import LoopClock, simulated_kubelet
from tests.controllers.scenes import at_work, registry
from tests.controllers.virtual import BEGINNING, clock, virtually

PATIENCE = 60.0
UNREACHABLE = "node.kubernetes.io/unreachable"
BOTH = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
OTHER = {"key": "team", "value": "a", "effect": "NoSchedule"}


def ready(status: str, **more: Any) -> Object:  # noqa: ANN401 - as JSON has it
    return {"type": "Ready", "status": status} | more


def node(*conditions: Object, taints: list[Object] | None = None) -> Node:
    raw = {
        "metadata": {"name": "n1", "resourceVersion": "7"},
        "spec": {"taints": taints or []},
        "status": {"conditions": conditions},
    }
    return reader(Node)(msgspec.json.encode(raw))


def pod(name: str, phase: str = "Running", *conditions: Object, **metadata: Any) -> Pod:  # noqa: ANN401 - as JSON has it
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": conditions},
    }
    return reader(Pod)(msgspec.json.encode(raw))


def told(changes: Changes) -> list[str]:
    """The writes, in a few words."""
    return [_told(write) for stage in changes.stages for write in stage]


def _told(write: object) -> str:
    match write:
        case PatchStatus(resource=resource, name=name, patch=patch):
            said = [f"{c['type']}={c['status']}" for c in patch["status"]["conditions"]]
            return f"{resource.kind} {name} says {' '.join(said)}"
        case Patch(resource=resource, name=name, patch=patch):
            taints = [f"{taint['key']}:{taint['effect']}" for taint in patch["spec"]["taints"] or ()]
            return f"{resource.kind} {name} has {' '.join(taints) or 'no taints'}"
        case Delete(name=name, how=how):
            return f"{name} goes in {how.grace}s if it is {how.uid}"
    raise AssertionError(write)


PRESSED = {"type": "DiskPressure", "status": "False"}
OWN = {"type": "Cooling", "status": "True"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}

CASES: dict[str, tuple[NodeView, list[str]]] = {
    "a node that is heard of": (NodeView(node=node(ready("True")), silent=59.0, patience=PATIENCE), []),
    "a node that never gave a sign of life": (
        NodeView(node=node(ready("True")), silent=None, patience=PATIENCE, pods=(pod("a"),)),
        [],
    ),
    "a node that falls silent: first that nobody knows how it is": (
        NodeView(node=node(ready("True"), PRESSED, OWN), silent=60.0, patience=PATIENCE, pods=(pod("a"),)),
        ["Node n1 says Ready=Unknown DiskPressure=Unknown Cooling=True"],
    ),
    "then new pods are kept away": (
        NodeView(
            node=node(ready("Unknown"), taints=[OTHER]), silent=60.0, patience=PATIENCE, pods=(pod("a"),)
        ),
        [f"Node n1 has team:NoSchedule {UNREACHABLE}:NoSchedule {UNREACHABLE}:NoExecute"],
    ),
    "then its pods are given up": (
        NodeView(
            node=node(ready("Unknown"), taints=BOTH),
            silent=60.0,
            patience=PATIENCE,
            pods=(pod("a", "Running", ready("True")), pod("b", "Pending"), pod("c", "Succeeded")),
        ),
        [
            "Pod a says Ready=True DisruptionTarget=True",
            "Pod b says DisruptionTarget=True",
            "a goes in 0s if it is uid-a",
            "b goes in 0s if it is uid-b",
        ],
    ),
    "a pod that was to leave in its own time leaves now": (
        NodeView(
            node=node(ready("Unknown"), taints=BOTH),
            silent=60.0,
            patience=PATIENCE,
            pods=(
                pod(
                    "a",
                    "Running",
                    DISRUPTED,
                    deletionTimestamp=as_text(BEGINNING),
                    deletionGracePeriodSeconds=30,
                ),
                pod(
                    "b",
                    "Running",
                    DISRUPTED,
                    deletionTimestamp=as_text(BEGINNING),
                    deletionGracePeriodSeconds=0,
                ),
            ),
        ),
        ["a goes in 0s if it is uid-a"],
    ),
    "a node that is heard of again, and has not said how it is": (
        NodeView(node=node(ready("Unknown"), taints=BOTH), silent=1.0, patience=PATIENCE),
        [],
    ),
    "a node that says that it is ready again": (
        NodeView(node=node(ready("True"), taints=[*BOTH, OTHER]), silent=1.0, patience=PATIENCE),
        ["Node n1 has team:NoSchedule"],
    ),
    "a node that says that it is unwell": (
        NodeView(node=node(ready("False"), taints=BOTH), silent=1.0, patience=PATIENCE),
        ["Node n1 has no taints"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_done_about_it(name: str) -> None:
    view, expected = CASES[name]
    assert told(reconcile(view, BEGINNING)) == expected


def test_a_node_is_looked_at_again_when_it_would_be_lost() -> None:
    view = NodeView(node=node(ready("True")), silent=20.0, patience=PATIENCE)
    assert reconcile(view, BEGINNING).again == BEGINNING + 40


def test_the_last_sign_of_life_is_the_later_of_heartbeat_and_lease() -> None:
    early, late = moment(BEGINNING), moment(BEGINNING) + timedelta(seconds=10)
    beating = node(ready("True", lastHeartbeatTime=as_text(BEGINNING)))
    raw = {"metadata": {"name": "n1"}, "spec": {"renewTime": "2027-01-15T08:00:10.000000Z"}}
    lease = reader(Lease)(msgspec.json.encode(raw))
    assert last_heartbeat(node(ready("True")), None) is None
    assert last_heartbeat(beating, None) == early
    assert last_heartbeat(beating, lease) == last_heartbeat(node(), lease) == late
    assert last_heartbeat(beating, Lease(metadata=Meta(name="n1"))) == early


def test_silence_is_measured_by_whoever_listens() -> None:
    time = 1000.0
    ears = HeartbeatTracker(lambda: time)
    long_ago, longer_ago = moment(0), moment(-3600)
    assert ears.silence("n1", long_ago) == 0, "it may have been we who were away"
    time = 1030.0
    assert ears.silence("n1", long_ago) == 30
    assert ears.silence("n1", longer_ago) == 0, "its clock may go wrong, but it was heard"
    assert ears.silence("n1", None) is None
    assert ears.silence("n1", longer_ago) == 0


# --- on a registry --------------------------------------------------------------------------------


def nodes(stores: Stores) -> Controller[NodeView]:
    return node_controller(stores, PATIENCE)


class Agent:
    """What a node says of itself, as long as it can."""

    def __init__(self, home: Cluster, *, lease: bool) -> None:
        self.home, self.lease = home, lease
        self.connected = True

    async def join(self) -> None:
        await self.home.create(NODES, {"metadata": {"name": "n1"}})
        if self.lease:
            await self.home.create(
                LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}}
            )
        await self.beat()

    async def beat(self) -> None:
        now = as_text(clock())
        if self.lease:
            renewed = {"spec": {"renewTime": now.replace("Z", ".000000Z")}}
            await self.home.patch(LEASES, "n1", "kube-node-lease", patch=renewed)
        said = (await self.home.get(NODES, "n1"))["status"].get("conditions") or [{}]
        if not self.lease or said[0].get("status") != "True":
            conditions = [ready("True", lastHeartbeatTime=now, lastTransitionTime=now)]
            await self.home.patch_status(NODES, "n1", patch={"status": {"conditions": conditions}})

    async def live(self) -> None:
        await self.join()
        while True:
            await asyncio.sleep(10)
            if self.connected:
                await self.beat()


async def condition(home: Cluster) -> tuple[str, list[str]]:
    found = await home.get(NODES, "n1")
    taints = sorted(taint["effect"] for taint in found["spec"].get("taints") or ())
    return found["status"]["conditions"][0]["status"], taints


LOST = ("Unknown", ["NoExecute", "NoSchedule"])
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}


@pytest.mark.parametrize("lease", [False, True], ids=["by its heartbeat", "by its lease"])
def test_a_node_is_lost_and_found(lease: bool) -> None:  # noqa: FBT001 - a case
    async def scene() -> list[tuple[str, list[str]]]:
        async with registry() as home, at_work(home, [nodes]):
            agent = Agent(home, lease=lease)
            living = asyncio.create_task(agent.live())
            found = []
            for connected, seconds in ((True, 300), (False, 55), (False, 20), (True, 20)):
                agent.connected = connected
                await asyncio.sleep(seconds)
                found.append(await condition(home))
            living.cancel()
            events = (await home.list(EVENTS)).items
            assert [event["reason"] for event in events] == ["NodeLost"]
            return found

    assert virtually(scene) == [("True", []), ("True", []), LOST, ("True", [])]


def test_who_is_deaf_takes_no_node_for_lost() -> None:
    async def main(simulation: Simulation) -> list[tuple[str, list[str]]]:
        cut = BreakWatch(at=5.0, seconds=5 * PATIENCE)
        steady, pace = LoopClock(simulation.clock), ReflectorOptions(rng=simulation.dice("kubelet"))
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            port = Connection(store, FaultInjector(Schedule((cut,)), simulation.clock))
            async with simulated_kubelet(store, ["n1"], clock=steady, pace=pace) as machines, at_work(port, [nodes]):
                await asyncio.sleep(4 * PATIENCE)
                deaf = await condition(store)
                await asyncio.sleep(4 * PATIENCE)
                machines.lose("n1", 4 * PATIENCE)
                await asyncio.sleep(3 * PATIENCE)
                return [deaf, await condition(store)]

    assert run(main) == [("True", []), LOST]


def test_pods_of_a_lost_node_are_made_again_and_do_not_come_back() -> None:
    async def scene() -> tuple[list[str], Object, list[str]]:
        async with registry() as home, at_work(home, [nodes, job_controller]):
            agent = Agent(home, lease=False)
            living = asyncio.create_task(agent.live())
            indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
            await home.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | indexed})
            await asyncio.sleep(5)
            for name in ("j-0", "j-1"):
                await home.bind(name, "default", "n1")
                await home.patch_status(PODS, name, "default", patch={"status": {"phase": "Running"}})
            before = {item["metadata"]["uid"] for item in (await home.list(PODS, Where("default"))).items}
            agent.connected = False
            await asyncio.sleep(100)
            found = (await home.list(PODS, Where("default"))).items
            assert before.isdisjoint(item["metadata"]["uid"] for item in found)
            where = [item["spec"].get("nodeName", "nowhere yet") for item in found]
            agent.connected = True
            await asyncio.sleep(100)
            assert (await home.list(PODS, Where("default"))).items == found, (
                "a node that is back changes nothing"
            )
            living.cancel()
            job = await home.get(JOBS, "j", "default")
            return where, job["status"], sorted(item["metadata"]["name"] for item in found)

    where, status, names = virtually(scene)
    assert where == ["nowhere yet"] * 2
    assert (status["active"], status.get("failed", 0)) == (2, 0)
    assert len(names) == 2


def test_a_restart_gives_every_node_its_time() -> None:
    async def scene() -> list[tuple[str, list[str]]]:
        async with registry() as home:
            agent = Agent(home, lease=False)
            await agent.join()
            await asyncio.sleep(3600)
            found = []
            async with at_work(home, [nodes]):
                for seconds in (50, 20):
                    await asyncio.sleep(seconds)
                    found.append(await condition(home))
            return found

    assert virtually(scene) == [("True", []), LOST]


def test_a_node_made_by_hand_is_left_alone() -> None:
    async def scene() -> Object:
        async with registry() as home, at_work(home, [nodes]):
            made = await home.create(
                NODES, {"metadata": {"name": "n1"}, "status": {"conditions": [ready("True")]}}
            )
            await asyncio.sleep(3600)
            assert await home.get(NODES, "n1") == made
            return made

    assert virtually(scene)["spec"].get("taints") is None
