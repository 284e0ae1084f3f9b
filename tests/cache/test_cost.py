"""The cost of incremental snapshots, counted in rebuilt parts, not in seconds."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from shoal.cache.node_table import Occupancy
from shoal.cache.workload_builder import WorkloadBuilder
from shoal.cache.workload_index import WorkloadIndex
from shoal.engine.nodes import Nodes
from tests.builders import (
    Object,
    batch_job,
    budget,
    namespace,
    node,
    open_pool,
    owner,
    pod,
    pod_of,
    priority_class,
    template,
    tyjob,
)
from tests.incremental import NOW, IncrementalWorld, identity

SMALL = template(cpu=1)


class Counts(Counter[str]):
    """Number of rebuilt parts of each type."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Counts built specs and workloads, nodes whose sums are computed, and layouts of all nodes."""
    counts = Counts()
    _count(monkeypatch, WorkloadBuilder, "build", lambda _: counts.update(workloads=1))
    _count(monkeypatch, WorkloadIndex, "_spec_of", lambda _: counts.update(specs=1))
    _count(monkeypatch, Occupancy, "update", lambda columns: counts.update(nodes=len(columns)))
    _count(monkeypatch, Nodes, "__init__", lambda _: counts.update(layouts=1))
    return counts


def _count(monkeypatch: pytest.MonkeyPatch, where: type, name: str, note: Callable[[Any], None]) -> None:
    """Call `note` with the last argument but one at every call of a method."""
    method = getattr(where, name)

    def counted(*arguments: Any) -> Any:  # noqa: ANN401 - of any method
        note(arguments[-2])
        return method(*arguments)

    monkeypatch.setattr(where, name, counted)


def with_heartbeat(one: Object, minute: int, status: str = "True") -> Object:
    made = deepcopy(one)
    beat = f"2024-05-01T00:{minute:02}:00Z"
    made["status"]["conditions"] = [{"type": "Ready", "status": status, "lastHeartbeatTime": beat}]
    return made


def with_conditions(one: Object) -> Object:
    """A pod with a changed status field that the cache does not read."""
    made = deepcopy(one)
    made["status"]["conditions"] = [{"type": "ContainersReady", "status": "True"}]
    return made


NODES = [with_heartbeat(node(f"n{i}"), 0) for i in range(20)]
PODS = [pod(f"p{i}", cpu=1, node=f"n{i % 20}") for i in range(60)]
JOB_PODS = [pod_of(f"j-w-{i}", SMALL, of=owner("TYJob", "j"), node="n0") for i in range(5)]
OBJECTS = [
    *NODES,
    *PODS,
    *JOB_PODS,
    tyjob("j", leader=SMALL, workers={"w": (5, SMALL)}),
    batch_job("b", SMALL, parallelism=2),
    open_pool("a"),
    namespace("default"),
    priority_class("c", 1),
    budget("g", selector={"app": "x"}, min_available=1),
]

COSTS: dict[str, tuple[list[Object], Counts]] = {
    "nothing changes": ([], Counts()),
    "all objects are reported again unchanged": (OBJECTS, Counts()),
    "a node sends a heartbeat": ([with_heartbeat(NODES[3], 5)], Counts()),
    "a field of pods changes that the cache does not read": ([*map(with_conditions, PODS)], Counts()),
    "a node becomes not ready": ([with_heartbeat(NODES[3], 5, "False")], Counts(nodes=1)),
    "nodes are cordoned": ([node("n3", unschedulable=True), node("n4", unschedulable=True)], Counts(nodes=2)),
    "a node is added": ([node("n99")], Counts(nodes=21, layouts=1)),
    "a pod ends": ([pod("p7", cpu=1, node="n7", phase="Succeeded")], Counts(nodes=1, specs=1)),
    "a pod is added": ([pod("new", cpu=1)], Counts(specs=1, workloads=1)),
    "two pods of a job are deleted": (
        [pod_of(f"j-w-{i}", SMALL, of=owner("TYJob", "j"), node="n0", terminating=True) for i in range(2)],
        Counts(nodes=1, specs=3, workloads=1),
    ),
    "a pod of another scheduler is added": (
        [pod("new", cpu=1, node="n1", scheduler="other")],
        Counts(nodes=1, specs=1),
    ),
    "a namespace without pods is added": ([namespace("empty")], Counts()),
    "a budget changes": ([budget("g", selector={"app": "x"}, min_available=2)], Counts()),
}


@pytest.mark.parametrize("changed, cost", COSTS.values(), ids=COSTS.keys())
def test_a_snapshot_costs_what_has_changed(changed: list[Object], cost: Counts, made: Counts) -> None:
    incremental = IncrementalWorld.of(OBJECTS)
    made.clear()
    incremental.put(*changed)
    incremental.build(NOW + 1)
    assert {what: number for what, number in made.items() if number} == cost


def test_a_silent_node_costs_its_pods_when_it_is_lost(made: Counts) -> None:
    silent = deepcopy(NODES[3])
    silent["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2024-05-01T01:00:00Z"}
    ]
    incremental = IncrementalWorld.of([*OBJECTS, silent])
    made.clear()
    incremental.build(NOW + 60)
    assert not +made
    incremental.build(NOW + 61)
    assert made == Counts(nodes=1, specs=3)


def test_unreferenced_parts_are_freed() -> None:
    incremental = IncrementalWorld.of(
        [*NODES, pod("p", cpu=3), tyjob("j", leader=template(cpu=2), workers={"w": (1, SMALL)})]
    )
    tasks = [task for workload in incremental.build().snapshot.workloads for task in workload.tasks]
    watched = [weakref.ref(part) for task in tasks for part in (task.shape, task.identity, task.shape.nodes)]
    assert len(watched) == 9
    del tasks
    incremental.remove(identity(pod("p")), ("TYJob", ("default", "j")))
    incremental.build()
    gc.collect()
    assert [one() for one in watched if one() is not None] == []
