"""The cases of spec/trainingjob.md that a plan can show (9 is a simulation), and 26 of pools.md.

Also elastic sizes in general: growth, load, cooldown, surplus as victims, rebalancing, scaling parameter
servers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.builders import (
    NO_PREEMPTION,
    Amount,
    Case,
    Object,
    budget,
    check,
    dijob,
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
from tests.support import plan

EARLY, LATE = "2024-05-01T00:00:00Z", "2024-05-01T00:01:00Z"
NOW = "2024-05-01T01:00:00Z"
JUST_NOW, THIRTY_SECONDS_AGO = "2024-05-01T00:59:50Z", "2024-05-01T00:59:30Z"
A, B = open_pool("a"), open_pool("b")
LOW, HIGH = priority_class("low", -5), priority_class("high", 100)
FULL_LOAD: Object = {"maxLoad": 1}
NO_REBALANCING: Object = {"maxLoad": 1, "rebalance": False}


def trainers(
    name: str,
    sizes: tuple[int, int],
    on: Sequence[str | None] = (),
    *,
    cpu: Amount = 1,
    memory: Amount = 0,
    gpu: Amount = 0,
    labels: dict[str, str] | None = None,
    resized_at: str | None = None,
    status: Object | None = None,
    **job: Any,  # noqa: ANN401 - arguments of trainingjob()
) -> list[Object]:
    """A TrainingJob (min, max) and its running trainers: the node of each index, None if it is missing."""
    status = dict(status or {}) | (_record(resized_at) if resized_at else {})
    shape = template(cpu=cpu, memory=memory, gpu=gpu, labels=labels)
    requests = resources(cpu, memory, gpu)
    return [
        trainingjob(name, trainer=requests, trainers=sizes, status=status, **job),
        *(
            pod_of(f"{name}-trainer-{i}", shape, node=on_node, of=owner("TrainingJob", name))
            for i, on_node in enumerate(on)
            if on_node
        ),
    ]


def replicas_of(
    name: str,
    sizes: tuple[int, int],
    on: Sequence[str | None] = (),
    *,
    requested: int | None = None,
    resized_at: str | None = None,
    shape: Object | None = None,
    **job: Any,  # noqa: ANN401 - arguments of dijob()
) -> list[Object]:
    """A preemptible DIJob (min, max) of 1-CPU replicas, and its running ones."""
    status = {} if requested is None else {"requestedReplicas": requested}
    status |= _record(resized_at) if resized_at else {}
    shape = shape or template(cpu=1)
    objects = [dijob(name, shape, replicas=sizes, preemptible=True, status=status, **job)]
    for rank, on_node in enumerate(on):
        if on_node:
            one = pod_of(f"{name}-0-{rank}", shape, node=on_node, of=owner("DIJob", name))
            one["metadata"]["labels"] = {"diengine/rank": str(rank)}
            objects.append(one)
    return objects


def _record(time: str) -> Object:
    return {"scaleRecords": [{"time": time, "from": 1, "to": 2, "reason": "Grown"}]}


def servers(name: str, on: Sequence[str]) -> list[Object]:
    return [
        pod_of(f"{name}-pserver-{i}", template(cpu=1), node=on_node, of=owner("TrainingJob", name))
        for i, on_node in enumerate(on)
    ]


def new_trainers(name: str, indices: Iterable[int], on_node: str = "n1") -> dict[str, str]:
    """Trainers with these indices, on one node."""
    return {f"{name}-trainer-{i}": on_node for i in indices}


def shrunk_trainers(name: str, indices: Iterable[int]) -> dict[str, str]:
    return {f"{name}-trainer-{i}": "Shrunk" for i in indices}


def foreign_pod(
    name: str, *, cpu: Amount = 1, gpu: Amount = 0, on: str = "n1", terminating: bool = False
) -> Object:
    """A pod of another scheduler, which is never evicted."""
    return pod(name, cpu=cpu, gpu=gpu, node=on, scheduler="other", terminating=terminating)


def in_pool(pool: str, name: str, cpu: Amount = 4) -> Object:
    return node(name, cpu=cpu, labels={"pool": pool})


# --- trainingjob.md ----------------------------------------------------------------------------------------

SPEC = {
    "1: (2,2,2) is fulfilled and stays": Case(
        objects=[node("n1"), *trainers("a", (2, 2), ["n1", "n1"])],
        placed={},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "current": 2, "target": 2}},
        config=FULL_LOAD,
    ),
    "1: (1,3,2) is half fulfilled, (1,2,1) not at all, (1,2,2) wholly": Case(
        objects=[
            node("n1", cpu=7),
            *trainers("a", (1, 3), ["n1", "n1"]),
            *trainers("b", (1, 2), ["n1"]),
            *trainers("c", (1, 2), ["n1", "n1"]),
        ],
        placed=new_trainers("b", [1]) | new_trainers("a", [2]),
        order=["TrainingJob/default/b", "TrainingJob/default/a"],
        config=FULL_LOAD,
    ),
    "2: the order of growth": Case(
        # b: 1/19, then 2/19 < 1/9, then 3/19; c: 1/9
        objects=[
            node("n1"),
            *trainers("a", (1, 2), ["n1", "n1"]),
            *trainers("b", (1, 20), ["n1", "n1"]),
            *trainers("c", (1, 10), ["n1", "n1"]),
            *trainers("d", (1, 1), ["n1"]),
        ],
        placed=new_trainers("b", [2, 3]) | new_trainers("c", [2]),
        order=["TrainingJob/default/b", "TrainingJob/default/c"],
        config=FULL_LOAD,
    ),
    "3: ties go by GPUs, CPUs, memory": Case(
        objects=[
            node("n1", cpu=100, memory="100Gi", gpu=10),
            *trainers("a", (1, 2), ["n1"], gpu=1, memory="1Gi"),
            *trainers("b", (1, 2), ["n1"], memory="1Gi"),
            *trainers("c", (1, 2), ["n1"], cpu=10, memory="1Gi"),
            *trainers("d", (1, 2), ["n1"], memory="2Gi"),
        ],
        placed={f"{name}-trainer-1": "n1" for name in "bdca"},
        order=[f"TrainingJob/default/{name}" for name in "bdca"],
    ),
    "3: then by age, then by namespace and name": Case(
        objects=[
            node("n1", cpu=8),
            *trainers("a", (1, 2), ["n1"], created=LATE),
            *trainers("c", (1, 2), ["n1"], created=EARLY),
            *trainers("b", (1, 2), ["n1"], created=LATE),
            *trainers("d", (1, 2), ["n1"], created=EARLY),
        ],
        placed={f"{name}-trainer-1": "n1" for name in "cdab"},
        order=[f"TrainingJob/default/{name}" for name in "cdab"],
        config=FULL_LOAD,
    ),
    "4: one GPU is left of ten: it grows by exactly one, and stays": Case(
        objects=[
            node("n1", gpu=10),
            foreign_pod("x", gpu=8),
            *trainers("a", (1, 3), ["n1"], gpu=1),
        ],
        cycles=10,
        placed=new_trainers("a", [1]),
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "5: a job without GPUs is not shrunk where GPUs are short": Case(
        objects=[
            node("n1", cpu=5, gpu=2),
            foreign_pod("x", gpu=1),
            *trainers("a", (1, 3), ["n1"] * 3),
            pod("p", cpu=1, gpu=2),
        ],
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "6: of 64 free CPUs each gets as many as makes them equal": Case(
        objects=[
            node("n1", cpu=96),
            *trainers("a", (2, 60), ["n1"] * 2),
            *trainers("b", (2, 60), ["n1"] * 30),
        ],
        placed=new_trainers("a", range(2, 48)) | new_trainers("b", range(30, 48)),
        jobs={"TrainingJob/default/a": {"target": 48}, "TrainingJob/default/b": {"target": 48}},
        config=FULL_LOAD,
    ),
    "6: with the default load 93 of 96": Case(
        objects=[
            node("n1", cpu=96),
            *trainers("a", (2, 60), ["n1"] * 2),
            *trainers("b", (2, 60), ["n1"] * 30),
        ],
        placed=new_trainers("a", range(2, 47)) | new_trainers("b", range(30, 46)),
    ),
    "with 32 free GPUs jobs at 2 and at 30 end at 32 and 32": Case(
        objects=[
            node("n1", cpu=64, gpu=64),
            *trainers("a", (2, 60), ["n1"] * 2, gpu=1),
            *trainers("b", (2, 60), ["n1"] * 30, gpu=1),
        ],
        cycles=5,
        placed=new_trainers("a", range(2, 32)) | new_trainers("b", range(30, 32)),
        jobs={"TrainingJob/default/a": {"target": 32}, "TrainingJob/default/b": {"target": 32}},
    ),
    "7: twelve are reclaimed from the most fulfilled, none from the others": Case(
        objects=[
            node("n1", cpu=460),
            *trainers("a", (2, 60), ["n1"] * 60, cpu=5),
            *trainers("b", (2, 60), ["n1"] * 30, cpu=5),
            *trainers("c", (2, 60), ["n1"] * 2, cpu=5),
            *trainers("n", (12, 12), cpu=5),
        ],
        placed={},
        evicted=shrunk_trainers("a", range(48, 60)),
        evicted_for={"a-trainer-48": "TrainingJob/default/n"},
        jobs={
            "TrainingJob/default/n": {
                "state": "Unscheduled",
                "nominated": new_trainers("n", range(12)),
                "target": 12,
                "position": 1,
                "reasons": ["WaitingForRoom"],
            },
            "TrainingJob/default/a": {
                "state": "ScheduledSucceed",
                "current": 60,
                "target": 48,
                "position": None,
                "reasons": [],
            },
            "TrainingJob/default/b": {"target": 30, "reasons": []},
        },
    ),
    "7: the new job runs in the next cycle": Case(
        objects=[
            node("n1", cpu=460),
            *trainers("a", (2, 60), ["n1"] * 60, cpu=5),
            *trainers("b", (2, 60), ["n1"] * 30, cpu=5),
            *trainers("c", (2, 60), ["n1"] * 2, cpu=5),
            *trainers("n", (12, 12), cpu=5),
        ],
        cycles=2,
        placed=new_trainers("n", range(12)),
        evicted=shrunk_trainers("a", range(48, 60)),
        jobs={"TrainingJob/default/n": {"state": "ScheduledSucceed"}},
        config={"rebalance": False},
    ),
    "8: nothing is reclaimed if it would not suffice: a GPU job waits": Case(
        objects=[
            node("n1", cpu=10, gpu=4),
            *trainers("a", (2, 4), ["n1"] * 4, gpu=1),
            *trainers("n", (3, 3), gpu=1),
        ],
        placed={},
        jobs={
            "TrainingJob/default/n": {"state": "Unscheduled", "target": 0, "reasons": ["NoRoom"]},
            "TrainingJob/default/a": {"target": 4, "reasons": []},
        },
    ),
    "8: the pods of a CPU job are created anyway": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (2, 4), ["n1"] * 4),
            *trainers("n", (3, 6)),
        ],
        placed={},
        jobs={"TrainingJob/default/n": {"state": "Unscheduled", "current": 0, "target": 3}},
        config=FULL_LOAD,
    ),
}

# --- growth ------------------------------------------------------------------------------------------------

GROWTH = {
    "growth comes after all minimums": Case(
        objects=[
            node("n1", cpu=2),
            trainingjob("a", trainer=resources(1), trainers=(1, 4), created=EARLY),
            pod("p", cpu=1, created=LATE),
        ],
        placed={"a-trainer-0": "n1", "p": "n1"},
        config=FULL_LOAD,
    ),
    "a job that just started grows in the same cycle": Case(
        objects=[node("n1", cpu=3), trainingjob("a", trainer=resources(1), trainers=(1, 4))],
        placed=new_trainers("a", range(3)),
        jobs={"TrainingJob/default/a": {"current": 0, "target": 3, "min": 1, "max": 4, "reasons": []}},
        config=FULL_LOAD,
    ),
    "one order over all pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 3), in_pool("b", "n2", 2)),
            *trainers("x", (1, 3), ["n1", "n1"], pool="a"),
            *trainers("y", (1, 3), ["n2"], pool="b"),
        ],
        placed=new_trainers("y", [1], "n2") | new_trainers("x", [2]),
        order=["TrainingJob/default/y", "TrainingJob/default/x"],
        config=FULL_LOAD,
    ),
    "in the home pool only": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 1), in_pool("b", "n2", 4)),
            *trainers("x", (1, 3), ["n1"], pool="a"),
        ],
        placed={},
        jobs={"TrainingJob/default/x": {"state": "ScheduledSucceed", "target": 1, "reasons": []}},
        config=FULL_LOAD,
    ),
    "a borrower takes its minimum and does not grow": Case(
        objects=[
            *(A, B, in_pool("b", "n2", 4)),
            trainingjob("x", trainer=resources(1), trainers=(2, 4), pool="a"),
        ],
        cycles=3,
        placed=new_trainers("x", range(2), "n2"),
        borrowed=["x-trainer-0", "x-trainer-1"],
        config=FULL_LOAD,
    ),
    "a job that runs partly in another pool does not grow": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2")),
            *trainers("x", (1, 4), ["n1", "n2"], pool="a"),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "total free room is not enough: each instance needs a node": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1)),
            *trainers("a", (1, 2), ["n1"], cpu=2),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "a job that does not fit is skipped": Case(
        objects=[
            node("n1", cpu=6),
            *trainers("a", (1, 4), ["n1"], cpu=2),
            *trainers("b", (1, 4), ["n1"] * 3),
        ],
        placed=new_trainers("b", [3]),
        config=NO_REBALANCING,
    ),
    "the lowest free index": Case(
        objects=[node("n1", cpu=4), *trainers("a", (1, 4), ["n1", None, "n1"])],
        placed=new_trainers("a", [1, 3]),
        config=FULL_LOAD,
    ),
    "the lowest free rank": Case(
        objects=[node("n1", cpu=4), *replicas_of("d", (1, 4), ["n1", None, "n1"])],
        placed={"d-0-1": "n1", "d-0-3": "n1"},
        config=FULL_LOAD,
    ),
    "a finished instance counts, and its job does not grow": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 3), [None, "n1"]),
            pod_of(
                "a-trainer-0", template(cpu=1), node="n1", phase="Succeeded", of=owner("TrainingJob", "a")
            ),
        ],
        placed={},
        jobs={"TrainingJob/default/a": {"current": 1, "target": 1}},
        config=FULL_LOAD,
    ),
    "a terminating instance does not count, and holds its room": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"]),
            pod_of("a-trainer-1", template(cpu=1), node="n1", terminating=True, of=owner("TrainingJob", "a")),
        ],
        placed=new_trainers("a", [1]),
        jobs={"TrainingJob/default/a": {"current": 1, "target": 2}},
        config=FULL_LOAD,
    ),
    "no growth onto a pod name of another owner": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 3), ["n1"]),
            pod("a-trainer-1", cpu=1, node="n1", scheduler="other"),
        ],
        placed={},
        jobs={"TrainingJob/default/a": {"target": 1}},
        config=FULL_LOAD,
    ),
    "new instances go by BinPack": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=4)),
            *(foreign_pod("x", cpu=2, on="n2"), *trainers("a", (1, 4), ["n1"])),
        ],
        placed=new_trainers("a", [1, 2], "n2") | new_trainers("a", [3]),
        config=FULL_LOAD,
    ),
    "a cordoned node takes no instance": Case(
        objects=[
            *(node("n1", cpu=1), node("n2", cpu=4, unschedulable=True)),
            *trainers("a", (1, 4), ["n1"]),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "no job grows into reserved room": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"]),
            foreign_pod("x", terminating=True),
            pod("p", cpu=3),
        ],
        placed={},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
        config=FULL_LOAD,
    ),
    "a broken job does not grow": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=1)),
            *trainers("a", (1, 4), ["n1"], pserver=resources(5)),
        ],
        placed={},
        jobs={"TrainingJob/default/a": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
        config=FULL_LOAD,
    ),
    "a suspended job does not grow": Case(
        objects=[node("n1", cpu=4), *replicas_of("d", (1, 4), ["n1"], suspend=True)],
        placed={},
        jobs={"DIJob/default/d": {"reasons": ["Held"], "target": 1}},
        config=FULL_LOAD,
    ),
    "a DIJob may start with no replica": Case(
        objects=[node("n1", cpu=2), *replicas_of("d", (0, 4))],
        placed={"d-0-0": "n1", "d-0-1": "n1"},
        jobs={"DIJob/default/d": {"min": 0, "max": 4, "current": 0, "target": 2, "reasons": []}},
        config=FULL_LOAD,
    ),
    "a DIJob with minimum 0 is scheduled without a replica": Case(
        objects=[node("n1", cpu=1), foreign_pod("x"), *replicas_of("d", (0, 4))],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "target": 0, "position": None}},
        config=FULL_LOAD,
    ),
    "a DIJob without replicas still has its class and pool": Case(
        objects=[
            *(A, HIGH, in_pool("a", "n1")),
            dijob("d", template(cpu=5, priority="high"), replicas=(0, 4), preemptible=True, pool="a"),
        ],
        placed={},
        jobs={"DIJob/default/d": {"priority": 100, "pool": "a", "state": "ScheduledSucceed"}},
        config=FULL_LOAD,
    ),
    "DIJobs and TrainingJobs grow by one rule": Case(
        # d: 0, 1/4, then 2/4 as t, and d is the first by name
        objects=[
            node("n1", cpu=6),
            *replicas_of("d", (0, 4)),
            *trainers("t", (1, 5), ["n1"] * 3),
        ],
        placed={f"d-0-{rank}": "n1" for rank in range(3)},
        config=FULL_LOAD,
    ),
    "a DIJob that is not preemptible does not grow": Case(
        objects=[node("n1"), dijob("d", template(cpu=1), replicas=(1, 4))],
        placed={"d-0-0": "n1"},
        config=FULL_LOAD,
    ),
    "allocated ranks count as present": Case(
        objects=[
            node("n1", cpu=3),
            dijob(
                "d",
                template(cpu=1),
                replicas=(1, 4),
                preemptible=True,
                status={"allocation": ["n1", "n1"]},
            ),
        ],
        placed={"d-0-2": "n1"},
        jobs={"DIJob/default/d": {"current": 2, "target": 3}},
        config=FULL_LOAD,
    ),
}

# --- requested size and maximum -----------------------------------------------------------------------------

CEILING = {
    "more was requested: it grows to that and no further": Case(
        objects=[node("n1"), *replicas_of("d", (1, 5), ["n1"], requested=3)],
        placed={"d-0-1": "n1", "d-0-2": "n1"},
        jobs={"DIJob/default/d": {"max": 5, "target": 3, "state": "ScheduledSucceed", "reasons": []}},
        config=FULL_LOAD,
    ),
    "less was requested: the highest ranks are evicted, without a beneficiary": Case(
        objects=[node("n1"), *replicas_of("d", (1, 5), ["n1"] * 4, requested=2)],
        placed={},
        evicted={"d-0-3": "Shrunk", "d-0-2": "Shrunk"},
        evicted_for={"d-0-3": None, "d-0-2": None},
        jobs={
            "DIJob/default/d": {
                "state": "ScheduledSucceed",
                "current": 4,
                "target": 2,
                "position": None,
                "reasons": [],
            }
        },
        config=FULL_LOAD,
    ),
    "never above the maximum": Case(
        objects=[node("n1"), *replicas_of("d", (1, 3), ["n1"], requested=9)],
        placed={"d-0-1": "n1", "d-0-2": "n1"},
        config=FULL_LOAD,
    ),
    "never below the minimum": Case(
        objects=[node("n1"), *replicas_of("d", (2, 3), ["n1"] * 3, requested=1)],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        config=FULL_LOAD,
    ),
    "fulfilment is measured against what was requested": Case(
        # d: 1/2 of its requested size, t: 1/4
        objects=[
            node("n1", cpu=5),
            *replicas_of("d", (1, 5), ["n1", "n1"], requested=3),
            *trainers("t", (1, 5), ["n1", "n1"]),
        ],
        placed=new_trainers("t", [2]),
        config=NO_REBALANCING,
    ),
    "above its maximum a TrainingJob loses the highest": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 4)],
        placed={},
        evicted=shrunk_trainers("a", [3, 2]),
        evicted_for={"a-trainer-3": None},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "it loses the highest index that it has": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1", None, "n1", None, "n1"])],
        placed={},
        evicted=shrunk_trainers("a", [4]),
    ),
    "finished instances do not cause evictions": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 2), [None, "n1", "n1"]),
            pod_of(
                "a-trainer-0", template(cpu=1), node="n1", phase="Succeeded", of=owner("TrainingJob", "a")
            ),
        ],
        placed={},
    ),
    "cutting works without preemption": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3)],
        placed={},
        evicted=shrunk_trainers("a", [2]),
        config=NO_PREEMPTION,
    ),
    "cutting works during cooldown": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3, resized_at=JUST_NOW)],
        placed={},
        evicted=shrunk_trainers("a", [2]),
        jobs={"TrainingJob/default/a": {"reasons": []}},
        now=NOW,
    ),
    "cutting works for a borrower": Case(
        objects=[A, B, in_pool("b", "n2"), *trainers("a", (1, 2), ["n2"] * 3, pool="a")],
        placed={},
        evicted=shrunk_trainers("a", [2]),
    ),
    "no cutting while it is suspended": Case(
        objects=[node("n1"), *replicas_of("d", (1, 2), ["n1"] * 3, suspend=True)],
        placed={},
        jobs={"DIJob/default/d": {"target": 3}},
    ),
    "what its minimum lacks is placed after a cut": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3, master=resources(1))],
        placed={"a-master-0": "n1"},
        evicted=shrunk_trainers("a", [2]),
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
        config=FULL_LOAD,
    ),
    "room of a cut is reserved for a waiting job, without a victim": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("a", (1, 2), ["n1"] * 3),
            *trainers("b", (1, 2), ["n1"] * 2),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2]),
        evicted_for={"a-trainer-2": None},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "other jobs grow into the room of a cut once it is free": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 2), ["n1"] * 3),
            *trainers("b", (1, 2), ["n1"]),
        ],
        cycles=3,
        placed=new_trainers("b", [1]),
        evicted=shrunk_trainers("a", [2]),
        config=FULL_LOAD,
    ),
}

# --- the load of the cluster -------------------------------------------------------------------------------


def with_limit(name: str, *, cpu: Amount, limit: Amount, terminating: bool = False) -> Object:
    objects = foreign_pod(name, cpu=cpu, terminating=terminating)
    objects["spec"]["containers"][0]["resources"]["limits"] = resources(limit)
    return objects


LOAD = {
    "a CPU job leaves 3 % of the cluster free": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"])], placed=new_trainers("a", range(1, 9))
    ),
    "exactly the allowed load": Case(
        objects=[node("n1", cpu=100), *trainers("a", (1, 200), ["n1"])],
        placed=new_trainers("a", range(1, 97)),
    ),
    "half of the load": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"])],
        placed=new_trainers("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "limits count, not requests": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"], limits=resources(2))],
        placed=new_trainers(
            "a", range(1, 5)
        ),  # the one that runs has no limit: 1 + 2 · 4 = 9, and 11 is too much
        config=FULL_LOAD,
    ),
    "limits of other pods count": Case(
        objects=[node("n1"), with_limit("x", cpu=1, limit=6), *trainers("a", (1, 9), ["n1"])],
        placed=new_trainers("a", range(1, 4)),
        config=FULL_LOAD,
    ),
    "limits of terminating pods count": Case(
        objects=[
            node("n1"),
            with_limit("x", cpu=1, limit=6, terminating=True),
            *trainers("a", (1, 9), ["n1"]),
        ],
        placed=new_trainers("a", range(1, 4)),
        config=FULL_LOAD,
    ),
    "limits of finished pods do not count": Case(
        objects=[
            node("n1"),
            pod("x", cpu=6, node="n1", scheduler="other", phase="Succeeded"),
            *trainers("a", (1, 20), ["n1"]),
        ],
        placed=new_trainers("a", range(1, 10)),
        config=FULL_LOAD,
    ),
    "the load is over all nodes, also of other pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 10), in_pool("b", "n2", 10)),
            *trainers("a", (1, 20), ["n1"], pool="a"),
        ],
        placed=new_trainers("a", range(1, 10)),
        config={"maxLoad": 0.5},
    ),
    "nodes that are not ready do not count for the load": Case(
        objects=[node("n1"), node("n2", ready="False"), *trainers("a", (1, 20), ["n1"])],
        placed=new_trainers("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "cordoned nodes count for the load": Case(
        objects=[node("n1"), node("n2", unschedulable=True), *trainers("a", (1, 20), ["n1"])],
        placed=new_trainers("a", range(1, 10)),
        config={"maxLoad": 0.5},
    ),
    "memory counts like CPU": Case(
        objects=[node("n1", cpu=100), *trainers("a", (1, 20), ["n1"], memory="1Gi")],
        placed=new_trainers("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "a resource that the instance does not request does not count": Case(
        objects=[
            node("n1", cpu=100),
            pod("x", memory="10Gi", node="n1", scheduler="other"),
            *trainers("a", (1, 3), ["n1"]),
        ],
        placed=new_trainers("a", range(1, 3)),
        config={"maxLoad": 0.5},
    ),
    "GPU jobs are not limited by the load": Case(
        objects=[node("n1", cpu=4, gpu=4), *trainers("a", (1, 20), ["n1"], gpu=1)],
        placed=new_trainers("a", range(1, 4)),
        config={"maxLoad": 0.5},
    ),
    "reservations count for the load": Case(
        objects=[
            node("n1"),
            foreign_pod("x", cpu=8, terminating=True),
            pod("p", cpu=3),
            *trainers("a", (1, 20), ["n1"]),
            *(node("n2"), foreign_pod("y", cpu=9, on="n2")),
        ],
        # 20 CPUs: 8 terminate, 9 and 1 run, 3 are reserved; nothing is left, though n2 has a free CPU
        placed={},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
        config=FULL_LOAD,
    ),
    "a minimum is not limited by the load": Case(
        objects=[node("n1", cpu=2), trainingjob("a", trainer=resources(1), trainers=(2, 4))],
        placed=new_trainers("a", range(2)),
        config={"maxLoad": 0.5},
    ),
}

# --- cooldown ----------------------------------------------------------------------------------------------

COOLDOWN = {
    "a job that was just resized is in cooldown, with a reason": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], resized_at=JUST_NOW)],
        placed={},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "reasons": ["Held"], "position": None}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "a DIJob that was just resized is in cooldown": Case(
        objects=[node("n1"), *replicas_of("d", (1, 3), ["n1"], resized_at=JUST_NOW)],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "reasons": ["Held"]}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "the cooldown lasts 30 seconds": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], resized_at=THIRTY_SECONDS_AGO)],
        placed=new_trainers("a", [1, 2]),
        jobs={"TrainingJob/default/a": {"reasons": []}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "the cooldown is configurable": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], resized_at=THIRTY_SECONDS_AGO)],
        placed={},
        jobs={"TrainingJob/default/a": {"reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "31s"},
        now=NOW,
    ),
    "the newest resize counts": Case(
        objects=[
            node("n1"),
            *trainers(
                "a",
                (1, 3),
                ["n1"],
                status={
                    "scaleRecords": [
                        {"time": JUST_NOW, "from": 1, "to": 2, "reason": ""},
                        {"time": EARLY, "from": 2, "to": 1, "reason": ""},
                    ]
                },
            ),
        ],
        placed={},
        config=FULL_LOAD,
        now=NOW,
    ),
    "a job at its ceiling has no cooldown reason": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1", "n1"], resized_at=JUST_NOW)],
        placed={},
        jobs={"TrainingJob/default/a": {"reasons": []}},
        now=NOW,
    ),
    "other jobs grow during a cooldown": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"], resized_at=JUST_NOW),
            *trainers("b", (1, 3), ["n1"]),
        ],
        placed=new_trainers("b", [1]),
        config=FULL_LOAD,
        now=NOW,
    ),
    "a minimum is placed during cooldown": Case(
        objects=[node("n1", cpu=3), *trainers("a", (2, 3), ["n1"], resized_at=JUST_NOW)],
        placed=new_trainers("a", [1]),
        jobs={"TrainingJob/default/a": {"reasons": ["Held"]}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "a job in cooldown gives to the minimum of another": Case(
        objects=[
            node("n1", cpu=2),
            *trainers("a", (1, 2), ["n1", "n1"], resized_at=JUST_NOW),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1]),
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
        now=NOW,
    ),
    "growth starts a cooldown: room a cycle later is not used": Case(
        objects=[
            node("n1", cpu=4),
            foreign_pod("x", cpu=2, terminating=True),
            *trainers("a", (1, 4), ["n1"]),
        ],
        cycles=5,
        placed=new_trainers("a", [1]),
        jobs={"TrainingJob/default/a": {"target": 2, "reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "1m"},
    ),
    "after one step of the clock the cooldown is over": Case(
        objects=[
            node("n1", cpu=4),
            foreign_pod("x", cpu=2, terminating=True),
            *trainers("a", (1, 4), ["n1"]),
        ],
        cycles=5,
        placed=new_trainers("a", [1, 2, 3]),
        jobs={"TrainingJob/default/a": {"target": 4, "reasons": []}},
        config=FULL_LOAD,
    ),
    "a start is no resize": Case(
        objects=[
            node("n1", cpu=2),
            foreign_pod("x", terminating=True),
            trainingjob("a", trainer=resources(1), trainers=(1, 4)),
        ],
        cycles=5,
        placed=new_trainers("a", [0, 1]),
        config=FULL_LOAD | {"cooldown": "1h"},
    ),
    "giving starts a cooldown": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 3), ["n1"] * 3),
            foreign_pod("x", terminating=True),
            pod("p", cpu=2),
        ],
        # one trainer is evicted for p; x terminates and frees other room
        cycles=5,
        placed={"p": "n1"},
        evicted=shrunk_trainers("a", [2]),
        jobs={"TrainingJob/default/a": {"target": 2, "reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "1h"},
    ),
}

# --- surplus instances as victims ---------------------------------------------------------------------------


def full_pool(*new_objects: Object) -> list[Object]:
    """A pool of one node of 4 CPUs: a borrower, an elastic job with one surplus, and a lower pod."""
    return [
        *(A, B, LOW, HIGH, in_pool("a", "n1")),
        pod("f", cpu=1, pool="b", node="n1"),
        *trainers("e", (1, 2), ["n1", "n1"], pool="a"),
        pod("l", cpu=1, pool="a", node="n1", priority="low"),
        *new_objects,
    ]


PINNED = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
PINNED_TO_2 = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}

SURPLUS = {
    "pools 26: borrowers are evicted first": Case(
        objects=full_pool(pod("p", cpu=1, pool="a", priority="high")),
        placed={},
        evicted={"f": "Reclaimed"},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
    ),
    "pools 26: then surplus instances of elastic jobs": Case(
        objects=full_pool(pod("p", cpu=2, pool="a", priority="high")),
        placed={},
        evicted={"e-trainer-1": "Shrunk", "f": "Reclaimed"},
        evicted_for={"e-trainer-1": "Pod/default/p", "f": "Pod/default/p"},
        jobs={
            "TrainingJob/default/e": {
                "state": "ScheduledSucceed",
                "current": 2,
                "target": 1,
                "position": None,
                "reasons": [],
            }
        },
    ),
    "pools 26: then home pods of lower priority": Case(
        objects=full_pool(pod("p", cpu=3, pool="a", priority="high")),
        placed={},
        evicted={"l": "Preempted", "e-trainer-1": "Shrunk", "f": "Reclaimed"},
    ),
    "where a pool disables preemption only surplus is reclaimed": Case(
        objects=[
            *(open_pool("a", preempts=False), B, LOW, HIGH, in_pool("a", "n1")),
            pod("f", cpu=1, pool="b", node="n1"),
            *trainers("e", (1, 2), ["n1", "n1"], pool="a"),
            pod("l", cpu=1, pool="a", node="n1", priority="low"),
            pod("p", cpu=1, pool="a", priority="high"),
        ],
        placed={},
        evicted={"e-trainer-1": "Shrunk"},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "surplus is not reclaimed if it does not suffice": Case(
        objects=[
            *(open_pool("a", preempts=False), B, LOW, HIGH, in_pool("a", "n1")),
            pod("f", cpu=1, pool="b", node="n1"),
            *trainers("e", (1, 2), ["n1", "n1"], pool="a"),
            pod("l", cpu=1, pool="a", node="n1", priority="low"),
            pod("p", cpu=2, pool="a", priority="high"),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"], "nominated": {}}},
    ),
    "with disablePreemption no job gives": Case(
        objects=[node("n1", cpu=2), *trainers("e", (1, 2), ["n1", "n1"]), pod("p", cpu=1)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}, "TrainingJob/default/e": {"target": 2}},
        config=NO_PREEMPTION,
    ),
    "a class that never preempts reclaims nothing": Case(
        objects=[
            *(node("n1", cpu=2), priority_class("patient", 50, never=True)),
            *trainers("e", (1, 2), ["n1", "n1"]),
            pod("p", cpu=1, priority="patient"),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "a job of equal priority gives": Case(
        objects=[node("n1", cpu=2), *trainers("e", (1, 2), ["n1", "n1"]), pod("p", cpu=1)],
        placed={},
        evicted=shrunk_trainers("e", [1]),
    ),
    "a higher class gives nothing": Case(
        objects=[
            *(node("n1", cpu=2), HIGH),
            *trainers("e", (1, 2), ["n1", "n1"], priority="high"),
            pod("p", cpu=1),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "a DIJob gives its highest rank": Case(
        objects=[node("n1", cpu=3), *replicas_of("d", (1, 3), ["n1"] * 3), pod("p", cpu=1)],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        evicted_for={"d-0-2": "Pod/default/p"},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "a suspended job gives nothing": Case(
        objects=[node("n1", cpu=2), *replicas_of("d", (1, 2), ["n1"] * 2, suspend=True), pod("p", cpu=1)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "a job that lacks a parameter server gives nothing": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=2), foreign_pod("x", cpu=2, on="n2")),
            *trainers("e", (1, 2), ["n1", "n1"], pserver=resources(2)),
            foreign_pod("y"),
            pod("p", cpu=1),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "the most fulfilled gives": Case(
        objects=[
            node("n1", cpu=6),
            *trainers("a", (1, 5), ["n1"] * 3),
            *trainers("b", (1, 3), ["n1"] * 3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("b", [2]),
    ),
    "one at a time, ties in the reverse growth order": Case(
        # a2 at 1; then b2 and a1 both at 1/2, and b would grow after a
        objects=[
            node("n1", cpu=6),
            *trainers("a", (1, 3), ["n1"] * 3),
            *trainers("b", (1, 5), ["n1"] * 3),
            pod("p", cpu=2),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2]) | shrunk_trainers("b", [2]),
    ),
    "among equals the one with more GPUs gives": Case(
        objects=[
            node("n1", cpu=4, gpu=4),
            *trainers("a", (1, 2), ["n1"] * 2, gpu=1),
            *trainers("b", (1, 2), ["n1"] * 2),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1]),
    ),
    "of two nodes the one of the more fulfilled job": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=3)),
            *trainers("a", (1, 5), ["n1"] * 3),
            *trainers("b", (1, 3), ["n2"] * 3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("b", [2]),
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
    ),
    "a node with borrowers before one with surplus": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 2), in_pool("a", "n2", 2)),
            *trainers("e", (1, 2), ["n1", "n1"], pool="a"),
            *(pod("f1", cpu=1, pool="b", node="n2"), pod("f2", cpu=1, pool="b", node="n2")),
            pod("p", cpu=1, pool="a"),
        ],
        placed={},
        evicted={"f2": "Reclaimed"},
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
    ),
    "a node with surplus before one with lower classes": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=1), node("n2", cpu=2)),
            pod("l", cpu=1, node="n1", priority="low"),
            *trainers("e", (1, 2), ["n2", "n2"]),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted=shrunk_trainers("e", [1]),
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
    ),
    "surplus protected by a budget is reclaimed only if no other is enough": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=3)),
            *trainers("a", (1, 3), ["n1"] * 3, labels={"app": "guarded"}),
            *trainers("b", (1, 5), ["n2"] * 3),
            budget("g", selector={"app": "guarded"}, min_available=3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("b", [2]),
    ),
    "surplus protected by a budget is reclaimed if no other is enough": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"] * 3, labels={"app": "guarded"}),
            budget("g", selector={"app": "guarded"}, min_available=3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2]),
    ),
    "only the highest index is a candidate": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1", "n2"]),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "the highest existing index, even with a gap below": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1), foreign_pod("x", on="n2")),
            *trainers("a", (1, 5), ["n1", None, None, "n1"]),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [3]),
    ),
    "several instances, as long as each is the highest": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1", "n2"]),
            pod("g0", cpu=1, gang="g", spec=PINNED),
            pod("g1", cpu=1, gang="g", spec=PINNED_TO_2),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1, 2]),
        jobs={"Gang/default/g": {"nominated": {"g0": "n1", "g1": "n2"}}},
    ),
    "if the highest does not help the job gives nothing more": Case(
        # without trainer 1 the gang would fit n1, but then trainer 2 could stay
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1", "n2"]),
            pod("g0", cpu=1, gang="g", spec=PINNED),
            pod("g1", cpu=1, gang="g", spec=PINNED),
        ],
        placed={},
        jobs={"Gang/default/g": {"reasons": ["NoRoom"]}},
        config=NO_REBALANCING | {"cooldown": "0s"},
    ),
    "of a lower class a lower instance goes only with those above it": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=2), node("n2", cpu=2), foreign_pod("x", on="n1")),
            *trainers("a", (1, 3), ["n2", "n1", "n2"], priority="low"),
            pod("p", cpu=1, priority="high", spec=PINNED),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1, 2]),
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 1}},
    ),
    "of a lower class an instance of the minimum is a home pod, of any index": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=2), node("n2", cpu=3), foreign_pod("x", on="n1")),
            *trainers("a", (1, 3), ["n1", "n2", "n2"], priority="low"),
            pod("p", cpu=1, priority="high", spec=PINNED),
        ],
        placed={},
        evicted={"a-trainer-0": "Preempted"},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2}},
        config=NO_REBALANCING,
    ),
    "a job of a lower class that keeps a part gives its highest instances": Case(
        # trainer 1 does not fit back, so trainer 2 leaves as well
        objects=[
            *(LOW, HIGH, node("n1", cpu=3), node("n2", cpu=1)),
            *trainers("a", (1, 4), ["n1", "n1", "n2", "n1"], priority="low"),
            *(pod(f"g{i}", cpu=1, gang="g", priority="high", spec=PINNED) for i in range(2)),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1, 2, 3]),
        config=NO_REBALANCING,
    ),
    "never below its minimum": Case(
        objects=[node("n1", cpu=3), *trainers("a", (2, 3), ["n1"] * 3), pod("p", cpu=2)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}, "TrainingJob/default/a": {"target": 3}},
    ),
    "a job of lower priority gives one instance if that is enough": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=3)),
            *trainers("a", (2, 3), ["n1"] * 3, priority="low"),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2]),
    ),
    "a job of lower priority is evicted whole if one instance is not enough": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=3)),
            *trainers("a", (2, 3), ["n1"] * 3, priority="low"),
            pod("p", cpu=2, priority="high"),
        ],
        placed={},
        evicted={f"a-trainer-{i}": "Preempted" for i in range(3)},
        jobs={
            "TrainingJob/default/a": {
                "state": "Unscheduled",
                "current": 3,
                "target": 2,
                "allocation": {},
                "reasons": ["NoRoom"],
            }
        },
    ),
    "the rest of a victim may be reclaimed by the next job": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"] * 3, created=EARLY),
            pod("p", cpu=1, created=EARLY),
            pod("q", cpu=1, created=LATE),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1, 2]),
        evicted_for={"a-trainer-2": "Pod/default/p", "a-trainer-1": "Pod/default/q"},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 1}},
    ),
    "no more is reclaimed from a victim than it has": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (2, 3), ["n1"] * 3, created=EARLY),
            pod("p", cpu=1, created=EARLY),
            pod("q", cpu=1, created=LATE),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2]),
        jobs={"Pod/default/q": {"state": "Unscheduled", "reasons": ["Behind"]}},
    ),
    "a job that gives does not grow in the same cycle": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1"]),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        evicted=shrunk_trainers("a", [1]),
        jobs={"TrainingJob/default/a": {"target": 1}},
        config=FULL_LOAD,
    ),
    "a gang reclaims for its minimum only": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"] * 4),
            tyjob("t", leader=template(cpu=1), workers={"w": (3, template(cpu=1))}, min_workers=1),
        ],
        placed={},
        evicted=shrunk_trainers("a", [2, 3]),
        jobs={"TYJob/default/t": {"nominated": {"t-leader": "n1", "t-w-0": "n1"}}},
    ),
    "a new elastic job reclaims for its minimum only": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"] * 4),
            trainingjob("b", trainer=resources(1), trainers=(1, 4)),
        ],
        placed={},
        evicted=shrunk_trainers("a", [3]),
        jobs={"TrainingJob/default/b": {"nominated": {"b-trainer-0": "n1"}}},
    ),
    "growth reclaims nothing": Case(
        objects=[node("n1", cpu=4), *trainers("a", (1, 2), ["n1"] * 2), *trainers("b", (1, 5), ["n1"] * 2)],
        placed={},
        config=FULL_LOAD,
    ),
    "surplus of a borrower is not reclaimed as surplus": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 1), in_pool("b", "n2", 3)),
            pod("x", cpu=1, pool="a", node="n1"),
            *trainers("e", (1, 3), ["n2"] * 3, pool="a"),
            pod("p", cpu=1, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "a lower instance of a borrower is reclaimed only with those above it": Case(
        objects=[
            *(A, B, in_pool("b", "n2", 1), in_pool("b", "n3", 2)),
            *trainers("e", (1, 3), ["n3", "n2", "n3"], pool="a"),
            pod("p", cpu=1, pool="b", spec=PINNED_TO_2),
        ],
        placed={},
        evicted={"e-trainer-1": "Reclaimed", "e-trainer-2": "Reclaimed"},
    ),
    "an elastic borrower is reclaimed down to its minimum": Case(
        objects=[
            *(A, B, in_pool("b", "n2", 3)),
            *trainers("e", (1, 3), ["n2"] * 3, pool="a"),
            pod("p", cpu=2, pool="b"),
        ],
        placed={},
        evicted={"e-trainer-1": "Reclaimed", "e-trainer-2": "Reclaimed"},
    ),
}

# --- rebalancing -------------------------------------------------------------------------------------------


def unequal(*more: Object, high: int = 3) -> list[Object]:
    """A full node: one job has three instances, another one has one."""
    return [
        node("n1", cpu=4),
        *trainers("h", (1, high), ["n1"] * 3),
        *trainers("l", (1, high), ["n1"]),
        *more,
    ]


REBALANCING = {
    "60 and 2 become 31 and 31": Case(
        objects=[
            node("n1", cpu=62),
            *trainers("h", (2, 60), ["n1"] * 60),
            *trainers("l", (2, 60), ["n1"] * 2),
        ],
        placed={},
        evicted=shrunk_trainers("h", range(31, 60)),
        evicted_for={"h-trainer-31": "TrainingJob/default/l"},
        jobs={
            "TrainingJob/default/h": {
                "state": "ScheduledSucceed",
                "current": 60,
                "target": 31,
                "position": None,
                "reasons": [],
            },
            "TrainingJob/default/l": {
                "state": "ScheduledPartly",
                "current": 2,
                "target": 31,
                "position": None,
                "nominated": new_trainers("l", range(2, 31)),
                "reasons": ["WaitingForRoom"],
            },
        },
    ),
    "31 and 31 stay": Case(
        objects=[
            node("n1", cpu=62),
            *trainers("h", (2, 60), ["n1"] * 60),
            *trainers("l", (2, 60), ["n1"] * 2),
        ],
        cycles=6,
        placed=new_trainers("l", range(2, 31)),
        evicted=shrunk_trainers("h", range(31, 60)),
        jobs={
            "TrainingJob/default/h": {"state": "ScheduledSucceed", "target": 31, "reasons": []},
            "TrainingJob/default/l": {"state": "ScheduledSucceed", "target": 31, "nominated": {}},
        },
        config={"cooldown": "0s"},
    ),
    "3 and 1 become 2 and 2": Case(
        objects=unequal(),
        placed={},
        evicted=shrunk_trainers("h", [2]),
        evicted_for={"h-trainer-2": "TrainingJob/default/l"},
        jobs={"TrainingJob/default/l": {"nominated": {"l-trainer-1": "n1"}}},
    ),
    "3 and 2 stay: a donor stays at least as fulfilled": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 4), ["n1"] * 3),
            *trainers("l", (1, 4), ["n1"] * 2),
        ],
        placed={},
    ),
    "no rebalancing if it is disabled": Case(objects=unequal(), placed={}, config={"rebalance": False}),
    "no rebalancing without preemption": Case(objects=unequal(), placed={}, config=NO_PREEMPTION),
    "no rebalancing while a minimum waits": Case(
        objects=unequal(pod("p", cpu=4)),
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "a job that never fits does not prevent rebalancing": Case(
        objects=unequal(pod("p", cpu=5)),
        placed={},
        evicted=shrunk_trainers("h", [2]),
        jobs={"Pod/default/p": {"state": "ScheduledFailed"}},
    ),
    "a job that waits in another pool does not prevent rebalancing": Case(
        objects=[
            *(open_pool("a", shares=False), open_pool("b", shares=False)),
            *(in_pool("a", "n1", 4), in_pool("b", "n2", 4)),
            *trainers("h", (1, 3), ["n1"] * 3, pool="a"),
            *trainers("l", (1, 3), ["n1"], pool="a"),
            *(pod("x", cpu=4, pool="b", node="n2"), pod("p", cpu=1, pool="b")),
        ],
        placed={},
        evicted=shrunk_trainers("h", [2]),
    ),
    "no rebalancing between pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 3), in_pool("b", "n2", 1)),
            *trainers("h", (1, 3), ["n1"] * 3, pool="a"),
            *trainers("l", (1, 3), ["n2"], pool="b"),
        ],
        placed={},
    ),
    "no transfer if the receiver can grow": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed=new_trainers("l", [1]),
        config=FULL_LOAD,
    ),
    "no transfer if the receiver can grow after terminating pods are gone": Case(
        objects=[
            *(node("n1", cpu=5), foreign_pod("x", terminating=True)),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        cycles=2,
        placed=new_trainers("l", [1]),
        config=FULL_LOAD,
    ),
    "the load does not forbid a transfer": Case(
        objects=unequal(), placed={}, evicted=shrunk_trainers("h", [2]), config={"maxLoad": 0.5}
    ),
    "a job that the load keeps from growing receives too": Case(
        objects=[
            node("n1", cpu=8),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk_trainers("h", [2]),
        jobs={"TrainingJob/default/l": {"nominated": {"l-trainer-1": "n1"}}},
        config={"maxLoad": 0.5},
    ),
    "a higher class gives nothing to a lower": Case(
        objects=[
            *(HIGH, node("n1", cpu=4)),
            *trainers("h", (1, 3), ["n1"] * 3, priority="high"),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
    ),
    "a lower class gives to a higher one, but stays at least as fulfilled": Case(
        objects=[
            *(HIGH, node("n1", cpu=4)),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], priority="high"),
        ],
        placed={},
        evicted=shrunk_trainers("h", [2]),
    ),
    "a job in cooldown does not donate": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("h", (1, 3), ["n1"] * 3, resized_at=JUST_NOW),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        now=NOW,
    ),
    "a job in cooldown does not receive": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], resized_at=JUST_NOW),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"reasons": ["Held"]}},
        now=NOW,
    ),
    "a job that grew in this cycle does not donate": Case(
        # h takes the last free CPU, since l needs two
        objects=[
            node("n1", cpu=6),
            *trainers("h", (1, 6), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], cpu=2),
        ],
        placed=new_trainers("h", [3]),
        config=FULL_LOAD,
    ),
    "the instance must make room: two small ones on one node do not": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], cpu=2),
        ],
        placed={},
    ),
    "the first in the reverse order of growth that makes room": Case(
        # g is as fulfilled as h and donates first, but its last instance is too small for l
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=8)),
            *trainers("h", (1, 3), ["n1"] * 3, created=LATE),
            *trainers("g", (1, 3), ["n2"] * 3, cpu=2, created=EARLY),
            *trainers("l", (1, 3), ["n2"], cpu=2),
        ],
        placed={},
        evicted=shrunk_trainers("g", [2]),
    ),
    "the least fulfilled receives, the most fulfilled gives": Case(
        # h: 4/4, m: 2/4, l: 0; h gives to l: 3/4 and 1/4; again: 2/4 and 2/4
        objects=[
            node("n1", cpu=9),
            *trainers("h", (1, 5), ["n1"] * 5),
            *trainers("m", (1, 5), ["n1"] * 3),
            *trainers("l", (1, 5), ["n1"]),
        ],
        placed={},
        evicted=shrunk_trainers("h", [3, 4]),
        evicted_for={"h-trainer-4": "TrainingJob/default/l", "h-trainer-3": "TrainingJob/default/l"},
        jobs={"TrainingJob/default/m": {"target": 3, "reasons": []}},
    ),
    "a DIJob gives to a TrainingJob": Case(
        objects=[node("n1", cpu=4), *replicas_of("d", (1, 3), ["n1"] * 3), *trainers("t", (1, 3), ["n1"])],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        evicted_for={"d-0-2": "TrainingJob/default/t"},
    ),
    "a TrainingJob gives to a DIJob, up to its requested size": Case(
        objects=[
            node("n1", cpu=5),
            *replicas_of("d", (0, 5), requested=1),
            *trainers("t", (1, 5), ["n1"] * 5),
        ],
        # t: 3/4, d: 1/1: t would be less fulfilled
        placed={},
    ),
    "a job cut to its maximum does not donate if the cut frees enough room": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 4),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk_trainers("h", [3]),
        config=FULL_LOAD,
    ),
    "a job cut to its maximum donates if the cut does not free enough room": Case(
        # the load keeps l from growing into the room of the cut
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 4),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk_trainers("h", [2, 3]),
        evicted_for={"h-trainer-3": None, "h-trainer-2": "TrainingJob/default/l"},
        config={"maxLoad": 0.8},
    ),
}

# --- reservations for growth --------------------------------------------------------------------------------


def with_nominations(
    name: str,
    tasks: dict[str, str],
    *,
    sizes: tuple[int, int] = (1, 3),
    **more: Any,  # noqa: ANN401 - arguments of trainers()
) -> list[Object]:
    """A job with one trainer, and nominations for more."""
    return trainers(name, sizes, ["n1"], status={"nominations": tasks}, **more)


RESERVATIONS = {
    "a growth reservation is kept while pods terminate": Case(
        objects=[
            node("n1", cpu=2),
            foreign_pod("x", terminating=True),
            *with_nominations("l", {"l-trainer-1": "n1"}),
        ],
        placed={},
        jobs={
            "TrainingJob/default/l": {
                "state": "ScheduledPartly",
                "nominated": {"l-trainer-1": "n1"},
                "current": 1,
                "target": 2,
                "position": None,
                "reasons": ["WaitingForRoom"],
            }
        },
    ),
    "a growth reservation is used when they are gone": Case(
        objects=[
            node("n1", cpu=2),
            foreign_pod("x", terminating=True),
            *with_nominations("l", {"l-trainer-1": "n1"}),
        ],
        cycles=2,
        placed=new_trainers("l", [1]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "reasons": []}},
    ),
    "on its nominated node, whatever BinPack prefers": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=4)),
            *with_nominations("l", {"l-trainer-1": "n2"}, sizes=(1, 2)),
        ],
        placed=new_trainers("l", [1], "n2"),
        config=FULL_LOAD,
    ),
    "a growth reservation is used during cooldown": Case(
        objects=[node("n1", cpu=3), *with_nominations("l", {"l-trainer-1": "n1"}, resized_at=JUST_NOW)],
        placed=new_trainers("l", [1]),
        jobs={"TrainingJob/default/l": {"reasons": ["Held"]}},
        now=NOW,
    ),
    "growth reservations precede growth of other jobs": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 9), ["n1", "n1"]),
            *with_nominations("l", {"l-trainer-1": "n1"}, sizes=(1, 2)),
        ],
        placed=new_trainers("l", [1]),
        config=NO_REBALANCING,
    ),
    "growth reservations ignore the load": Case(
        objects=[node("n1", cpu=2), *with_nominations("l", {"l-trainer-1": "n1"})],
        placed=new_trainers("l", [1]),
        config={"maxLoad": 0.5},
    ),
    "a growth reservation is dropped when its room is gone": Case(
        objects=[node("n1", cpu=2), foreign_pod("x"), *with_nominations("l", {"l-trainer-1": "n1"})],
        placed={},
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 1}},
    ),
    "a growth reservation is dropped above the ceiling": Case(
        objects=[
            node("n1", cpu=3),
            foreign_pod("x", terminating=True),
            *trainers("l", (1, 2), ["n1", "n1"], status={"nominations": {"l-trainer-2": "n1"}}),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 2}},
    ),
    "growth reservations are used all or none": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1), foreign_pod("x", on="n2")),
            foreign_pod("y", terminating=True),
            *with_nominations("l", {"l-trainer-1": "n1", "l-trainer-2": "n2"}),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"nominated": {}, "target": 1}},
    ),
    "a victim of another minimum loses its growth reservation": Case(
        objects=[
            *(HIGH, node("n1", cpu=2), node("n2", cpu=1), foreign_pod("x", on="n2", terminating=True)),
            *trainers("l", (1, 3), ["n1", "n1"], status={"nominations": {"l-trainer-2": "n2"}}),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        evicted=shrunk_trainers("l", [1]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 1}},
    ),
    "a job grows beside its growth reservation": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1), foreign_pod("x", on="n2", terminating=True)),
            *with_nominations("l", {"l-trainer-1": "n2"}),
        ],
        placed=new_trainers("l", [2]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledPartly", "target": 3}},
        config=FULL_LOAD,
    ),
    "a DIJob has growth reservations too": Case(
        objects=[
            *(node("n1", cpu=2), foreign_pod("x", terminating=True)),
            dijob(
                "d",
                template(cpu=1),
                replicas=(1, 3),
                preemptible=True,
                status={"allocation": ["n1"], "nominations": {"d-0-1": "n1"}},
            ),
        ],
        cycles=3,
        placed={"d-0-1": "n1"},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "target": 2}},
    ),
}

# --- scaling parameter servers ------------------------------------------------------------------------------


def scaled(sizes: tuple[int, int], pservers: tuple[int, int], on: int, have: int) -> list[Object]:
    """A TrainingJob with this many trainers and scaling pservers of 1 CPU on n1."""
    low, high = pservers
    objects = trainers("a", sizes, ["n1"] * on, pserver=resources(1), pservers=low, scaled_to=high)
    return [*objects, *servers("a", ["n1"] * have)]


def completed(objects: list[Object], ranges: Mapping[str, str]) -> list[Object]:
    """Objects with TrainingJobs of which instances have succeeded, and their pods are gone."""
    done = {"status": {"completed": dict(ranges)}}
    return [one | done if one["kind"] == "TrainingJob" else one for one in objects]


SERVERS = {
    "a parameter server that has succeeded is not replaced": Case(
        objects=[
            node("n1"),
            *completed(scaled((1, 2), (1, 2), 1, 1), {"pserver": "1", "trainer": "1"}),
        ],
        placed={},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed"}},
        config=FULL_LOAD,
    ),
    "parameter servers scale with the trainers": Case(
        # 1/2: 1 + 1/2 · 2 = 2; 1: 3
        objects=[node("n1"), *scaled((1, 3), (1, 3), 1, 1)],
        placed=new_trainers("a", [1, 2]) | {"a-pserver-1": "n1", "a-pserver-2": "n1"},
        roles={"a-pserver-1": "pserver", "a-trainer-1": "trainer"},
        jobs={
            "TrainingJob/default/a": {
                "min": 1,
                "max": 3,
                "current": 1,
                "target": 3,
                "state": "ScheduledSucceed",
            }
        },
        config=FULL_LOAD,
    ),
    "parameter servers scale from the start": Case(
        objects=[node("n1"), *scaled((1, 3), (1, 2), 0, 0)],
        placed=new_trainers("a", range(3)) | {"a-pserver-0": "n1", "a-pserver-1": "n1"},
        config=FULL_LOAD,
    ),
    "a trainer and its parameter server are placed both or neither": Case(
        objects=[node("n1", cpu=3), *scaled((1, 3), (1, 3), 1, 1)],
        placed={},
        config=FULL_LOAD,
    ),
    "a half is rounded to the even number: up": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (1, 2), 1, 1)],
        placed=new_trainers("a", [1]) | {"a-pserver-1": "n1"},
        config=FULL_LOAD,
    ),
    "a half is rounded to the even number: down": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (2, 3), 1, 2)],
        placed=new_trainers("a", [1]),
        config=FULL_LOAD,
    ),
    "without scaleWithTrainers parameter servers do not scale": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 3), ["n1"], pserver=resources(1)),
            *servers("a", ["n1"]),
        ],
        placed=new_trainers("a", [1, 2]),
        config=FULL_LOAD,
    ),
    "surplus parameter servers are evicted, the highest first, without a beneficiary": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (1, 3), 1, 3)],
        placed={},
        evicted={"a-pserver-2": "Shrunk", "a-pserver-1": "Shrunk"},
        evicted_for={"a-pserver-2": None},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 1, "reasons": []}},
        config=FULL_LOAD,
    ),
    "no parameter server is evicted if the job grows": Case(
        objects=[node("n1"), *scaled((1, 3), (1, 3), 1, 3)],
        placed=new_trainers("a", [1, 2]),
        config=FULL_LOAD,
    ),
    "parameter servers are not evicted before their trainers": Case(
        objects=[
            node("n1", cpu=5),
            *scaled((1, 3), (1, 3), 1, 3),
            pod_of("a-trainer-1", template(cpu=1), node="n1", terminating=True, of=owner("TrainingJob", "a")),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "parameter servers are no surplus": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=1)),
            *scaled((1, 3), (1, 3), 1, 1),
            pod_of("a-trainer-1", template(cpu=1), node="n2", of=owner("TrainingJob", "a")),
            pod_of("a-pserver-1", template(cpu=1), node="n1", of=owner("TrainingJob", "a")),
            foreign_pod("x"),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "parameter servers are evicted after their trainer": Case(
        # trainer 1 is evicted for p; in the next cycle pserver 1 is surplus
        objects=[
            node("n1", cpu=4),
            *scaled((1, 3), (1, 3), 2, 2),
            pod("p", cpu=1),
        ],
        cycles=5,
        placed={"p": "n1"},
        evicted={"a-trainer-1": "Shrunk", "a-pserver-1": "Shrunk"},
        evicted_for={"a-trainer-1": "Pod/default/p", "a-pserver-1": None},
        jobs={"TrainingJob/default/a": {"target": 1, "state": "ScheduledSucceed"}},
        config=FULL_LOAD,
    ),
    "a job whose next step needs a parameter server does not receive": Case(
        objects=[
            node("n1", cpu=5),
            *scaled((1, 3), (1, 3), 1, 1),
            *trainers("h", (1, 3), ["n1"] * 3),
        ],
        placed={},
        config=FULL_LOAD,
    ),
}

CASES = SPEC | GROWTH | CEILING | LOAD | COOLDOWN | SURPLUS | REBALANCING | RESERVATIONS | SERVERS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    answer = plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now)
    check(case, answer)


def test_growth_may_request_a_resource_that_no_node_has() -> None:
    """Nothing of the job runs, and no pod or node has the resource that it would request."""
    job = dijob("d", template(cpu=1, gpu=1), replicas=(0, 4), preemptible=True)
    paddle = trainingjob("t", trainer={"cpu": "1"}, pserver={"nvidia.com/gpu": "1"}, scaled_to=3)
    answer = plan([node("n1", cpu=4), job, paddle], cycles=3)
    assert answer["stable"]
    assert {entry["job"]: entry["target"] for entry in answer["jobs"]}["DIJob/default/d"] == 0


def test_a_victim_of_anti_affinity_does_not_return_before_its_beneficiary() -> None:
    """By dominant share the victim is first in the queue, but the room is reserved for the other."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "y"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    anti_affine = template(cpu=1, labels={"app": "y"}, priority="low", spec={"affinity": affinity})
    objects = [
        node("n1", cpu=7, labels={"zone": "b"}),
        priority_class("low", -5),
        dijob("shy", anti_affine, preemptible=True),
        dijob("trio", template(cpu=1, labels={"app": "y"}), replicas=(3, 3)),
    ]
    answer = plan(objects, config={"queuePolicy": "DRF"}, cycles=12)
    assert answer["stable"]
    assert {entry["job"]: entry["target"] for entry in answer["jobs"]} == {
        "DIJob/default/shy": 0,
        "DIJob/default/trio": 3,
    }
