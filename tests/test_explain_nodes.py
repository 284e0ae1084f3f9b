"""Entries of nodes in `--explain`, and properties of explanations in random worlds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import GPU, Object, node, open_pool, pod, taint, template, tyjob
from tests.changes import check_changes
from tests.explanations import explain
from tests.support import plan
from tests.worlds import World, elastic_worlds, shared_worlds, worlds

ONE = template(cpu=1)


def nodes_of(explanation: Object, task: str) -> dict[str, Object]:
    (entry,) = (entry for entry in explanation["tasks"] if entry["task"] == task)
    return {node["node"]: node for node in entry["nodes"]}


@dataclass(frozen=True, kw_only=True)
class NodeCase:
    """Objects, a job, one of its tasks, and expected fields of the entry of the task and of nodes in it."""

    objects: Sequence[Object]
    job: str
    task: str
    nodes: Mapping[str, Object]
    entry: Object = field(default_factory=dict)


DEMANDING_POD = pod("p", cpu=2, gpu=2, spec={"nodeSelector": {"disk": "ssd"}}, host_port=80)
SSD = {"disk": "ssd"}
NODE_CASES = {
    "the first filter that fails, and all resources that are short": NodeCase(
        objects=[
            node("dark", labels=SSD, ready="False"),
            node("shut", labels=SSD, unschedulable=True),
            node("disk"),
            node("taint", labels=SSD, taints=[taint("team", "a")]),
            node("port", labels=SSD, gpu=2),
            node("small", labels=SSD, cpu=1, gpu=1),
            pod("x", node="port", host_port=80),
            DEMANDING_POD,
        ],
        job="Pod/default/p",
        task="p",
        entry={"waiting": 1, "when": "now", "requests": {"cpu": "2", GPU: "2"}},
        nodes={
            "dark": {"fits": False, "barrier": "rule", "why": "not ready", "short": {GPU: "2"}},
            "shut": {"why": "cordoned"},
            "disk": {"why": "outside its node selector or affinity"},
            "taint": {"why": "with a taint it does not tolerate"},
            "port": {"why": "with the host port taken", "short": {}},
            "small": {
                "barrier": "room",
                "why": f"short of 1 cpu, 1 {GPU}",
                "short": {"cpu": "1", GPU: "1"},
                "score": None,
            },
        },
    ),
    "the pod that room is reserved for": NodeCase(
        objects=[
            node("n1", cpu=4),
            node("n2", cpu=3),
            pod("x", cpu=2, node="n1", terminating=True),
            pod("first", cpu=4, nominated="n1", created="2024-05-01T00:00:00Z"),
            pod("y", node="n2", cpu=2),
            pod("p", cpu=2, created="2024-05-01T00:30:00Z"),
        ],
        job="Pod/default/p",
        task="p",
        nodes={
            "n1": {
                "fits": False,
                "keptFor": ["Pod/default/first"],
                "why": "its room is kept for Pod/default/first",
            },
            "n2": {"why": "short of 1 cpu"},
        },
    ),
    "scores at the time of the placement, and the chosen node": NodeCase(
        objects=[
            node("full"),
            node("idle"),
            pod("x", node="full", cpu=5, memory="5Gi"),
            pod("p", cpu=1, memory="1Gi"),
        ],
        job="Pod/default/p",
        task="p",
        entry={"waiting": 0, "when": "turn", "policy": "BinPack", "best": "highest"},
        nodes={
            "full": {"fits": True, "score": 60.0, "chosen": True, "pods": ["p"]},
            "idle": {"fits": True, "score": 10.0, "chosen": False, "pods": []},
        },
    ),
    "the lowest score wins with LeaderFirst": NodeCase(
        objects=[
            node("full"),
            node("idle"),
            pod("x", node="full", cpu=5, memory="5Gi"),
            tyjob("j", leader=template(cpu=1, memory="1Gi"), workers={"w": (1, ONE)}, policy="LeaderFirst"),
        ],
        job="TYJob/default/j",
        task="j-leader",
        entry={"best": "lowest", "role": "leader"},
        nodes={"full": {"score": 60.0, "chosen": False}, "idle": {"score": 10.0, "chosen": True}},
    ),
    "how many pods of a gang fit a node": NodeCase(
        objects=[
            node("n1", cpu=5),
            node("n2", cpu=1),
            tyjob("j", leader=ONE, workers={"w": (9, ONE)}, policy="Gang"),
        ],
        job="TYJob/default/j",
        task="j-w-0",
        entry={"count": 9, "waiting": 9},
        nodes={"n1": {"takes": 5}, "n2": {"takes": 1}},
    ),
    "the node of a running pod": NodeCase(
        objects=[node("n1"), node("n2"), pod("p", node="n2", cpu=1, memory="1Gi")],
        job="Pod/default/p",
        task="p",
        entry={"when": "before", "waiting": 0},
        nodes={"n1": {"score": 10.0, "chosen": False}, "n2": {"score": 10.0, "chosen": True, "pods": ["p"]}},
    ),
    "pools that may lend, and why one of them does not": NodeCase(
        objects=[
            open_pool("a"),
            open_pool("b"),
            open_pool("c", shares=False),
            *(node(f"{name}1", cpu=2, labels={"pool": name}) for name in "abc"),
            pod("x", node="a1", cpu=2, pool="a"),
            pod("y", node="b1", cpu=1, pool="b"),
            pod("waits", cpu=2, pool="b"),
            pod("p", cpu=1, pool="a"),
        ],
        job="Pod/default/p",
        task="p",
        nodes={
            "a1": {"lender": False, "pool": "a", "why": "short of 1 cpu"},
            "b1": {"lender": True, "barrier": "pool", "why": "lends nothing while jobs of its own wait"},
        },
    ),
}


@pytest.mark.parametrize("case", NODE_CASES.values(), ids=NODE_CASES.keys())
def test_entries_of_nodes(case: NodeCase) -> None:
    explanation = explain(case.objects, case.job)
    (entry,) = (entry for entry in explanation["tasks"] if entry["task"] == case.task)
    assert {key: entry[key] for key in case.entry} == case.entry
    entries = nodes_of(explanation, case.task)
    assert set(case.nodes) <= set(entries)
    for name, expected in case.nodes.items():
        assert {key: entries[name][key] for key in expected} == expected, name


def test_nodes_of_pools_that_do_not_lend_are_not_listed() -> None:
    case = NODE_CASES["pools that may lend, and why one of them does not"]
    assert set(nodes_of(explain(case.objects, case.job), case.task)) == {"a1", "b1"}


def test_with_cycles_a_job_is_explained_as_of_the_last_cycle() -> None:
    objects = [node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)]
    once, later = (explain(objects, "p", cycles=cycles) for cycles in (1, 5))
    assert (once["cycles"], once["state"]) == (1, "Unscheduled")
    assert (later["cycles"], later["state"]) == (3, "ScheduledSucceed")
    assert nodes_of(later, "p")["n1"]["pods"] == ["p"]


# --- random worlds -----------------------------------------------------------------------------------------

few_examples, many_examples = settings(max_examples=40), settings(max_examples=80)


def waiting_jobs(world: World) -> list[str]:
    """Up to three jobs that are not completely placed."""
    answer = plan(world.objects, config=world.config, now=world.now)
    return [job["job"] for job in answer["jobs"] if job["state"] != "ScheduledSucceed"][:3]


@many_examples
@given(st.one_of(worlds(), shared_worlds(), elastic_worlds()))
def test_every_proposed_change_lets_the_job_run(world: World) -> None:
    for job in waiting_jobs(world):
        explanation = explain(world.objects, job, config=world.config, now=world.now)
        check_changes(explanation, world.objects, config=world.config, now=world.now)


@few_examples
@given(st.one_of(worlds(), shared_worlds()), st.data())
def test_the_order_of_the_input_does_not_matter(world: World, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(world.objects))
    for job in waiting_jobs(world)[:1]:
        first, second = (
            explain(objects, job, config=world.config, now=world.now) for objects in (world.objects, shuffled)
        )
        assert first == second


@few_examples
@given(st.one_of(worlds(), shared_worlds()))
def test_a_loose_pod_goes_to_the_best_node_that_fits(world: World) -> None:
    answer = plan(world.objects, config=world.config, now=world.now)
    nominated_pods = {
        one["metadata"]["name"] for one in world.objects if one.get("status", {}).get("nominatedNodeName")
    }
    for placed in answer["placements"]:
        name = placed["job"].removeprefix("Pod/").partition("/")[2]
        if placed["job"].startswith("Pod/") and name not in nominated_pods:
            entries = nodes_of(
                explain(world.objects, placed["job"], config=world.config, now=world.now), name
            )
            chosen = entries[placed["node"]]
            assert chosen["fits"]
            assert chosen["chosen"]
            scores = [
                one["score"] for one in entries.values() if one["fits"] and one["pool"] == placed["pool"]
            ]
            assert chosen["score"] == max(scores)
