"""Single changes of a world: the snapshot follows each change, and its reversal."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from tests.builders import (
    POOL,
    Object,
    batch_job,
    budget,
    dijob,
    namespace,
    node,
    open_pool,
    owner,
    pod,
    pod_of,
    priority_class,
    resources,
    template,
    trainingjob,
    tyjob,
)
from tests.incremental import NOW, Identity, IncrementalWorld, identity, snapshot_data

SMALL = template(cpu=1)
SILENT = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2024-05-01T00:59:30Z"}


@dataclass(frozen=True)
class Change:
    """Initial objects, the objects that are then put and removed, and the seconds until the next snapshot."""

    objects: list[Object]
    put: list[Object] = field(default_factory=list)
    remove: list[Identity] = field(default_factory=list)
    later: float = 0


def silent(name: str) -> Object:
    made = node(name)
    made["status"]["conditions"] = [SILENT]
    return made


def with_metadata(one: Object, **metadata: object) -> Object:
    """An object with other metadata."""
    return one | {"metadata": one["metadata"] | metadata}


def with_leader(name: str, job: Object) -> Object:
    """A TYJob with another name for its leader."""
    return job | {"spec": job["spec"] | {"leader": {"name": name, "template": SMALL}}}


def pod_with_anti_affinity(name: str, **where: str) -> Object:
    """A pod with anti-affinity to pods of namespaces with the label team=a."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, cpu=1, spec={"affinity": apart}, **where)  # type: ignore[arg-type]


def job_with_anti_affinity(name: str) -> Object:
    return tyjob(name, leader=SMALL, workers={"w": (1, {"spec": pod_with_anti_affinity("x")["spec"]})})


def limited(name: str, where: str) -> Object:
    made = pod(name, cpu=1, node=where)
    made["spec"]["containers"][0]["resources"]["limits"] = resources(2)
    return made


NODES = [node("n1"), node("n2")]
RUNNING = [pod("r1", cpu=4, node="n1"), pod("r2", cpu=2, node="n2")]
TRAINERS = trainingjob("t", trainer=resources(1), trainers=(1, 4))
JOB_POD = pod_of("a-leader", SMALL, of=owner("TYJob", "a"), node="n1")
NO_SCHEDULER = template(cpu=1, spec={"schedulerName": ""})
OWNER = owner("TYJob", "a") | {"uid": "one"}
JOB = tyjob("a", leader=SMALL, workers={"w": (2, SMALL)})
LEAVING = pod_of("a-leader", SMALL, of=owner("TYJob", "a"), node="n1", terminating=True)
ALLOCATED = tyjob("a", leader=SMALL, workers={"w": (1, SMALL)}, status={"allocations": {"a-leader": "n1"}})

CHANGES = {
    "a node is added before all other columns": Change(
        [*NODES, *RUNNING, ALLOCATED, pod("q", nominated="n2")], put=[node("n0")]
    ),
    "a node is added that a nomination names": Change([*NODES, pod("q", nominated="n0")], put=[node("n0")]),
    "a lost node is added that a nomination names": Change(
        [*NODES, pod("q", nominated="n0")], put=[silent("n0")], later=3600
    ),
    "a node is removed that a nomination names": Change(
        [*NODES, *RUNNING, pod("q", nominated="n1")], remove=[("Node", ("", "n1"))]
    ),
    "a node is added for an elastic job": Change(
        [*NODES, TRAINERS, pod_of("t-trainer-0", SMALL, of=owner("TrainingJob", "t"), node="n2")],
        put=[node("n0")],
    ),
    "a pod is added before its node": Change([NODES[0], RUNNING[1]], put=[NODES[1]]),
    "a node is removed before its pods": Change([*NODES, *RUNNING], remove=[("Node", ("", "n1"))]),
    "a node becomes silent, but is not lost yet": Change([*NODES, *RUNNING], put=[silent("n1")], later=20),
    "a silent node is lost after a while": Change([*NODES, *RUNNING], put=[silent("n1")], later=3600),
    "time alone loses a node": Change([silent("n1"), NODES[1], *RUNNING], later=3600),
    "a silent node voids an allocation without a pod": Change([*NODES, ALLOCATED], put=[silent("n1")]),
    "an allocated node is cordoned": Change([*NODES, ALLOCATED], put=[node("n1", unschedulable=True)]),
    "an allocated node is removed": Change([*NODES, ALLOCATED], remove=[("Node", ("", "n1"))]),
    "the node of a retained room is cordoned": Change(
        [*NODES, ALLOCATED, LEAVING, pod("p", cpu=9)], put=[node("n1", unschedulable=True)]
    ),
    "a retained room is given up": Change([*NODES, ALLOCATED, LEAVING, pod("p", cpu=9)], put=[JOB]),
    "a job with a retained room is removed": Change(
        [*NODES, ALLOCATED, LEAVING, pod("p", cpu=9)], remove=[("TYJob", ("default", "a"))]
    ),
    "a node is cordoned": Change([*NODES, pod("p", cpu=9)], put=[node("n1", unschedulable=True)]),
    "a node is labelled": Change(
        [*NODES, pod("p", spec={"nodeSelector": {"zone": "a"}})], put=[node("n2", labels={"zone": "a"})]
    ),
    "a node's allocatable grows": Change([*NODES, pod("p", cpu=20)], put=[node("n2", cpu=30)]),
    "a node adds a new resource": Change(NODES, put=[node("n1", more={"example.com/fpga": 1})]),
    "a node with pods that count for the load becomes not ready": Change(
        [*NODES, limited("r1", "n1"), TRAINERS], put=[node("n1", ready="False")]
    ),
    "a pool selects a node": Change(
        [node("n1", labels={"pool": "a"}), NODES[1], *RUNNING, pod("p", pool="a")], put=[open_pool("a")]
    ),
    "a pool stops sharing": Change(
        [node("n1", labels={"pool": "a"}), NODES[1], open_pool("a"), pod("p", cpu=11)],
        put=[open_pool("a", shares=False)],
    ),
    "a node changes its pool": Change(
        [*NODES, *RUNNING, open_pool("a")], put=[node("n1", labels={"pool": "a"})]
    ),
    "a job is added after its pods": Change([*NODES, JOB_POD], put=[JOB]),
    "a job is deleted before its pods": Change([*NODES, JOB_POD, JOB], remove=[("TYJob", ("default", "a"))]),
    "a job is deleted and recreated": Change(
        [*NODES, with_metadata(JOB_POD, ownerReferences=[OWNER]), with_metadata(JOB, uid="one")],
        put=[with_metadata(JOB, uid="another")],
    ),
    "a pod that names no scheduler is not managed until its job exists": Change(
        [*NODES, pod_of("a-leader", NO_SCHEDULER, of=owner("TYJob", "a"), node="n1")], put=[JOB]
    ),
    "a pod joins a gang": Change(
        [*NODES, pod("g1", cpu=6, gang="g"), pod("g2", cpu=6, gang="g")], put=[pod("g3", cpu=6, gang="g")]
    ),
    "a pod leaves its gang": Change(
        [*NODES, pod("g1", cpu=9, gang="g"), pod("g2", cpu=20, gang="g")], put=[pod("g2", cpu=20)]
    ),
    "a pod is bound": Change([*NODES, pod("p", cpu=1)], put=[pod("p", cpu=1, node="n2")]),
    "a pod is evicted": Change([*NODES, *RUNNING], put=[pod("r1", cpu=4, node="n1", terminating=True)]),
    "a pod ends": Change([*NODES, *RUNNING], put=[pod("r1", cpu=4, node="n1", phase="Succeeded")]),
    "a pod is deleted": Change([*NODES, *RUNNING], remove=[("Pod", ("default", "r1"))]),
    "a pod requests a resource that no node has": Change(
        NODES, put=[pod("p", spec={"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]})]
    ),
    "a job requests a resource that no node has": Change(NODES, put=[dijob("d", template(gpu=1))]),
    "a job's name for a pod is taken by another pod": Change([*NODES, JOB], put=[pod("a-w-1")]),
    "two jobs claim one pod name: the older gets it": Change(
        [*NODES, tyjob("a", leader=SMALL, workers={"b-c": (1, SMALL)}, created="2024-05-01T00:30:00Z")],
        put=[tyjob("a-b", leader=SMALL, workers={"c": (1, SMALL)}, created="2024-05-01T00:10:00Z")],
    ),
    "of three jobs that claim each other's pod names the first is deleted": Change(
        [
            *NODES,
            tyjob("a-b", leader=SMALL, workers={"c": (2, SMALL)}, created="2024-05-01T00:10:00Z"),
            tyjob("a", leader=SMALL, workers={"b-c": (1, SMALL)}, created="2024-05-01T00:20:00Z"),
            dijob("a-b-c", SMALL, replicas=(1, 1), created="2024-05-01T00:30:00Z"),
        ],
        remove=[("TYJob", ("default", "a-b"))],
    ),
    "an elastic job cannot grow by the name of an existing pod": Change(
        [*NODES, TRAINERS], put=[pod("t-trainer-2", node="n1")]
    ),
    "an elastic job cannot grow by a name that another job claims": Change(
        [*NODES, TRAINERS],
        put=[with_leader("2", tyjob("t-trainer", leader=SMALL, workers={"w": (1, SMALL)}))],
    ),
    "a batch Job skips names of existing pods": Change(
        [*NODES, batch_job("b", SMALL, parallelism=2, completions=2, indexed=True)], put=[pod("b-1")]
    ),
    "batch Jobs skip names that others claim": Change(
        [*NODES, batch_job("b-0", SMALL, parallelism=1), pod("b-0")],
        put=[batch_job("b", SMALL, parallelism=1, completions=1, indexed=True)],
    ),
    "a pod of a batch Job has failed, and its name is free": Change(
        [*NODES, batch_job("b", SMALL, parallelism=1), pod("b-0", owner=owner("Job", "b"), node="n1")],
        put=[pod("b-0", owner=owner("Job", "b"), node="n1", phase="Failed")],
    ),
    "a batch Job gets a pool annotation after its pods exist": Change(
        [
            node("n1", labels={"pool": "a"}),
            open_pool("a"),
            batch_job("b", SMALL),
            pod("b-0", owner=owner("Job", "b")),
        ],
        put=[with_metadata(batch_job("b", SMALL), annotations={POOL: "a"})],
    ),
    "a batch Job loses its pool annotation": Change(
        [
            node("n1", labels={"pool": "a"}),
            open_pool("a"),
            with_metadata(batch_job("b", SMALL), annotations={POOL: "a"}),
            pod("b-0", owner=owner("Job", "b")),
        ],
        put=[batch_job("b", SMALL)],
    ),
    "a PriorityClass changes its value": Change(
        [node("n1", cpu=1), priority_class("c", 1), pod("p", cpu=1, priority="c"), pod("q", cpu=1)],
        put=[priority_class("c", -1)],
    ),
    "a PriorityClass becomes the default": Change(
        [*NODES, pod("p", cpu=1), priority_class("c", 5)], put=[priority_class("c", 5, default=True)]
    ),
    "a PriorityClass gets preemptionPolicy Never": Change(
        [*NODES, pod("p", cpu=1, priority="c"), priority_class("c", 5)],
        put=[priority_class("c", 5, never=True)],
    ),
    "a namespace gets a pool annotation": Change(
        [node("n1", labels={"pool": "a"}), open_pool("a"), pod("p", cpu=1), namespace("default")],
        put=[namespace("default", pool="a")],
    ),
    "a namespace is allowed into a pool by its labels": Change(
        [
            node("n1", labels={"pool": "a"}),
            open_pool("a") | {"spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}}},
            pod("p", cpu=1, pool="a"),
        ],
        put=[namespace("default", labels={"team": "a"})],
    ),
    "an affinity term follows the labels of the namespaces that it selects": Change(
        [
            NODES[0],
            pod("x", namespace="team", node="n1", labels={"app": "x"}),
            namespace("team"),
            pod_with_anti_affinity("p"),
        ],
        put=[namespace("team", labels={"team": "a"})],
    ),
    "an affinity term of a bound pod follows namespace labels": Change(
        [NODES[0], pod_with_anti_affinity("p", node="n1"), pod("x", namespace="team", labels={"app": "x"})],
        put=[namespace("team", labels={"team": "a"})],
    ),
    "affinity terms of templates follow namespace labels": Change(
        [NODES[0], pod("x", namespace="team", node="n1", labels={"app": "x"}), job_with_anti_affinity("j")],
        put=[namespace("team", labels={"team": "a"})],
    ),
    "an affinity term ignores a deleted namespace": Change(
        [NODES[0], pod_with_anti_affinity("p", node="n1"), namespace("team", labels={"team": "a"})],
        remove=[("Namespace", ("", "team"))],
    ),
    "a budget without a status is added": Change(
        [*NODES, pod("r1", node="n1", labels={"app": "x"})],
        put=[budget("b", selector={"app": "x"}, min_available=1)],
    ),
    "a budget covers more pods": Change(
        [
            *NODES,
            budget("b", selector={"app": "x"}, min_available=1),
            pod("r1", node="n1", labels={"app": "x"}),
        ],
        put=[pod("r2", node="n2", labels={"app": "x"})],
    ),
    "a budget gets a status": Change(
        [*NODES, budget("b", selector={"app": "x"}, min_available=1)],
        put=[budget("b", selector={"app": "x"}, min_available=1, allowed=3)],
    ),
    "a pod with anti-affinity is added": Change(
        [NODES[0], pod("x", namespace="team", labels={"app": "x"}), namespace("team", labels={"team": "a"})],
        put=[pod_with_anti_affinity("p", node="n1")],
    ),
    "a job gets an allocation before its pod exists": Change(
        [*NODES, tyjob("a", leader=SMALL, workers={"w": (1, SMALL)})], put=[ALLOCATED]
    ),
    "the node of an allocation is removed": Change([*NODES, ALLOCATED], remove=[("Node", ("", "n1"))]),
    "a job is being deleted": Change(
        [*NODES, JOB], put=[with_metadata(JOB, deletionTimestamp="2024-05-01T00:00:00Z")]
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_depends_on_a_change_follows_it(change: Change) -> None:
    incremental = IncrementalWorld.of(change.objects)
    before = snapshot_data(incremental.check())
    incremental.put(*change.put)
    incremental.remove(*change.remove)
    after = snapshot_data(incremental.check(NOW + change.later))
    assert _untimed(after) != _untimed(before)
    incremental.remove(*(identity(one) for one in change.put))
    incremental.put(*change.objects)
    assert snapshot_data(incremental.check()) == before


SAME_ROOM = {
    "a pod with an allocation is deleted": Change([*NODES, ALLOCATED, JOB_POD], put=[LEAVING]),
    "a retained pod is gone": Change([*NODES, ALLOCATED, LEAVING], remove=[("Pod", ("default", "a-leader"))]),
    "an allocated pod is created": Change(
        [*NODES, ALLOCATED], put=[pod_of("a-leader", SMALL, of=owner("TYJob", "a"))]
    ),
}


@pytest.mark.parametrize("change", SAME_ROOM.values(), ids=SAME_ROOM.keys())
def test_the_room_of_a_slot_counts_once(change: Change) -> None:
    incremental = IncrementalWorld.of(change.objects)
    before = snapshot_data(incremental.check())
    incremental.put(*change.put)
    incremental.remove(*change.remove)
    assert snapshot_data(incremental.check()) == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_is_undone_before_the_next_snapshot_has_no_effect(change: Change) -> None:
    incremental = IncrementalWorld.of(change.objects)
    before = snapshot_data(incremental.build().snapshot)
    incremental.put(*change.put)
    incremental.remove(*change.remove, *(identity(one) for one in change.put))
    incremental.put(*change.objects)
    assert snapshot_data(incremental.check()) == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_world_can_take_the_content_of_another_and_back(change: Change) -> None:
    first, then = IncrementalWorld.of(change.objects), IncrementalWorld.of(change.objects)
    then.put(*change.put)
    then.remove(*change.remove)
    world = World(NOW)
    assembler = SnapshotBuilder(world, first.config)
    for one in (first, then, first):
        world.become(one.world)
        assert snapshot_data(assembler.build(NOW).snapshot) == snapshot_data(one.build().snapshot)


ALL = [one for change in CHANGES.values() for one in (*change.objects, *change.put)]
"""Objects of all cases: many have the same names and are otherwise quite different."""

STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(ALL), max_size=8),
        st.lists(st.sampled_from([identity(one) for one in ALL]), max_size=2),
        st.sampled_from((0, 0, 20, 3600)),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(STEPS)
def test_changes_of_all_kinds_follow_each_other(
    steps: list[tuple[list[Object], list[Identity], float]],
) -> None:
    incremental = IncrementalWorld.of([])
    for put, remove, later in steps:
        incremental.put(*put)
        incremental.remove(*remove)
        incremental.check(NOW + later)


def _untimed(shown: Object) -> Object:
    return shown | {"now": None}
