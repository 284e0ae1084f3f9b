"""What was decided counts at once and ends with an answer, never with news that are older than itself."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
class Course:
    """What is there, what is decided, what is told after that, and as what it is seen in the end.

    What is told comes with versions 11, 12 and so on; None is told of as gone. `written` is the version
    of the write, known before anything is told.
    """

    first: Object
    decide: Callable[[World], Assumption | None]
    told: list[Object | None] = field(default_factory=list)
    seen: Object | None = None
    open: int = 0
    written: int | None = None


ALLOCATED = job(allocations={"a-leader": "n1"})
COURSES = {
    "an assumed binding counts before the watch confirms it": Course(PENDING, bind, [], STARTING, open=1),
    "an older event does not undo an assumed binding": Course(
        PENDING,
        bind,
        [known(pod("p", cpu=1, labels={"app": "x"}))],
        known(pod("p", cpu=1, labels={"app": "x"}, node="n1", phase="Pending")),
        open=1,
    ),
    "an assumed binding ends the nomination": Course(
        known(pod("p", cpu=1, nominated="n2")),
        bind,
        [],
        known(pod("p", cpu=1, node="n1", phase="Pending")),
        open=1,
    ),
    "an event with the node confirms a binding": Course(PENDING, bind, [BOUND], BOUND),
    "an event with another node replaces a binding": Course(
        PENDING, bind, [known(pod("p", cpu=1, node="n2"))], known(pod("p", cpu=1, node="n2"))
    ),
    "a recreated pod is not bound": Course(
        PENDING, bind, [known(pod("p", cpu=1), "u2")], known(pod("p", cpu=1), "u2")
    ),
    "an unbound pod that is terminating is not bound": Course(
        PENDING, bind, [known(pod("p", cpu=1, terminating=True))], known(pod("p", cpu=1, terminating=True))
    ),
    "a deletion ends a binding": Course(PENDING, bind, [None]),
    "a pod recreated after a deletion is not bound": Course(
        PENDING, bind, [None, known(pod("p", cpu=1), "u2")], known(pod("p", cpu=1), "u2")
    ),
    "an assumed eviction counts before the watch confirms it": Course(BOUND, evict, [], LEAVING, open=1),
    "an older event does not undo an assumed eviction": Course(BOUND, evict, [BOUND], LEAVING, open=1),
    "an event with a deletionTimestamp confirms an eviction": Course(BOUND, evict, [LEAVING], LEAVING),
    "a recreated pod is not evicted": Course(
        BOUND, evict, [known(pod("p", cpu=1, node="n1"), "u2")], known(pod("p", cpu=1, node="n1"), "u2")
    ),
    "an assumed status counts before the watch confirms it": Course(job(), allocate, [], ALLOCATED, open=1),
    "an event does not confirm a status whose written version is unknown": Course(
        job(), allocate, [job()], ALLOCATED, open=1
    ),
    "an event older than the write does not undo it": Course(
        job(), allocate, [job()], ALLOCATED, open=1, written=12
    ),
    "the event of the write confirms it": Course(job(), allocate, [job(), ALLOCATED], ALLOCATED, written=12),
    "an event newer than the write replaces the assumed status": Course(
        job(), allocate, [job(), job(), job(stage="Running")], job(stage="Running"), written=12
    ),
    "a recreated job has no allocations": Course(
        job(), allocate, [known(job(), "u2")], known(job(), "u2"), written=99
    ),
}


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES.keys())
def test_an_assumption_holds_until_it_is_answered(course: Course) -> None:
    incremental = IncrementalWorld.of([*NODES, course.first])
    made = course.decide(incremental.world)
    assert made is not None
    if course.written is not None:
        incremental.world.written(made, course.written)
    for version, told in enumerate(course.told, 11):
        tell(incremental, course.first, told, version)
    incremental.objects.pop(identity(course.first), None)
    if course.seen is not None:
        incremental.objects[identity(course.seen)] = course.seen
    incremental.check()
    assert incremental.world.assumed == course.open


def tell(incremental: IncrementalWorld, first: Object, told: Object | None, version: int) -> None:
    if told is None:
        incremental.remove(identity(first))
    else:
        incremental.world.put(view(told), version=version)


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES.keys())
def test_what_is_forgotten_has_never_been(course: Course) -> None:
    incremental = IncrementalWorld.of([*NODES, course.first])
    made = course.decide(incremental.world)
    assert made is not None
    for version, told in enumerate(course.told, 11):
        tell(incremental, course.first, told, version)
        incremental.objects |= {identity(told): told} if told else {}
    incremental.world.forget(made)
    incremental.check()
    assert incremental.world.assumed == 0


def test_the_version_of_a_write_may_come_after_the_news_of_it() -> None:
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


def test_nothing_is_assumed_of_what_is_not_there() -> None:
    world = World(NOW)
    assert [bind(world), evict(world), allocate(world)] == [None, None, None]
    assert world.assumed == 0


def test_a_pod_that_is_forgotten_knows_what_namespaces_are_called_by_now() -> None:
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
def test_decisions_that_are_told_of_leave_no_trace(drawn: Drawn, data: st.DataObject) -> None:
    """Bind pods and send others away; tell of all of it, or forget it, in any order."""
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
    """Bind a pod that waits, or send away one that runs; and the pod as it then is."""
    after, (_, key) = deepcopy(one), identity(one)
    if one["spec"].get("nodeName"):
        after["metadata"]["deletionTimestamp"] = "2024-05-01T00:00:00Z"
        return world.assume_leaving(key), after
    after["spec"]["nodeName"] = "n1"
    after["status"].pop("nominatedNodeName", None)
    return world.assume_bound(key, "n1"), after
