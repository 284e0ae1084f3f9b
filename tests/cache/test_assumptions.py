"""Assumptions: they count at once and end with an event that answers them, never with an older one."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.conditions import FINISHED_PHASES
from shoal.cache.assumptions import Assumption
from shoal.cache.world import World
from tests.builders import Object, namespace, node, pod, template, tyjob
from tests.incremental import NOW, IncrementalWorld, identity, snapshot_data, view
from tests.worlds import World as Drawn
from tests.worlds import worlds

KEY = ("default", "p")
JOB = ("default", "a")
SMALL = template(cpu=1)
NODES = [node("n1"), node("n2")]


def known(one: Object, uid: str = "u1") -> Object:
    return one | {"metadata": one["metadata"] | {"uid": uid}}


PENDING = known(pod("p", cpu=1))
BOUND = known(pod("p", cpu=1, node="n1"))
STARTING = known(pod("p", cpu=1, node="n1", phase="Pending"))
LEAVING = known(pod("p", cpu=1, node="n1", terminating=True))


def job(**status: object) -> Object:
    return known(tyjob("a", leader=SMALL, workers={"w": (1, SMALL)}, status=status or None))


def bind(world: World) -> Assumption | None:
    return world.assume_bound(KEY, "n1")


def evict(world: World) -> Assumption | None:
    return world.assume_leaving(KEY)


def allocate(world: World) -> Assumption | None:
    return world.assume_status("TYJob", JOB, allocations={"a-leader": "n1"})


@dataclass(frozen=True)
class Case:
    """An initial object, a decision, the events after it, and the expected object in the snapshot.

    The events have the versions 11, 12 and so on; None is a deletion. `open` is the expected number of open
    assumptions. `written` is the version of the write, if it is known before the events.
    """

    first: Object
    decide: Callable[[World], Assumption | None]
    events: list[Object | None] = field(default_factory=list)
    expected: Object | None = None
    open: int = 0
    written: int | None = None


ALLOCATED = job(allocations={"a-leader": "n1"})
CASES = {
    "an assumed binding counts before the watch confirms it": Case(PENDING, bind, [], STARTING, open=1),
    "an older event does not undo an assumed binding": Case(
        PENDING,
        bind,
        [known(pod("p", cpu=1, labels={"app": "x"}))],
        known(pod("p", cpu=1, labels={"app": "x"}, node="n1", phase="Pending")),
        open=1,
    ),
    "an assumed binding ends the nomination": Case(
        known(pod("p", cpu=1, nominated="n2")),
        bind,
        [],
        known(pod("p", cpu=1, node="n1", phase="Pending")),
        open=1,
    ),
    "an event with the node confirms a binding": Case(PENDING, bind, [BOUND], BOUND),
    "an event with another node replaces a binding": Case(
        PENDING, bind, [known(pod("p", cpu=1, node="n2"))], known(pod("p", cpu=1, node="n2"))
    ),
    "a recreated pod is not bound": Case(
        PENDING, bind, [known(pod("p", cpu=1), "u2")], known(pod("p", cpu=1), "u2")
    ),
    "an unbound pod that is terminating is not bound": Case(
        PENDING, bind, [known(pod("p", cpu=1, terminating=True))], known(pod("p", cpu=1, terminating=True))
    ),
    "a deletion ends a binding": Case(PENDING, bind, [None]),
    "a pod recreated after a deletion is not bound": Case(
        PENDING, bind, [None, known(pod("p", cpu=1), "u2")], known(pod("p", cpu=1), "u2")
    ),
    "an assumed eviction counts before the watch confirms it": Case(BOUND, evict, [], LEAVING, open=1),
    "an older event does not undo an assumed eviction": Case(BOUND, evict, [BOUND], LEAVING, open=1),
    "an event with a deletionTimestamp confirms an eviction": Case(BOUND, evict, [LEAVING], LEAVING),
    "a pod that ends before it is evicted is not": Case(
        BOUND,
        evict,
        [known(pod("p", cpu=1, node="n1", phase="Succeeded"))],
        known(pod("p", cpu=1, node="n1", phase="Succeeded")),
    ),
    "a recreated pod is not evicted": Case(
        BOUND, evict, [known(pod("p", cpu=1, node="n1"), "u2")], known(pod("p", cpu=1, node="n1"), "u2")
    ),
    "an assumed status counts before the watch confirms it": Case(job(), allocate, [], ALLOCATED, open=1),
    "an event does not confirm a status whose written version is unknown": Case(
        job(), allocate, [job()], ALLOCATED, open=1
    ),
    "an event older than the write does not undo it": Case(
        job(), allocate, [job()], ALLOCATED, open=1, written=12
    ),
    "the event of the write confirms it": Case(job(), allocate, [job(), ALLOCATED], ALLOCATED, written=12),
    "an event newer than the write replaces the assumed status": Case(
        job(), allocate, [job(), job(), job(stage="Running")], job(stage="Running"), written=12
    ),
    "a recreated job has no allocations": Case(
        job(), allocate, [known(job(), "u2")], known(job(), "u2"), written=99
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_assumption_holds_until_it_is_answered(case: Case) -> None:
    incremental = IncrementalWorld.of([*NODES, case.first])
    made = case.decide(incremental.world)
    assert made is not None
    if case.written is not None:
        incremental.world.written(made, case.written)
    for version, event in enumerate(case.events, 11):
        deliver(incremental, case.first, event, version)
    incremental.objects.pop(identity(case.first), None)
    if case.expected is not None:
        incremental.objects[identity(case.expected)] = case.expected
    incremental.check()
    assert incremental.world.assumed == case.open


def deliver(incremental: IncrementalWorld, first: Object, event: Object | None, version: int) -> None:
    if event is None:
        incremental.remove(identity(first))
    else:
        incremental.world.put(view(event), version=version)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_forgotten_assumption_has_no_effect(case: Case) -> None:
    incremental = IncrementalWorld.of([*NODES, case.first])
    made = case.decide(incremental.world)
    assert made is not None
    for version, event in enumerate(case.events, 11):
        deliver(incremental, case.first, event, version)
        incremental.objects |= {identity(event): event} if event else {}
    incremental.world.forget(made)
    incremental.check()
    assert incremental.world.assumed == 0


def test_the_version_of_a_write_may_be_known_after_its_event() -> None:
    incremental = IncrementalWorld.of([*NODES, job()])
    made = allocate(incremental.world)
    assert made is not None
    incremental.put(ALLOCATED)
    incremental.world.put(view(job(stage="Running")), version=13)
    incremental.world.written(made, 12)
    incremental.objects[identity(job())] = job(stage="Running")
    incremental.check()


def test_two_decisions_about_one_pod_end_one_by_one() -> None:
    incremental = IncrementalWorld.of([*NODES, PENDING])
    bound, leaving = bind(incremental.world), evict(incremental.world)
    assert bound is not None
    assert leaving is not None
    assert incremental.world.assumed == 2
    incremental.put(BOUND)
    assert incremental.world.assumed == 1
    assert incremental.world.pods[KEY].leaving
    incremental.world.forget(leaving)
    incremental.check()


def test_nothing_is_assumed_of_absent_objects() -> None:
    world = World(NOW)
    assert [bind(world), evict(world), allocate(world)] == [None, None, None]
    assert world.assumed == 0


def test_a_pod_follows_namespace_labels_after_its_assumption_is_forgotten() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    incremental = IncrementalWorld.of([*NODES, known(pod("p", spec={"affinity": apart}))])
    made = bind(incremental.world)
    assert made is not None
    incremental.put(namespace("team", labels={"team": "a"}))
    incremental.world.forget(made)
    incremental.check()


@settings(max_examples=40)
@given(worlds(), st.data())
def test_confirmed_or_forgotten_assumptions_have_no_effect(drawn: Drawn, data: st.DataObject) -> None:
    """Bind pods and evict others; confirm or forget each decision, in any order."""
    incremental = IncrementalWorld.of(drawn.objects, drawn.config)
    before = snapshot_data(incremental.build().snapshot)
    pods = [one for one in drawn.objects if one["kind"] == "Pod"]
    made = []
    for one in data.draw(st.permutations(pods)):
        assumption, incremental.objects[identity(one)] = decided(incremental.world, one)
        made.append((one, assumption))
    incremental.check()
    for one, assumption in data.draw(st.permutations(made)):
        if assumption and data.draw(st.booleans()):
            incremental.world.forget(assumption)
        else:
            incremental.put(incremental.objects[identity(one)])
        incremental.put(one)
    assert incremental.world.assumed == 0
    assert snapshot_data(incremental.check()) == before


def decided(world: World, one: Object) -> tuple[Assumption | None, Object]:
    """Bind a pending pod or evict a running one; return the assumption and the changed pod."""
    after, (_, key) = deepcopy(one), identity(one)
    if one["status"].get("phase") in FINISHED_PHASES:
        return None, after
    if one["spec"].get("nodeName"):
        after["metadata"]["deletionTimestamp"] = "2024-05-01T00:00:00Z"
        return world.assume_leaving(key), after
    after["spec"]["nodeName"] = "n1"
    after["status"].pop("nominatedNodeName", None)
    return world.assume_bound(key, "n1"), after
