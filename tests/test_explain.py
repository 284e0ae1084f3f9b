"""Changes that `--explain` proposes, by dimension; every change is applied to the objects and planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.builders import (
    GPU,
    NO_PREEMPTION,
    Object,
    batch_job,
    di_task,
    dijob,
    dijob_tasks,
    namespace,
    node,
    open_pool,
    owner,
    pod,
    pod_of,
    pool,
    priority_class,
    resources,
    taint,
    template,
    trainingjob,
    tyjob,
)
from tests.changes import check_changes
from tests.explanations import explain

ONE = template(cpu=1)
ONE_GPU = template(cpu=1, gpu=1)
DIMENSIONS = ("fewer", "pool", "priority", "resource", "end")


def filled(name: str, on: str, *, cpu: int = 0, gpu: int = 0, **more: Any) -> Object:  # noqa: ANN401 - options of `pod`
    """A pod of our scheduler that runs on a node and uses its resources."""
    return pod(name, cpu=cpu, gpu=gpu, node=on, **more)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Objects, a job, and the changes that must be proposed: some fields of each, by dimension.

    `absent` dimensions must not be proposed, and the summary must contain `summary`.
    """

    objects: Sequence[Object]
    job: str
    changes: Mapping[str, Object] = field(default_factory=dict)
    absent: Sequence[str] = ()
    summary: str = ""
    config: Object | None = None


# --- proposed changes --------------------------------------------------------------------------------------

FEWER = {
    "a TYJob's minimum of workers": Case(
        objects=[
            node("n1", cpu=4),
            tyjob("j", leader=ONE, workers={"w": (8, ONE)}, min_workers=6),
        ],
        job="TYJob/default/j",
        changes={"fewer": {"role": "worker", "count": 3, "of": 6, "set": {"spec.minWorkersNum": 3}}},
    ),
    "workers of a TYJob that starts as a whole: of the set that lacks room, and the minimum": Case(
        objects=[
            node("n1", cpu=9, gpu=2),
            tyjob(
                "j",
                leader=ONE,
                workers={"a": (3, ONE), "b": (4, ONE_GPU)},
                policy="Gang",
                min_workers=6,
            ),
        ],
        job="TYJob/default/j",
        changes={
            "fewer": {
                "count": 5,
                "of": 7,
                "set": {"spec.workerSets[1].counts": 2, "spec.minWorkersNum": 5},
            }
        },
    ),
    "workers of all sets if no set alone is sufficient": Case(
        objects=[
            node("n1", cpu=3),
            tyjob("j", leader=ONE, workers={"a": (2, ONE), "b": (3, ONE)}, policy="Gang"),
        ],
        job="TYJob/default/j",
        changes={
            "fewer": {"count": 2, "set": {"spec.workerSets[0].counts": 1, "spec.workerSets[1].counts": 1}}
        },
    ),
    "a DIJob's replicas": Case(
        objects=[node("n1", cpu=3), dijob("d", ONE, replicas=(5, 8), preemptible=True)],
        job="DIJob/default/d",
        changes={"fewer": {"role": "replica", "count": 3, "set": {"spec.minReplicas": 3}}},
    ),
    "replicas of a DIJob's tasks": Case(
        objects=[
            node("n1", cpu=3),
            dijob_tasks("d", [di_task("learner", ONE), di_task("collector", ONE, replicas=4)]),
        ],
        job="DIJob/default/d",
        changes={"fewer": {"count": 3, "of": 5, "set": {"spec.tasks[1].replicas": 2}}},
    ),
    "a TrainingJob's trainers": Case(
        objects=[
            node("n1", cpu=4),
            trainingjob("t", trainer=resources(cpu=1), trainers=(6, 6), pserver=resources(cpu=1)),
        ],
        job="TrainingJob/default/t",
        changes={"fewer": {"role": "trainer", "count": 3, "set": {"spec.trainer.min-instance": 3}}},
    ),
    "a gang of pods of which some do not exist yet": Case(
        objects=[node("n1", cpu=2), *(pod(f"g-{i}", cpu=1, gang="g", gang_min=5) for i in range(3))],
        job="Gang/default/g",
        changes={"fewer": {"role": "pod", "count": 2, "set": {"metadata.annotations[shoal.io/gang-min]": 2}}},
        absent=["priority", "end"],
    ),
    "a gang of pods that a batch Job has not created yet": Case(
        objects=[
            node("n1", cpu=4),
            batch_job("b", template(cpu=1, annotations={"shoal.io/gang": "g"}), parallelism=6),
        ],
        job="Gang/default/g",
        changes={"fewer": {"count": 4, "of": 6}, "resource": {"node": "n1", "add": {"cpu": "2"}}},
    ),
    "not less than one worker": Case(
        objects=[node("n1", cpu=1), tyjob("j", leader=ONE, workers={"w": (3, ONE)}, min_workers=2)],
        job="TYJob/default/j",
        absent=["fewer"],
    ),
}
CLOSED = [pool("default"), pool("b", selector={"pool": "b"}), node("b1", labels={"pool": "b"})]
POOLS = {
    "another pool with room": Case(
        objects=[*CLOSED, node("n1", cpu=1), tyjob("j", leader=ONE, workers={"w": (2, ONE)})],
        job="TYJob/default/j",
        changes={"pool": {"pool": "b", "placed": {"j-leader": "b1", "j-w-0": "b1", "j-w-1": "b1"}}},
    ),
    "no pool that its namespace may not use": Case(
        objects=[
            pool("default"),
            pool("b", selector={"pool": "b"}, namespaces={"team": "b"}),
            namespace("default"),
            node("b1", labels={"pool": "b"}),
            node("n1", cpu=1),
            pod("p", cpu=2),
        ],
        job="Pod/default/p",
        absent=["pool"],
    ),
    "for a pod that a batch Job has not created yet": Case(
        objects=[*CLOSED, node("n1", cpu=1), batch_job("b", template(cpu=2))],
        job="Pod/default/b-0",
        changes={"pool": {"pool": "b", "placed": {"b-0": "b1"}}, "resource": {"node": "n1"}},
    ),
    "for a pod whose own pool does not exist": Case(
        objects=[*CLOSED, node("n1", cpu=1), pod("p", cpu=2, pool="nowhere")],
        job="Pod/default/p",
        changes={"pool": {"pool": "b"}},
    ),
    "the pool that needs no eviction": Case(
        objects=[
            *(open_pool(name, borrows=False) for name in ("a", "b")),
            *(node(f"{name}1", cpu=2, labels={"pool": name}) for name in ("a", "b")),
            open_pool("default", selector={}, borrows=False) | {"spec": {"disableBorrowing": True}},
            filled("guest", "a1", cpu=2),
            pod("p", cpu=2),
        ],
        job="Pod/default/p",
        changes={"pool": {"pool": "b", "evicts": [], "placed": {"p": "b1"}}},
    ),
}
PRIORITIES = {
    "one more than the victim's, and an existing class with a higher value": Case(
        objects=[
            node("n1", cpu=2),
            priority_class("seven", 7),
            priority_class("high", 100),
            priority_class("patient", 50, never=True),
            filled("x", "n1", cpu=2, priority="seven"),
            pod("p", cpu=2),
        ],
        job="Pod/default/p",
        changes={
            "priority": {
                "priority": 8,
                "priorityClass": "high",
                "priorityClassValue": 100,
                "nominated": {"p": "n1"},
                "evicts": [{"pod": "default/x", "job": "Pod/default/x", "node": "n1", "reason": "Preempted"}],
            }
        },
    ),
    "the same as the pod before it in the queue": Case(
        objects=[
            node("n1", cpu=2),
            priority_class("seven", 7),
            pod("first", cpu=2, priority="seven", created="2024-05-01T00:30:00Z"),
            pod("p", cpu=2, created="2024-05-01T00:00:00Z"),
        ],
        job="Pod/default/p",
        changes={"priority": {"priority": 7, "priorityClass": "seven", "placed": {"p": "n1"}}},
        config=NO_PREEMPTION,
    ),
    "in every template of a job": Case(
        objects=[
            node("n1", cpu=3),
            filled("x", "n1", cpu=3),
            dijob_tasks("d", [di_task("learner", ONE), di_task("collector", ONE, replicas=2)]),
        ],
        job="DIJob/default/d",
        changes={"priority": {"priority": 1}},
    ),
    "of a TrainingJob, with elastic jobs at their minimum": Case(
        objects=[
            node("n1", cpu=3),
            trainingjob("old", trainer=resources(cpu=1), trainers=(3, 3)),
            *(pod_of(f"old-trainer-{i}", ONE, node="n1", of=owner("TrainingJob", "old")) for i in range(3)),
            trainingjob("t", trainer=resources(cpu=1), trainers=(3, 3)),
        ],
        job="TrainingJob/default/t",
        changes={"priority": {"priority": 1}, "end": {"jobs": ["TrainingJob/default/old"]}},
    ),
    "none if preemption is disabled": Case(
        objects=[node("n1", cpu=2), filled("x", "n1", cpu=2), pod("p", cpu=2)],
        job="Pod/default/p",
        config=NO_PREEMPTION,
        absent=["priority"],
    ),
}
RESOURCES = {
    "what the nearest node lacks": Case(
        objects=[
            node("n1", cpu=8, gpu=4),
            node("n2", cpu=8, gpu=4),
            filled("x", "n1", cpu=1, gpu=4),
            filled("y", "n2", cpu=1, gpu=2),
            pod("p", cpu=1, gpu=4),
        ],
        job="Pod/default/p",
        changes={"resource": {"node": "n2", "add": {GPU: "2"}, "text": f"2 more {GPU} on node n2"}},
    ),
    "several resources of one node": Case(
        objects=[node("n1", cpu=4, memory="4Gi"), pod("p", cpu="4500m", memory="6Gi")],
        job="Pod/default/p",
        changes={"resource": {"node": "n1", "add": {"cpu": "500m", "memory": "2Gi"}}},
    ),
    "room for one more pod": Case(
        objects=[node("n1", pods=1), filled("x", "n1"), pod("p")],
        job="Pod/default/p",
        changes={"resource": {"node": "n1", "add": {"pods": "1"}}},
    ),
    "more nodes if one would have to become too large": Case(
        objects=[
            node("n1", cpu=4, gpu=2),
            tyjob("j", leader=ONE, workers={"w": (8, ONE_GPU)}, min_workers=8),
        ],
        job="TYJob/default/j",
        changes={"resource": {"like": "n1", "nodes": 3, "text": "3 more nodes like n1"}},
    ),
    "a larger node if more nodes like it would not help": Case(
        objects=[node("n1", cpu=2), pod("p", cpu=7)],
        job="Pod/default/p",
        changes={"resource": {"node": "n1", "add": {"cpu": "5"}}},
    ),
    "more if other waiting pods would take some of it": Case(
        objects=[
            node("n1", cpu=2),
            filled("x", "n1", cpu=2),
            pod("first", cpu=1, created="2024-05-01T00:00:00Z"),
            pod("p", cpu=1, created="2024-05-01T00:30:00Z"),
        ],
        job="Pod/default/p",
        changes={"resource": {"node": "n1", "add": {"cpu": "2"}}},
    ),
    "no more nodes than needed, although a large job waits before it": Case(
        objects=[
            node("n1", cpu=2),
            filled("x", "n1", cpu=2),
            pod("small", cpu=2, created="2024-05-01T00:00:00Z"),
            tyjob(
                "large", leader=ONE, workers={"w": (40, ONE)}, policy="Gang", created="2024-05-01T00:00:00Z"
            ),
            *(pod(f"g-{i}", cpu=2, gang="g", created="2024-05-01T00:30:00Z") for i in range(2)),
        ],
        job="Gang/default/g",
        changes={"resource": {"like": "n1", "nodes": 3}},
        config=NO_PREEMPTION,
    ),
    "nothing if it is not room that is lacking": Case(
        objects=[node("n1", taints=[taint("team", "a")]), pod("p", cpu=1)],
        job="Pod/default/p",
        absent=DIMENSIONS,
        summary="no single change",
    ),
}
ENDS = {
    "the smallest job whose end is sufficient": Case(
        objects=[
            node("n1", cpu=4),
            node("n2", cpu=4),
            filled("large", "n1", cpu=4),
            filled("small", "n2", cpu=2),
            filled("tiny", "n2", cpu=1),
            pod("p", cpu=3),
        ],
        job="Pod/default/p",
        changes={"end": {"jobs": ["Pod/default/small"], "placed": {"p": "n2"}}},
    ),
    "two jobs if one is not sufficient": Case(
        objects=[node("n1", cpu=4), filled("a", "n1", cpu=2), filled("b", "n1", cpu=2), pod("p", cpu=4)],
        job="Pod/default/p",
        changes={"end": {"jobs": ["Pod/default/a", "Pod/default/b"]}},
    ),
    "a pod that room is reserved for": Case(
        objects=[
            node("n1", cpu=2),
            pod("gone", cpu=2, node="n1", terminating=True),
            pod("first", cpu=2, nominated="n1", created="2024-05-01T00:00:00Z"),
            pod("p", cpu=2, created="2024-05-01T00:30:00Z"),
        ],
        job="Pod/default/p",
        changes={"end": {"jobs": ["Pod/default/first"], "nominated": {"p": "n1"}}},
    ),
    "a job with its pods": Case(
        objects=[
            node("n1", cpu=3),
            tyjob("old", leader=ONE, workers={"w": (2, ONE)}),
            *(
                pod_of(f"old-{task}", ONE, node="n1", of=owner("TYJob", "old"))
                for task in ("leader", "w-0", "w-1")
            ),
            tyjob("j", leader=ONE, workers={"w": (2, ONE)}, min_workers=2),
        ],
        job="TYJob/default/j",
        changes={"end": {"jobs": ["TYJob/default/old"]}},
    ),
    "a pod of another scheduler": Case(
        objects=[node("n1", cpu=2), filled("x", "n1", cpu=2, scheduler="default-scheduler"), pod("p", cpu=2)],
        job="Pod/default/p",
        changes={"end": {"jobs": ["Pod/default/x"]}},
        absent=["priority"],
    ),
}
PARTLY = {
    "the change that completes a job that runs in part": Case(
        objects=[node("n1", cpu=3), tyjob("j", leader=ONE, workers={"w": (4, ONE)}, min_workers=1)],
        job="TYJob/default/j",
        changes={"resource": {"node": "n1", "add": {"cpu": "2"}}},
        absent=["fewer"],
        summary="complete it",
    ),
}
NOTHING = {
    "a job that has all pods placed": Case(
        objects=[node("n1"), pod("p", cpu=1)], job="Pod/default/p", absent=DIMENSIONS, summary="has all"
    ),
    "a job that is not preemptible does not grow by itself": Case(
        objects=[node("n1"), dijob("d", ONE, replicas=(1, 5))],
        job="DIJob/default/d",
        absent=DIMENSIONS,
        summary="has all",
    ),
    "an elastic job at its minimum grows later": Case(
        objects=[node("n1", cpu=1), dijob("d", ONE, replicas=(1, 5), preemptible=True)],
        job="DIJob/default/d",
        absent=DIMENSIONS,
        summary="1 of up to 5; it grows",
    ),
    "a job with reserved room": Case(
        objects=[node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)],
        job="Pod/default/p",
        absent=DIMENSIONS,
        summary="room is kept for it",
    ),
    "a job that is suspended": Case(
        objects=[node("n1", cpu=1), dijob("d", ONE, replicas=(2, 2), suspend=True)],
        job="DIJob/default/d",
        absent=DIMENSIONS,
        summary="held",
    ),
    "a job whose pod's name is taken": Case(
        objects=[node("n1"), pod("d-0-0", cpu=1), dijob("d", ONE)],
        job="DIJob/default/d",
        absent=DIMENSIONS,
        summary="held",
    ),
}
CASES = {
    f"{title}: {name}": case
    for title, table in {
        "fewer": FEWER,
        "pool": POOLS,
        "priority": PRIORITIES,
        "resource": RESOURCES,
        "end": ENDS,
        "partly placed": PARTLY,
        "nothing for": NOTHING,
    }.items()
    for name, case in table.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_proposed_changes(case: Case) -> None:
    explanation = explain(case.objects, case.job, config=case.config)
    changes = {change["dimension"]: change for change in explanation["changes"]}
    assert list(changes) == [name for name in DIMENSIONS if name in changes], "one of each, in order"
    for dimension, expected in case.changes.items():
        assert dimension in changes, explanation
        assert {key: changes[dimension].get(key) for key in expected} == expected
    assert not set(case.absent) & set(changes)
    assert case.summary in explanation["summary"]
    check_changes(explanation, case.objects, config=case.config)
