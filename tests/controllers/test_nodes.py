"""Lost nodes: their conditions and taints, and what happens to their pods."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from shoal.api.managed import Lease, ManagedMeta, ManagedNode, ManagedPod
from shoal.api.names import TRACKING_FINALIZER
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import EVENTS, JOBS, LEASES, NODES, PODS, Object
from shoal.cluster.times import format_time, to_datetime
from shoal.controllers.changes import Changes, Delete, Patch, PatchStatus
from shoal.controllers.nodes import (
    HeartbeatTracker,
    NodeView,
    last_heartbeat,
    node_controller,
    reconcile,
    reconcile_in_kubernetes,
    unknown_since,
)
from shoal.controllers.resources import reader
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.kinds.batchjob.controller import job_controller
from shoal.simulator import BreakWatch, Connection, FaultInjector, Schedule, SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import LoopClock, simulated_kubelet
from tests.controllers.harness import Make, registry, run_runtime
from tests.controllers.virtual_time import START_TIME, clock, run_virtual

LOST_AFTER = 60.0
UNREACHABLE = "node.kubernetes.io/unreachable"
BOTH = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
OTHER = {"key": "team", "value": "a", "effect": "NoSchedule"}


def ready(status: str, **more: Any) -> Object:  # noqa: ANN401 - as JSON has it
    return {"type": "Ready", "status": status} | more


def node(*conditions: Object, taints: list[Object] | None = None) -> ManagedNode:
    raw = {
        "metadata": {"name": "n1", "resourceVersion": "7"},
        "spec": {"taints": taints or []},
        "status": {"conditions": conditions},
    }
    return reader(ManagedNode)(msgspec.json.encode(raw))


def pod(name: str, phase: str = "Running", *conditions: Object, **metadata: Any) -> ManagedPod:  # noqa: ANN401 - as JSON has it
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": conditions},
    }
    return reader(ManagedPod)(msgspec.json.encode(raw))


def describe(changes: Changes) -> list[str]:
    """The writes, in short."""
    return [_describe(write) for stage in changes.stages for write in stage]


def _describe(write: object) -> str:
    match write:
        case PatchStatus(resource=resource, name=name, patch=patch):
            conditions = [f"{c['type']}={c['status']}" for c in patch["status"]["conditions"]]
            return f"{resource.kind} {name} has {' '.join(conditions)}"
        case Patch(resource=resource, name=name, patch=patch, version=version) if not patch:
            return f"if {resource.kind} {name} still has version {version}"
        case Patch(resource=resource, name=name, patch=patch):
            taints = [f"{taint['key']}:{taint['effect']}" for taint in patch["spec"]["taints"] or ()]
            return f"{resource.kind} {name} has {' '.join(taints) or 'no taints'}"
        case Delete(name=name, deletion=deletion):
            return f"{name} is deleted in {deletion.grace}s if its uid is {deletion.uid}"
    raise AssertionError(write)


PRESSED = {"type": "DiskPressure", "status": "False"}
OWN = {"type": "Cooling", "status": "True"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}

CASES: dict[str, tuple[NodeView, list[str]]] = {
    "a node with a recent heartbeat": (
        NodeView(node=node(ready("True")), silent_for=59.0, lost_after=LOST_AFTER),
        [],
    ),
    "a node that never sent a heartbeat": (
        NodeView(node=node(ready("True")), silent_for=None, lost_after=LOST_AFTER, pods=(pod("a"),)),
        [],
    ),
    "a lost node: first its conditions become Unknown": (
        NodeView(
            node=node(ready("True"), PRESSED, OWN), silent_for=60.0, lost_after=LOST_AFTER, pods=(pod("a"),)
        ),
        ["Node n1 has Ready=Unknown DiskPressure=Unknown Cooling=True"],
    ),
    "then it gets taints": (
        NodeView(
            node=node(ready("Unknown"), taints=[OTHER]),
            silent_for=60.0,
            lost_after=LOST_AFTER,
            pods=(pod("a"),),
        ),
        [f"Node n1 has team:NoSchedule {UNREACHABLE}:NoSchedule {UNREACHABLE}:NoExecute"],
    ),
    "then its pods are deleted": (
        NodeView(
            node=node(ready("Unknown"), taints=BOTH),
            silent_for=60.0,
            lost_after=LOST_AFTER,
            pods=(pod("a", "Running", ready("True")), pod("b", "Pending"), pod("c", "Succeeded")),
        ),
        [
            "Pod a has Ready=True DisruptionTarget=True",
            "Pod b has DisruptionTarget=True",
            "a is deleted in 0s if its uid is uid-a",
            "b is deleted in 0s if its uid is uid-b",
        ],
    ),
    "a terminating pod is deleted without a grace period": (
        NodeView(
            node=node(ready("Unknown"), taints=BOTH),
            silent_for=60.0,
            lost_after=LOST_AFTER,
            pods=(
                pod(
                    "a",
                    "Running",
                    DISRUPTED,
                    deletionTimestamp=format_time(START_TIME),
                    deletionGracePeriodSeconds=30,
                ),
                pod(
                    "b",
                    "Running",
                    DISRUPTED,
                    deletionTimestamp=format_time(START_TIME),
                    deletionGracePeriodSeconds=0,
                ),
            ),
        ),
        ["a is deleted in 0s if its uid is uid-a"],
    ),
    "a node with a heartbeat and without a Ready status": (
        NodeView(node=node(ready("Unknown"), taints=BOTH), silent_for=1.0, lost_after=LOST_AFTER),
        [],
    ),
    "a node that reports itself ready again": (
        NodeView(node=node(ready("True"), taints=[*BOTH, OTHER]), silent_for=1.0, lost_after=LOST_AFTER),
        ["Node n1 has team:NoSchedule"],
    ),
    "a node that reports itself not ready": (
        NodeView(node=node(ready("False"), taints=BOTH), silent_for=1.0, lost_after=LOST_AFTER),
        ["Node n1 has no taints"],
    ),
    "a node that has just been deleted": (
        NodeView(node=None, silent_for=59.0, lost_after=LOST_AFTER, pods=(pod("a"),)),
        [],
    ),
    "a node that is gone": (
        NodeView(node=None, silent_for=60.0, lost_after=LOST_AFTER, pods=(pod("a"), pod("b", "Failed"))),
        ["Pod a has DisruptionTarget=True", "a is deleted in 0s if its uid is uid-a"],
    ),
}

CASES_IN_KUBERNETES: dict[str, tuple[NodeView, list[str]]] = {
    "a node that is not silent": (
        NodeView(node=node(ready("False")), silent_for=None, lost_after=LOST_AFTER, pods=(pod("a"),)),
        [],
    ),
    "a node that is silent, but not for long enough": (
        NodeView(node=node(ready("Unknown")), silent_for=59.0, lost_after=LOST_AFTER, pods=(pod("a"),)),
        [],
    ),
    "a lost node: neither conditions nor taints are written": (
        NodeView(node=node(ready("Unknown"), PRESSED), silent_for=60.0, lost_after=LOST_AFTER),
        [],
    ),
    "the pods of a lost node": (
        NodeView(
            node=node(ready("Unknown")),
            silent_for=60.0,
            lost_after=LOST_AFTER,
            pods=(pod("a", "Running", DISRUPTED), pod("b"), pod("c", "Succeeded")),
        ),
        [
            "if Node n1 still has version 7",
            "Pod b has DisruptionTarget=True",
            "a is deleted in 0s if its uid is uid-a",
            "b is deleted in 0s if its uid is uid-b",
        ],
    ),
    "the pods of a node that is gone": (
        NodeView(node=None, silent_for=60.0, lost_after=LOST_AFTER, pods=(pod("a"),)),
        ["Pod a has DisruptionTarget=True", "a is deleted in 0s if its uid is uid-a"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reconcile(name: str) -> None:
    view, expected = CASES[name]
    assert describe(reconcile(view, START_TIME)) == expected


@pytest.mark.parametrize("name", CASES_IN_KUBERNETES)
def test_reconcile_in_kubernetes(name: str) -> None:
    view, expected = CASES_IN_KUBERNETES[name]
    changes = reconcile_in_kubernetes(view, START_TIME)
    assert describe(changes) == expected
    assert changes.requeue_at == (START_TIME + 1 if view.silent_for == 59.0 else None)


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_node_is_silent_in_kubernetes_while_it_is_unknown(status: str) -> None:
    found = unknown_since(node(PRESSED, ready(status, lastTransitionTime=format_time(START_TIME))))
    assert found == (to_datetime(START_TIME) if status == "Unknown" else None)
    assert unknown_since(node()) is None


def test_a_node_is_reconciled_again_when_it_would_be_lost() -> None:
    view = NodeView(node=node(ready("True")), silent_for=20.0, lost_after=LOST_AFTER)
    assert reconcile(view, START_TIME).requeue_at == START_TIME + 40


def test_the_last_heartbeat_is_the_later_of_condition_and_lease() -> None:
    early, late = to_datetime(START_TIME), to_datetime(START_TIME) + timedelta(seconds=10)
    reporting = node(ready("True", lastHeartbeatTime=format_time(START_TIME)))
    raw = {"metadata": {"name": "n1"}, "spec": {"renewTime": "2027-01-15T08:00:10.000000Z"}}
    lease = reader(Lease)(msgspec.json.encode(raw))
    assert last_heartbeat(node(ready("True")), None) is None
    assert last_heartbeat(reporting, None) == early
    assert last_heartbeat(reporting, lease) == last_heartbeat(node(), lease) == late
    assert last_heartbeat(reporting, Lease(metadata=ManagedMeta(name="n1"))) == early


def test_the_time_without_a_heartbeat_is_measured_by_the_observer() -> None:
    time = 1000.0
    heartbeats = HeartbeatTracker(lambda: time)
    long_ago, longer_ago = to_datetime(0), to_datetime(-3600)
    assert heartbeats.silent_for("n1", long_ago) == 0, "this process may just have started"
    time = 1030.0
    assert heartbeats.silent_for("n1", long_ago) == 30
    assert heartbeats.silent_for("n1", longer_ago) == 0, (
        "the clock of the node may jump, but it sent a heartbeat"
    )
    assert heartbeats.silent_for("n1", None) is None
    assert heartbeats.silent_for("n1", longer_ago) == 0


# --- on a registry --------------------------------------------------------------------------------


def nodes(stores: Stores) -> Controller[NodeView]:
    return node_controller(stores, LOST_AFTER)


class HeartbeatSender:
    """Sends the heartbeats of a node, while it is connected."""

    def __init__(self, store: Cluster, *, lease: bool) -> None:
        self.store, self.lease = store, lease
        self.connected = True

    async def join(self) -> None:
        await self.store.create(NODES, {"metadata": {"name": "n1"}})
        if self.lease:
            await self.store.create(
                LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}}
            )
        await self.send()

    async def send(self) -> None:
        now = format_time(clock())
        if self.lease:
            renewed = {"spec": {"renewTime": now.replace("Z", ".000000Z")}}
            await self.store.patch(LEASES, "n1", "kube-node-lease", patch=renewed)
        current = (await self.store.get(NODES, "n1"))["status"].get("conditions") or [{}]
        if not self.lease or current[0].get("status") != "True":
            conditions = [ready("True", lastHeartbeatTime=now, lastTransitionTime=now)]
            await self.store.patch_status(NODES, "n1", patch={"status": {"conditions": conditions}})

    async def run(self) -> None:
        await self.join()
        while True:
            await asyncio.sleep(10)
            if self.connected:
                await self.send()


async def node_state(store: Cluster) -> tuple[str, list[str]]:
    found = await store.get(NODES, "n1")
    taints = sorted(taint["effect"] for taint in found["spec"].get("taints") or ())
    return found["status"]["conditions"][0]["status"], taints


def nodes_in_kubernetes(stores: Stores) -> Controller[NodeView]:
    return node_controller(stores, LOST_AFTER, native=False)


LOST = ("Unknown", ["NoExecute", "NoSchedule"])
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}


@pytest.mark.parametrize("lease", [False, True], ids=["by its heartbeat", "by its lease"])
def test_a_node_is_lost_and_recovers(lease: bool) -> None:  # noqa: FBT001 - a case
    async def scenario() -> list[tuple[str, list[str]]]:
        async with registry() as store, run_runtime(store, [nodes]):
            sender = HeartbeatSender(store, lease=lease)
            sending = asyncio.create_task(sender.run())
            found = []
            for connected, seconds in ((True, 300), (False, 55), (False, 20), (True, 20)):
                sender.connected = connected
                await asyncio.sleep(seconds)
                found.append(await node_state(store))
            sending.cancel()
            events = (await store.list(EVENTS)).items
            assert [event["reason"] for event in events] == ["NodeLost"]
            return found

    assert run_virtual(scenario) == [("True", []), ("True", []), LOST, ("True", [])]


def test_a_partitioned_controller_takes_no_node_for_lost() -> None:
    async def main(simulation: Simulation) -> list[tuple[str, list[str]]]:
        cut = BreakWatch(at=5.0, seconds=5 * LOST_AFTER)
        loop_clock, options = LoopClock(simulation.clock), ReflectorOptions(rng=simulation.rng("kubelet"))
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            port = Connection(store, FaultInjector(Schedule((cut,)), simulation.clock))
            async with (
                simulated_kubelet(store, ["n1"], clock=loop_clock, reflector_options=options) as kubelet,
                run_runtime(port, [nodes]),
            ):
                await asyncio.sleep(4 * LOST_AFTER)
                partitioned = await node_state(store)
                await asyncio.sleep(4 * LOST_AFTER)
                kubelet.partition("n1", 4 * LOST_AFTER)
                await asyncio.sleep(3 * LOST_AFTER)
                return [partitioned, await node_state(store)]

    assert run(main) == [("True", []), LOST]


def test_pods_of_a_lost_node_are_recreated_and_do_not_come_back() -> None:
    async def scenario() -> tuple[list[str], Object, list[str]]:
        async with registry() as store, run_runtime(store, [nodes, job_controller]):
            sender = HeartbeatSender(store, lease=False)
            sending = asyncio.create_task(sender.run())
            indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
            await store.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | indexed})
            await asyncio.sleep(5)
            for name in ("j-0", "j-1"):
                await store.bind(name, "default", "n1")
                await store.patch_status(PODS, name, "default", patch={"status": {"phase": "Running"}})
            before = {item["metadata"]["uid"] for item in (await store.list(PODS, Selector("default"))).items}
            sender.connected = False
            await asyncio.sleep(100)
            found = (await store.list(PODS, Selector("default"))).items
            assert before.isdisjoint(item["metadata"]["uid"] for item in found)
            where = [item["spec"].get("nodeName", "unscheduled") for item in found]
            sender.connected = True
            await asyncio.sleep(100)
            assert (await store.list(PODS, Selector("default"))).items == found, (
                "a node that comes back changes nothing"
            )
            sending.cancel()
            job = await store.get(JOBS, "j", "default")
            return where, job["status"], sorted(item["metadata"]["name"] for item in found)

    where, status, names = run_virtual(scenario)
    assert where == ["unscheduled"] * 2
    assert (status["active"], status.get("failed", 0)) == (2, 0)
    assert len(names) == 2


def test_after_a_restart_each_node_has_the_full_time() -> None:
    async def scenario() -> list[tuple[str, list[str]]]:
        async with registry() as store:
            sender = HeartbeatSender(store, lease=False)
            await sender.join()
            await asyncio.sleep(3600)
            found = []
            async with run_runtime(store, [nodes]):
                for seconds in (50, 20):
                    await asyncio.sleep(seconds)
                    found.append(await node_state(store))
            return found

    assert run_virtual(scenario) == [("True", []), LOST]


def test_a_node_without_a_kubelet_is_ignored() -> None:
    async def scenario() -> Object:
        async with registry() as store, run_runtime(store, [nodes]):
            made = await store.create(
                NODES, {"metadata": {"name": "n1"}, "status": {"conditions": [ready("True")]}}
            )
            await asyncio.sleep(3600)
            assert await store.get(NODES, "n1") == made
            return made

    assert run_virtual(scenario)["spec"].get("taints") is None


def tracked(name: str, *finalizers: str) -> Object:
    return {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": TEMPLATE["spec"]}


async def create_bound(store: Cluster, *pods: Object) -> None:
    for body in pods:
        made = await store.create(PODS, body)
        await store.bind(made["metadata"]["name"], "default", "n1")
        await store.patch_status(
            PODS, made["metadata"]["name"], "default", patch={"status": {"phase": "Running"}}
        )


async def deletions(store: Cluster) -> dict[str, tuple[int | None, bool]]:
    """The grace period in which each pod is being deleted, and whether it was disrupted."""
    found = (await store.list(PODS, Selector("default"))).items
    return {
        pod["metadata"]["name"]: (
            pod["metadata"].get("deletionGracePeriodSeconds"),
            any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ())),
        )
        for pod in found
    }


def test_in_kubernetes_tracked_pods_of_unknown_nodes_are_deleted() -> None:
    async def scenario() -> list[dict[str, tuple[int | None, bool]]]:
        async with registry() as store, run_runtime(store, [nodes_in_kubernetes]):
            await HeartbeatSender(store, lease=False).join()
            await create_bound(store, tracked("ours", TRACKING_FINALIZER), tracked("other", "example.com/x"))
            found = []
            for status, seconds in (("True", 600), ("Unknown", 50), ("True", 50), ("Unknown", 50), ("", 20)):
                if status:
                    conditions = [ready(status, lastTransitionTime=format_time(clock()))]
                    await store.patch_status(NODES, "n1", patch={"status": {"conditions": conditions}})
                await asyncio.sleep(seconds)
                found.append(await deletions(store))
            assert await node_state(store) == ("Unknown", [])
            return found

    unchanged = {"ours": (None, False), "other": (None, False)}
    assert run_virtual(scenario) == [*[unchanged] * 4, {"ours": (0, True), "other": (None, False)}]


@pytest.mark.parametrize("make", [nodes, nodes_in_kubernetes], ids=["embedded", "kubernetes"])
def test_pods_of_a_deleted_node_are_deleted(make: Make) -> None:
    async def scenario() -> list[dict[str, tuple[int | None, bool]]]:
        async with registry() as store, run_runtime(store, [make]):
            await HeartbeatSender(store, lease=False).join()
            await create_bound(store, tracked("ours", TRACKING_FINALIZER))
            await store.delete(NODES, "n1")
            found = []
            for seconds in (50, 20):
                await asyncio.sleep(seconds)
                found.append(await deletions(store))
            return found

    assert run_virtual(scenario) == [{"ours": (None, False)}, {"ours": (0, True)}]


def test_in_kubernetes_a_partitioned_controller_deletes_nothing() -> None:
    """Its view of the node is stale: the node has come back meanwhile."""

    async def main(simulation: Simulation) -> dict[str, tuple[int | None, bool]]:
        cut = BreakWatch(at=30.0, seconds=5 * LOST_AFTER)
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            port = Connection(store, FaultInjector(Schedule((cut,)), simulation.clock))
            await HeartbeatSender(store, lease=False).join()
            await create_bound(store, tracked("ours", TRACKING_FINALIZER))
            async with run_runtime(port, [nodes_in_kubernetes]):
                for status in ("Unknown", "True"):
                    conditions = [ready(status, lastTransitionTime=format_time(simulation.clock()))]
                    await store.patch_status(NODES, "n1", patch={"status": {"conditions": conditions}})
                    await asyncio.sleep(40)
                await asyncio.sleep(3 * LOST_AFTER)
                return await deletions(store)

    assert run(main) == {"ours": (None, False)}
