"""Elastic policies of the user: valid answers are followed, invalid ones are refused without harm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.policies import JobInfo, NodeInfo, Policy
from shoal.policies.fit import FitPolicy
from tests.builders import Object, dijob, node, open_pool, owner, pod, priority_class, template, trainingjob
from tests.support import plan
from tests.worlds import World, elastic_worlds

A, B = "DIJob/default/a", "DIJob/default/b"
CONFIG = {"elasticPolicy": "mine"}
NODES = (node("n1", cpu=4), node("n2", cpu=4))

Answer = Any
"""Any value that a policy returns."""


@dataclass(frozen=True)
class Fixed:
    """A policy that always gives the same answer, or raises it."""

    start: Answer = field(default_factory=list)
    run: Answer = None

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Answer:
        return _answer(self.start)

    def optimize(
        self, jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo], previous: Mapping[str, Answer]
    ) -> Answer:
        return _answer(self.run)


def _answer(answer: Answer) -> Answer:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def running(name: str, replicas: tuple[int, int], *nodes: str, **status: object) -> list[Object]:
    """A preemptible DIJob with a rank of 1 CPU on each node."""
    job = dijob(name, template(cpu=1), replicas=replicas, preemptible=True, status=status)
    pods = [pod(f"{name}-0-{rank}", cpu=1, node=on_node) for rank, on_node in enumerate(nodes)]
    for rank, one in enumerate(pods):
        one["metadata"]["ownerReferences"] = [owner("DIJob", name)]
        one["metadata"].setdefault("labels", {})["diengine/rank"] = str(rank)
    return [job, *pods]


@dataclass(frozen=True)
class Row:
    """Objects beside two nodes of 4 CPUs, a policy, and the expected state of job `a`."""

    title: str
    policy: Policy
    objects: list[Object]
    nodes: list[str]
    """The node of each rank of `a` after the plan."""
    refused: str | None = None
    """Part of the message; None: not refused."""
    evictions: list[tuple[str, str]] = field(default_factory=list)
    nominated: dict[str, str] = field(default_factory=dict)
    config: Object = field(default_factory=dict)


ROWS = [
    Row("fit: a new job gets its minimum", FitPolicy(), running("a", (2, 4)), ["n1", "n1"]),
    Row(
        "fit: a new job gets the requested size",
        FitPolicy(),
        running("a", (1, 4), requestedReplicas=3),
        ["n1", "n1", "n1"],
    ),
    Row(
        "fit: a running job grows to the requested size on the fuller node",
        FitPolicy(),
        [*running("a", (1, 4), "n2", requestedReplicas=2)],
        ["n2", "n2"],
    ),
    Row(
        "fit: the requested size is limited to the maximum",
        FitPolicy(),
        running("a", (1, 2), "n1", requestedReplicas=9),
        ["n1", "n1"],
    ),
    Row(
        "fit: fewer are requested, the highest ranks are evicted",
        FitPolicy(),
        running("a", (1, 4), "n1", "n2", "n2", requestedReplicas=1),
        ["n1"],
        evictions=[("a-0-2", "Shrunk"), ("a-0-1", "Shrunk")],
    ),
    Row(
        "fit: no job grows by itself",
        FitPolicy(),
        running("a", (1, 4), "n1"),
        ["n1"],
    ),
    Row(
        "a new job starts on the nodes of the policy",
        Fixed(start=["n2", "n2"]),
        running("a", (2, 4)),
        ["n2", "n2"],
    ),
    Row(
        "a new job starts larger than its minimum",
        Fixed(start=["n2", "n1", "n2"]),
        running("a", (2, 4)),
        ["n2", "n1", "n2"],
    ),
    Row("no opinion: the engine places it", Fixed(start=[]), running("a", (2, 4)), ["n1", "n1"]),
    Row(
        "a new job starts even if the policy fails",
        Fixed(start=ValueError("no idea")),
        running("a", (2, 4)),
        ["n1", "n1"],
        refused="it raised ValueError: no idea",
    ),
    Row(
        "a new job's nodes are too small together",
        Fixed(start=["n2"] * 4),
        [*running("a", (4, 4)), pod("x", cpu=1, node="n2", scheduler="other")],
        ["n2", "n2", "n2", "n1"],
        refused="does not fit on the nodes that were chosen",
    ),
    Row("it grows", Fixed(run={A: ["n1", "n2", "n2"]}), running("a", (1, 4), "n1"), ["n1", "n2", "n2"]),
    Row(
        "it shrinks",
        Fixed(run={A: ["n1"]}),
        running("a", (1, 4), "n1", "n2"),
        ["n1"],
        evictions=[("a-0-1", "Shrunk")],
    ),
    Row(
        "a rank moves: it is evicted first, and its new room is reserved",
        Fixed(run={A: ["n2", "n1"]}),
        running("a", (1, 4), "n1", "n1"),
        ["", "n1"],
        evictions=[("a-0-0", "Moved")],
        nominated={"a-0-0": "n2"},
    ),
    Row(
        "room that another job frees by the same answer is reserved",
        Fixed(run={A: ["n1", "n2"], B: ["n2", "n2", "n2"]}),
        [*running("a", (1, 2), "n1"), *running("b", (1, 4), *["n2"] * 4), pod("x", cpu=3, node="n1")],
        ["n1"],
        evictions=[("b-0-3", "Shrunk")],
        nominated={"a-0-1": "n2"},
    ),
    Row(
        "it raises",
        Fixed(run=ZeroDivisionError("oops")),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="it raised ZeroDivisionError: oops",
    ),
    Row(
        "it returns nothing", Fixed(run=None), running("a", (1, 4), "n1"), ["n1"], refused="answered nothing"
    ),
    Row(
        "it leaves the job out", Fixed(run={}), running("a", (1, 4), "n1"), ["n1"], refused="answered nothing"
    ),
    Row(
        "it returns numbers",
        Fixed(run={A: [1]}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="list of node names",
    ),
    Row(
        "it returns a text",
        Fixed(run={A: "n1"}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="list of node names",
    ),
    Row(
        "no node at all",
        Fixed(run={A: []}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="it has 0 replicas",
    ),
    Row(
        "too many",
        Fixed(run={A: ["n1"] * 5}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="it has 5 replicas",
    ),
    Row(
        "more than the requested size is cut to it",
        Fixed(run={A: ["n1"] * 3}),
        running("a", (1, 4), "n1", requestedReplicas=2),
        ["n1", "n1"],
    ),
    Row(
        "an unknown node",
        Fixed(run={A: ["n1", "n9"]}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="it names n9, which is no node of pool default",
    ),
    Row(
        "a running rank without a node",
        Fixed(run={A: ["", "n1"]}),
        running("a", (1, 4), "n1"),
        ["n1"],
        refused="leaves rank 0 without a node",
    ),
    Row(
        "a rank that lost its node may be left as it is",
        Fixed(run={A: ["n1", "", "n2"]}),
        [one for one in running("a", (1, 4), "n1", "n1", "n2") if one["metadata"]["name"] != "a-0-1"],
        ["n1", "", "n2"],
    ),
    Row(
        "fit: a rank that lost its node gets another, and no rank moves",
        FitPolicy(),
        [
            one
            for one in running("a", (1, 4), "n1", "n1", "n2", requestedReplicas=3)
            if one["metadata"]["name"] != "a-0-1"
        ],
        ["n1", "n1", "n2"],
    ),
    Row(
        "fit: without room for a lost rank the others go on",
        FitPolicy(),
        [
            one
            for one in [
                *running("a", (1, 4), "n1", "n1", "n2", requestedReplicas=3),
                pod("x", cpu=3, node="n1"),
                pod("y", cpu=3, node="n2"),
            ]
            if one["metadata"]["name"] != "a-0-1"
        ],
        ["n1", "", "n2"],
    ),
    Row(
        "fit: new jobs do not conflict",
        FitPolicy(),
        [*running("b", (3, 3)), *running("a", (3, 3))],
        ["n1", "n1", "n1"],
    ),
    Row(
        "the policy is not asked about a job whose minimum is broken",
        Fixed(run={A: []}),
        [*running("a", (3, 3), "n1"), pod("x", cpu=3, node="n1"), pod("y", cpu=4, node="n2")],
        ["n1"],
    ),
    Row(
        "more than a node has",
        Fixed(run={A: ["n1"] * 4}),
        [*running("a", (1, 4), "n1"), pod("x", cpu=1, node="n1")],
        ["n1"],
        refused="a-0-3 does not fit on node n1",
    ),
    Row(
        "room that another job, whose answer is refused, does not free",
        Fixed(run={A: ["n1", "n2"], B: []}),
        [*running("a", (1, 2), "n1"), *running("b", (1, 4), *["n2"] * 4)],
        ["n1"],
        refused="a-0-1 does not fit on node n2",
    ),
    Row(
        "a node of another pool",
        Fixed(run={A: ["n1", "m1"]}),
        [
            *running("a", (1, 4), "n1"),
            node("m1", cpu=4, labels={"pool": "p"}),
            open_pool("p", selector={"pool": "p"}),
        ],
        ["n1"],
        refused="no node of pool default",
    ),
    Row(
        "eviction is disabled",
        Fixed(run={A: ["n1"]}),
        running("a", (1, 4), "n1", "n2"),
        ["n1", "n2"],
        refused="eviction is disabled",
        config={"disablePreemption": True},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_answers_are_followed_or_refused(row: Row) -> None:
    answer = plan([*NODES, *row.objects], config={**CONFIG, **row.config}, policy=row.policy)
    job = next(job for job in answer["jobs"] if job["job"] == A)
    ranks = {name.rpartition("-")[2]: on_node for name, on_node in job["allocation"].items()}
    found = [ranks.get(str(rank), "") for rank in range(max(map(int, ranks), default=-1) + 1)]
    assert found == row.nodes
    assert [(e["pod"].partition("/")[2], e["reason"]) for e in answer["evictions"]] == row.evictions
    assert job["nominated"] == row.nominated
    refusals = [reason["message"] for reason in job["reasons"] if reason["code"] == "PolicyRefused"]
    assert len(refusals) == (row.refused is not None)
    assert row.refused is None or row.refused in refusals[0]


def test_a_moved_rank_gets_its_new_node_and_stays() -> None:
    policy = Fixed(run={A: ["n2", "n1"]})
    answer = plan([*NODES, *running("a", (2, 4), "n1", "n1")], config=CONFIG, policy=policy, cycles=9)
    assert answer["stable"]
    assert answer["jobs"][0]["allocation"] == {"a-0-0": "n2", "a-0-1": "n1"}
    assert len(answer["evictions"]) == 1


def test_what_a_policy_is_given() -> None:
    calls: list[tuple[Any, ...]] = []

    class Recorder(Fixed):
        def optimize(
            self, jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo], previous: Mapping[str, Answer]
        ) -> Answer:
            calls.append((jobs[A], nodes["n1"], dict(previous)))
            return previous

    objects = running("a", (1, 4), "n1", "n2", requestedReplicas=7, profilings={"fps": 30})
    objects[0]["spec"]["template"]["spec"] |= {"nodeSelector": {"disk": "fast"}, "priorityClassName": "high"}
    fast = node("n1", cpu=4, labels={"disk": "fast"})
    plan([fast, NODES[1], priority_class("high", 7), *objects], config=CONFIG, policy=Recorder())
    job, node_info, previous = calls[0]
    assert (job.key, job.min, job.max, job.requested, job.wanted) == (A, 1, 4, 7, 4)
    assert (job.preemptible, job.priority, job.profilings) == (True, 7, {"fps": 30})
    assert job.resources == {"cpu": 1000}
    assert job.node_filter == ("n1",)
    assert (node_info.name, node_info.pool, node_info.labels["disk"]) == ("n1", "default", "fast")
    assert (node_info.allocatable["cpu"], node_info.free["cpu"]) == (4000, 3000)
    assert previous == {A: ["n1", "n2"]}


def test_trainingjobs_are_sized_by_fulfilment_whatever_the_policy() -> None:
    job = trainingjob("t", trainer={"cpu": "1"}, trainers=(1, 3))
    answer = plan([*NODES, job], config=CONFIG, policy=Fixed(run=RuntimeError()))
    assert answer["jobs"][0]["target"] == 3


@pytest.mark.parametrize("change", [lambda p: p, lambda p: {A: [*p[A], "n1"]}, lambda p: {A: p[A][:-1]}])
def test_a_job_in_cooldown_is_not_resized(change: Callable[[Any], Any]) -> None:
    class Changing(Fixed):
        def optimize(
            self, jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo], previous: Mapping[str, Answer]
        ) -> Answer:
            return change(previous)

    now = "2024-05-01T01:00:00Z"
    record = {"time": "2024-05-01T00:59:45Z", "from": 1, "to": 2, "reason": "Grown"}
    objects = [*NODES, *running("a", (1, 4), "n1", "n2", scaleRecords=[record])]
    answer = plan(objects, config=CONFIG, policy=Changing(), now=now)
    assert answer["stable"]
    assert [reason["code"] for reason in answer["jobs"][0]["reasons"]] == ["Held"]


class Unchanged(Fixed):
    """A policy that changes nothing."""

    def optimize(
        self, jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo], previous: Mapping[str, Answer]
    ) -> Answer:
        return previous


@settings(max_examples=100)
@given(elastic_worlds(), st.sampled_from([Unchanged(), FitPolicy()]), st.sampled_from([1, 6]))
def test_sensible_policies_are_never_refused_and_nothing_flaps(
    world: World, policy: Policy, cycles: int
) -> None:
    config = world.config | CONFIG
    answer = plan(world.objects, config=config, now=world.now, cycles=cycles, policy=policy)
    reasons = [reason for job in answer["jobs"] for reason in job["reasons"]]
    assert "PolicyRefused" not in [reason["code"] for reason in reasons]
    if cycles == 1:
        evicted = [eviction["pod"] for eviction in answer["evictions"]]
        assert len(evicted) == len(set(evicted))
        assert not set(evicted) & {placement["pod"] for placement in answer["placements"]}
