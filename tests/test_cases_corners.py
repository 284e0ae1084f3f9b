"""Corner cases in which plans were once wrong, or easily could be, as one table."""

import pytest

from tests.builders import (
    NO_PREEMPTION,
    Case,
    Object,
    batch_job,
    check,
    dijob,
    node,
    owner,
    pod,
    priority_class,
    template,
    trainingjob,
    tyjob,
)
from tests.support import plan

NOON, ONE = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"
SMALL = template(cpu=1)
HUGE = {"resources": {"requests": {"memory": "1Pi"}}}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
}


def unreachable_node(name: str, cpu: int = 10) -> Object:
    built = node(name, cpu=cpu)
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": NOON}
    return built | {"status": built["status"] | {"conditions": [condition]}}


def ranked_pod(name: str, rank: int, phase: str = "Running") -> Object:
    labels = {"diengine/rank": str(rank)}
    return pod(name, cpu=1, node="n1", owner=owner("DIJob", "d"), labels=labels, phase=phase)


def pod_with_two_owners(name: str) -> Object:
    built = pod(name, cpu=1, node="n1", owner=owner("TYJob", "a"))
    built["metadata"]["ownerReferences"].insert(
        0, {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}
    )
    return built


CASES = {
    "a reservation that can no longer become free blocks no other workload": Case(
        objects=[
            node("n1", cpu=4),
            priority_class("high", 10),
            pod("running", cpu=2, node="n1"),
            pod("early", cpu=2, priority="high"),
            pod("late", cpu=4, nominated="n1"),
        ],
        placed={"early": "n1"},
        jobs={"Pod/default/late": {"nominated": {}, "reasons": ["NoRoom"]}},
        config=NO_PREEMPTION,
    ),
    "a nomination to a node that the pod may not use is dropped": Case(
        objects=[
            node("n1", cpu=4),
            pod("p", cpu=4, nominated="n1", spec={"nodeSelector": {"x": "y"}}),
            pod("q", cpu=4),
        ],
        placed={"q": "n1"},
        jobs={"Pod/default/p": {"nominated": {}, "reasons": ["NeverFits"]}},
    ),
    "a gang below its minimum is broken even if all pods that exist have nodes": Case(
        objects=[node("n1"), *(pod(f"p{i}", cpu=1, node="n1", gang="g", gang_min=3) for i in range(2))],
        placed={},
        jobs={"Gang/default/g": {"state": "Unscheduled", "current": 2, "reasons": ["NoRoom"]}},
        says={"Gang/default/g": ["2 of 3 pods exist"]},
    ),
    "the failure of a gang is not reused for a loose pod of the same shape": Case(
        objects=[node("n1", cpu=4), pod("a", cpu=100, gang="g", gang_min=2), pod("z", cpu=100)],
        placed={},
        jobs={"Pod/default/z": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "the rest of a job respects anti-affinity to its nominated pods": Case(
        objects=[
            *(node(name, cpu=cpus, memory=100) for name, cpus in (("n1", 100), ("n2", 100), ("n3", 4))),
            tyjob(
                "a",
                leader=SMALL,
                workers={"w": (2, SMALL)},
                min_workers=1,
                policy="JobAntiAffinity",
                status={"nominations": {"a-leader": "n1", "a-w-0": "n2"}},
            ),
        ],
        placed={"a-leader": "n1", "a-w-0": "n2", "a-w-1": "n3"},
    ),
    "an allocation on a lost node is ignored": Case(
        objects=[
            unreachable_node("n1"),
            node("n2"),
            tyjob(
                "a",
                leader=SMALL,
                workers={"w": (1, SMALL)},
                status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
            ),
        ],
        placed={"a-leader": "n2", "a-w-0": "n2"},
        now=ONE,
    ),
    "a node that has just stopped reporting keeps its pods": Case(
        objects=[
            unreachable_node("n1", cpu=4),
            node("n2", cpu=4),
            pod("p", cpu=4, node="n1"),
            pod("q", cpu=4),
        ],
        placed={"q": "n2"},
        jobs={"Pod/default/p": {"state": "ScheduledSucceed"}},
        now="2026-01-01T12:00:30Z",
    ),
    "a nominated pod obeys its topology spread": Case(
        objects=[
            node("n1", labels={"zone": "a"}),
            node("n2", labels={"zone": "b"}),
            *(pod(f"x{i}", labels={"app": "x"}, node="n1") for i in range(2)),
            pod("new", labels={"app": "x"}, nominated="n1", spec=SPREAD),
        ],
        placed={"new": "n2"},
    ),
    "a failed pod of an earlier generation does not count as its rank": Case(
        objects=[
            node("n1"),
            dijob("d", SMALL, status={"generation": 10, "replicas": 1}),
            ranked_pod("d-9-0", 0, phase="Failed"),
            ranked_pod("d-10-0", 0),
        ],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "allocation": {"d-10-0": "n1"}}},
    ),
    "a recreated rank has the name of its generation": Case(
        objects=[
            node("n1"),
            dijob("d", SMALL, status={"generation": 1, "replicas": 1}),
            ranked_pod("d-0-0", 0, phase="Failed"),
        ],
        placed={"d-1-0": "n1"},
    ),
    "a rank that succeeded is not run again": Case(
        objects=[
            node("n1"),
            dijob("d", SMALL, replicas=(2, 2)),
            ranked_pod("d-0-0", 0, phase="Succeeded"),
        ],
        placed={"d-0-1": "n1"},
    ),
    "two jobs with the same pod name: the older one gets it": Case(
        objects=[
            node("n1"),
            tyjob("a-b", leader=SMALL, workers={"c": (1, SMALL)}, created=ONE),
            tyjob("a", leader=SMALL, workers={"b-c": (1, SMALL)}, created=NOON),
        ],
        placed={"a-leader": "n1", "a-b-c-0": "n1"},
        jobs={"TYJob/default/a-b": {"state": "Unscheduled", "reasons": ["NameTaken"]}},
    ),
    "an index whose pod failed is created again": Case(
        objects=[
            node("n1"),
            batch_job("b", SMALL, parallelism=2, completions=2, indexed=True),
            pod(
                "b-0",
                phase="Failed",
                owner=owner("Job", "b"),
                labels={"batch.kubernetes.io/job-completion-index": "0"},
            ),
        ],
        placed={"b-0": "n1", "b-1": "n1"},
    ),
    "the share of an elastic job counts its minimum, not pods that only wait": Case(
        objects=[
            node("n1", cpu=10),
            trainingjob("t", trainer={"cpu": 1}, trainers=(1, 5), master={"cpu": 20}),
            *(pod(f"t-trainer-{i}", cpu=1, owner=owner("TrainingJob", "t")) for i in range(4)),
        ],
        placed={},
        jobs={"TrainingJob/default/t": {"share": 2.1, "state": "ScheduledFailed"}},
    ),
    "an invalid gang-min on a pod without a gang is ignored": Case(
        objects=[
            node("n1"),
            pod("p") | {"metadata": {"name": "p", "annotations": {"shoal.io/gang-min": "many"}}},
        ],
        placed={"p": "n1"},
    ),
    "an invalid gang-min in a gang is reported": Case(
        objects=[
            node("n1"),
            pod("p")
            | {"metadata": {"name": "p", "annotations": {"shoal.io/gang": "g", "shoal.io/gang-min": "many"}}},
        ],
        placed={},
        jobs={"Gang/default/g": {"reasons": ["Held"]}},
        says={"Gang/default/g": ["shoal.io/gang-min"]},
    ),
    "pods with requests above the number range never fit": Case(
        objects=[
            node("n1"),
            pod(
                "p",
                spec={
                    "containers": [
                        {"name": f"c{i}", "resources": {"requests": {"memory": "1Pi"}}} for i in range(9000)
                    ]
                },
            ),
        ],
        placed={},
        jobs={"Pod/default/p": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "a gang's class is that of the first pod that names one, not of the first with a number": Case(
        objects=[
            node("n1"),
            priority_class("high", 1000),
            pod("g1", gang="g", created=NOON, spec={"priority": 0}),
            pod("g2", gang="g", created=ONE, priority="high", spec={"priority": 1000}),
        ],
        placed={"g1": "n1", "g2": "n1"},
        jobs={"Gang/default/g": {"priority": 1000}},
    ),
    "the controller reference decides on the owner of a pod": Case(
        objects=[
            node("n1"),
            tyjob("a", leader=SMALL, workers={"w": (1, SMALL)}),
            pod_with_two_owners("a-leader"),
        ],
        placed={"a-w-0": "n1"},
        jobs={"TYJob/default/a": {"allocation": {"a-leader": "n1", "a-w-0": "n1"}}},
    ),
    "GPUs under two names are counted once, in any order": Case(
        objects=[
            node("n1", gpu=2, more={"alpha.kubernetes.io/nvidia-gpu": 0}),
            pod("p", gpu=2),
        ],
        placed={"p": "n1"},
    ),
    "a gang that can never run together does not blame a single pod": Case(
        objects=[
            node("n1", cpu=3),
            node("n2", cpu=3),
            tyjob("t", leader=SMALL, workers={"w": (6, SMALL)}, policy="Gang"),
        ],
        placed={},
        jobs={"TYJob/default/t": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
        says={"TYJob/default/t": ["t-leader and 6 workers need nodes together", "0/2 nodes fit"]},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    check(case, plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now))


def test_pool_usage_is_exact_for_large_amounts() -> None:
    workers = tyjob("t", leader=SMALL, workers={"w": (16384, template(memory="1Pi"))})
    (pool,) = plan([node("n1"), workers])["pools"]
    assert pool["pending"]["memory"] == "16Ei"
    assert pool["pendingPods"] == 16385


def test_pods_of_other_schedulers_count_as_system_even_if_owned_by_our_job() -> None:
    job = dijob("d", template(cpu=1, scheduler="default-scheduler"))
    foreign_pod = pod("d-0-0", cpu=1, node="n1", scheduler="default-scheduler", owner=owner("DIJob", "d"))
    answer = plan([node("n1"), job, foreign_pod])
    assert answer["jobs"] == []
    assert answer["pools"][0]["system"]["cpu"] == "1"


def test_now_is_the_newest_timestamp_of_any_object() -> None:
    """A node that stopped reporting at noon is lost once any object has a later timestamp."""
    newer = pod("q", node="n2")
    newer["status"] |= {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ONE}]}
    objects = [unreachable_node("n1"), node("n2"), pod("p", node="n1")]
    assert [job["job"] for job in plan(objects)["jobs"]] == ["Pod/default/p"]
    assert [job["job"] for job in plan([*objects, newer])["jobs"]] == ["Pod/default/q"]


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_extreme_timestamps_are_accepted(now: str) -> None:
    job = tyjob(
        "t", leader=SMALL, workers={"w": (1, template(cpu=99))}, status={"allocations": {"t-leader": "n2"}}
    )
    assert plan([unreachable_node("n1"), node("n2"), job], now=now, cycles=3)["jobs"]
