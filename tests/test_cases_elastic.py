"""The cases of spec/trainingjob.md that a plan can show (9 is a simulation), 26 of pools.md, and elastic
sizes in general: growth, load, cooldown, extras as victims, rebalancing, parameter servers that scale.
"""

from collections.abc import Iterable, Sequence
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
JUST_NOW, HALF_A_MINUTE_AGO = "2024-05-01T00:59:50Z", "2024-05-01T00:59:30Z"
A, B = open_pool("a"), open_pool("b")
LOW, HIGH = priority_class("low", -5), priority_class("high", 100)
FULL_LOAD: Object = {"maxLoad": 1}
STILL: Object = {"maxLoad": 1, "rebalance": False}


def trainers(
    name: str,
    sizes: tuple[int, int],
    on: Sequence[str | None] = (),
    *,
    cpu: Amount = 1,
    memory: Amount = 0,
    gpu: Amount = 0,
    labels: dict[str, str] | None = None,
    changed: str | None = None,
    status: Object | None = None,
    **job: Any,  # noqa: ANN401 - what trainingjob() takes
) -> list[Object]:
    """A TrainingJob (min, max) and its running trainers: the node of each index, None where one lacks."""
    status = dict(status or {}) | (_record(changed) if changed else {})
    shape = template(cpu=cpu, memory=memory, gpu=gpu, labels=labels)
    asked = resources(cpu, memory, gpu)
    return [
        trainingjob(name, trainer=asked, trainers=sizes, status=status, **job),
        *(
            pod_of(f"{name}-trainer-{i}", shape, node=where, of=owner("TrainingJob", name))
            for i, where in enumerate(on)
            if where
        ),
    ]


def ranks(
    name: str,
    sizes: tuple[int, int],
    on: Sequence[str | None] = (),
    *,
    requested: int | None = None,
    changed: str | None = None,
    shape: Object | None = None,
    **job: Any,  # noqa: ANN401 - what dijob() takes
) -> list[Object]:
    """A preemptible DIJob (min, max) of 1-CPU replicas, and those that run."""
    status = {} if requested is None else {"requestedReplicas": requested}
    status |= _record(changed) if changed else {}
    shape = shape or template(cpu=1)
    made = [dijob(name, shape, replicas=sizes, preemptible=True, status=status, **job)]
    for rank, where in enumerate(on):
        if where:
            one = pod_of(f"{name}-0-{rank}", shape, node=where, of=owner("DIJob", name))
            one["metadata"]["labels"] = {"diengine/rank": str(rank)}
            made.append(one)
    return made


def _record(time: str) -> Object:
    return {"scaleRecords": [{"time": time, "from": 1, "to": 2, "reason": "Grown"}]}


def servers(name: str, on: Sequence[str]) -> list[Object]:
    return [
        pod_of(f"{name}-pserver-{i}", template(cpu=1), node=where, of=owner("TrainingJob", name))
        for i, where in enumerate(on)
    ]


def new(name: str, indices: Iterable[int], where: str = "n1") -> dict[str, str]:
    """Trainers with these indices, on one node."""
    return {f"{name}-trainer-{i}": where for i in indices}


def shrunk(name: str, indices: Iterable[int]) -> dict[str, str]:
    return {f"{name}-trainer-{i}": "Shrunk" for i in indices}


def theirs(name: str, *, cpu: Amount = 1, gpu: Amount = 0, on: str = "n1", leaves: bool = False) -> Object:
    """A pod of another scheduler, which nothing moves."""
    return pod(name, cpu=cpu, gpu=gpu, node=on, scheduler="other", terminating=leaves)


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
        placed=new("b", [1]) | new("a", [2]),
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
        placed=new("b", [2, 3]) | new("c", [2]),
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
            theirs("x", gpu=8),
            *trainers("a", (1, 3), ["n1"], gpu=1),
        ],
        cycles=10,
        placed=new("a", [1]),
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "5: a job without GPUs is not shrunk where GPUs are short": Case(
        objects=[
            node("n1", cpu=5, gpu=2),
            theirs("x", gpu=1),
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
        placed=new("a", range(2, 48)) | new("b", range(30, 48)),
        jobs={"TrainingJob/default/a": {"target": 48}, "TrainingJob/default/b": {"target": 48}},
        config=FULL_LOAD,
    ),
    "6: with the default load 93 of 96": Case(
        objects=[
            node("n1", cpu=96),
            *trainers("a", (2, 60), ["n1"] * 2),
            *trainers("b", (2, 60), ["n1"] * 30),
        ],
        placed=new("a", range(2, 47)) | new("b", range(30, 46)),
    ),
    "with 32 free GPUs jobs at 2 and at 30 end at 32 and 32": Case(
        objects=[
            node("n1", cpu=64, gpu=64),
            *trainers("a", (2, 60), ["n1"] * 2, gpu=1),
            *trainers("b", (2, 60), ["n1"] * 30, gpu=1),
        ],
        cycles=5,
        placed=new("a", range(2, 32)) | new("b", range(30, 32)),
        jobs={"TrainingJob/default/a": {"target": 32}, "TrainingJob/default/b": {"target": 32}},
    ),
    "7: twelve are taken from the most fulfilled, none from the others": Case(
        objects=[
            node("n1", cpu=460),
            *trainers("a", (2, 60), ["n1"] * 60, cpu=5),
            *trainers("b", (2, 60), ["n1"] * 30, cpu=5),
            *trainers("c", (2, 60), ["n1"] * 2, cpu=5),
            *trainers("n", (12, 12), cpu=5),
        ],
        placed={},
        evicted=shrunk("a", range(48, 60)),
        evicted_for={"a-trainer-48": "TrainingJob/default/n"},
        jobs={
            "TrainingJob/default/n": {
                "state": "Unscheduled",
                "nominated": new("n", range(12)),
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
    "7: and the newcomer runs in the next cycle": Case(
        objects=[
            node("n1", cpu=460),
            *trainers("a", (2, 60), ["n1"] * 60, cpu=5),
            *trainers("b", (2, 60), ["n1"] * 30, cpu=5),
            *trainers("c", (2, 60), ["n1"] * 2, cpu=5),
            *trainers("n", (12, 12), cpu=5),
        ],
        cycles=2,
        placed=new("n", range(12)),
        evicted=shrunk("a", range(48, 60)),
        jobs={"TrainingJob/default/n": {"state": "ScheduledSucceed"}},
        config={"rebalance": False},
    ),
    "8: what would not suffice is not taken: a GPU job waits": Case(
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
    "8: the pods of a CPU job are made all the same": Case(
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
    "growth comes after everybody's minimum": Case(
        objects=[
            node("n1", cpu=2),
            trainingjob("a", trainer=resources(1), trainers=(1, 4), created=EARLY),
            pod("p", cpu=1, created=LATE),
        ],
        placed={"a-trainer-0": "n1", "p": "n1"},
        config=FULL_LOAD,
    ),
    "what just started grows in the same cycle": Case(
        objects=[node("n1", cpu=3), trainingjob("a", trainer=resources(1), trainers=(1, 4))],
        placed=new("a", range(3)),
        jobs={"TrainingJob/default/a": {"current": 0, "target": 3, "min": 1, "max": 4, "reasons": []}},
        config=FULL_LOAD,
    ),
    "one order over all pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 3), in_pool("b", "n2", 2)),
            *trainers("x", (1, 3), ["n1", "n1"], pool="a"),
            *trainers("y", (1, 3), ["n2"], pool="b"),
        ],
        placed=new("y", [1], "n2") | new("x", [2]),
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
        placed=new("x", range(2), "n2"),
        borrowed=["x-trainer-0", "x-trainer-1"],
        config=FULL_LOAD,
    ),
    "one that stands partly elsewhere does not grow": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2")),
            *trainers("x", (1, 4), ["n1", "n2"], pool="a"),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "totals alone do not count": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1)),
            *trainers("a", (1, 2), ["n1"], cpu=2),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "who does not fit is passed over": Case(
        objects=[
            node("n1", cpu=6),
            *trainers("a", (1, 4), ["n1"], cpu=2),
            *trainers("b", (1, 4), ["n1"] * 3),
        ],
        placed=new("b", [3]),
        config=STILL,
    ),
    "the lowest free index": Case(
        objects=[node("n1", cpu=4), *trainers("a", (1, 4), ["n1", None, "n1"])],
        placed=new("a", [1, 3]),
        config=FULL_LOAD,
    ),
    "the lowest free rank": Case(
        objects=[node("n1", cpu=4), *ranks("d", (1, 4), ["n1", None, "n1"])],
        placed={"d-0-1": "n1", "d-0-3": "n1"},
        config=FULL_LOAD,
    ),
    "one that is done counts": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 3), [None, "n1"]),
            pod_of(
                "a-trainer-0", template(cpu=1), node="n1", phase="Succeeded", of=owner("TrainingJob", "a")
            ),
        ],
        placed=new("a", [2]),
        jobs={"TrainingJob/default/a": {"current": 1, "target": 2}},
        config=FULL_LOAD,
    ),
    "one that leaves does not count, and holds its room": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"]),
            pod_of("a-trainer-1", template(cpu=1), node="n1", terminating=True, of=owner("TrainingJob", "a")),
        ],
        placed=new("a", [1]),
        jobs={"TrainingJob/default/a": {"current": 1, "target": 2}},
        config=FULL_LOAD,
    ),
    "no growth onto somebody else's name": Case(
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
            *(theirs("x", cpu=2, on="n2"), *trainers("a", (1, 4), ["n1"])),
        ],
        placed=new("a", [1, 2], "n2") | new("a", [3]),
        config=FULL_LOAD,
    ),
    "a cordoned node takes nobody": Case(
        objects=[
            *(node("n1", cpu=1), node("n2", cpu=4, unschedulable=True)),
            *trainers("a", (1, 4), ["n1"]),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "nobody grows into room that is kept": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"]),
            theirs("x", leaves=True),
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
        objects=[node("n1", cpu=4), *ranks("d", (1, 4), ["n1"], suspend=True)],
        placed={},
        jobs={"DIJob/default/d": {"reasons": ["Held"], "target": 1}},
        config=FULL_LOAD,
    ),
    "a DIJob may start from nothing": Case(
        objects=[node("n1", cpu=2), *ranks("d", (0, 4))],
        placed={"d-0-0": "n1", "d-0-1": "n1"},
        jobs={"DIJob/default/d": {"min": 0, "max": 4, "current": 0, "target": 2, "reasons": []}},
        config=FULL_LOAD,
    ),
    "and is content with nothing": Case(
        objects=[node("n1", cpu=1), theirs("x"), *ranks("d", (0, 4))],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "target": 0, "position": None}},
        config=FULL_LOAD,
    ),
    "one without any replica has its class and pool all the same": Case(
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
            *ranks("d", (0, 4)),
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
    "ranks that are allocated are there": Case(
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

# --- the size that is asked for, the largest size ----------------------------------------------------------

OWN_SIZE = {
    "more was requested: it grows to that and no further": Case(
        objects=[node("n1"), *ranks("d", (1, 5), ["n1"], requested=3)],
        placed={"d-0-1": "n1", "d-0-2": "n1"},
        jobs={"DIJob/default/d": {"max": 5, "target": 3, "state": "ScheduledSucceed", "reasons": []}},
        config=FULL_LOAD,
    ),
    "less was requested: the highest ranks go, for nobody": Case(
        objects=[node("n1"), *ranks("d", (1, 5), ["n1"] * 4, requested=2)],
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
    "never above the largest": Case(
        objects=[node("n1"), *ranks("d", (1, 3), ["n1"], requested=9)],
        placed={"d-0-1": "n1", "d-0-2": "n1"},
        config=FULL_LOAD,
    ),
    "never below the minimum": Case(
        objects=[node("n1"), *ranks("d", (2, 3), ["n1"] * 3, requested=1)],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        config=FULL_LOAD,
    ),
    "fulfilment is measured against what was requested": Case(
        # d: 1/2 of what it asked for, t: 1/4
        objects=[
            node("n1", cpu=5),
            *ranks("d", (1, 5), ["n1", "n1"], requested=3),
            *trainers("t", (1, 5), ["n1", "n1"]),
        ],
        placed=new("t", [2]),
        config=STILL,
    ),
    "above its largest a TrainingJob loses the highest": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 4)],
        placed={},
        evicted=shrunk("a", [3, 2]),
        evicted_for={"a-trainer-3": None},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "the highest that it has": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1", None, "n1", None, "n1"])],
        placed={},
        evicted=shrunk("a", [4]),
    ),
    "nobody goes because another is done": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 2), [None, "n1", "n1"]),
            pod_of(
                "a-trainer-0", template(cpu=1), node="n1", phase="Succeeded", of=owner("TrainingJob", "a")
            ),
        ],
        placed={},
    ),
    "also without preemption": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3)],
        placed={},
        evicted=shrunk("a", [2]),
        config=NO_PREEMPTION,
    ),
    "also while it rests": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3, changed=JUST_NOW)],
        placed={},
        evicted=shrunk("a", [2]),
        jobs={"TrainingJob/default/a": {"reasons": []}},
        now=NOW,
    ),
    "also with a lender": Case(
        objects=[A, B, in_pool("b", "n2"), *trainers("a", (1, 2), ["n2"] * 3, pool="a")],
        placed={},
        evicted=shrunk("a", [2]),
    ),
    "not while it is suspended": Case(
        objects=[node("n1"), *ranks("d", (1, 2), ["n1"] * 3, suspend=True)],
        placed={},
        jobs={"DIJob/default/d": {"target": 3}},
    ),
    "and what it lacks of its minimum is placed": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1"] * 3, master=resources(1))],
        placed={"a-master-0": "n1"},
        evicted=shrunk("a", [2]),
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
        config=FULL_LOAD,
    ),
    "what it gives back is kept for who waits, without a victim": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("a", (1, 2), ["n1"] * 3),
            *trainers("b", (1, 2), ["n1"] * 2),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("a", [2]),
        evicted_for={"a-trainer-2": None},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "and grown into by others once it is free": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 2), ["n1"] * 3),
            *trainers("b", (1, 2), ["n1"]),
        ],
        cycles=3,
        placed=new("b", [1]),
        evicted=shrunk("a", [2]),
        config=FULL_LOAD,
    ),
}

# --- the load of the cluster -------------------------------------------------------------------------------


def with_limit(name: str, *, cpu: Amount, limit: Amount, leaves: bool = False) -> Object:
    made = theirs(name, cpu=cpu, leaves=leaves)
    made["spec"]["containers"][0]["resources"]["limits"] = resources(limit)
    return made


LOAD = {
    "a CPU job leaves three hundredths of the cluster alone": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"])], placed=new("a", range(1, 9))
    ),
    "exactly as much as is allowed": Case(
        objects=[node("n1", cpu=100), *trainers("a", (1, 200), ["n1"])], placed=new("a", range(1, 97))
    ),
    "half of it": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"])],
        placed=new("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "limits count, not requests": Case(
        objects=[node("n1"), *trainers("a", (1, 20), ["n1"], limits=resources(2))],
        placed=new("a", range(1, 5)),  # the one that runs has no limit: 1 + 2 · 4 = 9, and 11 is too much
        config=FULL_LOAD,
    ),
    "the limits of others": Case(
        objects=[node("n1"), with_limit("x", cpu=1, limit=6), *trainers("a", (1, 9), ["n1"])],
        placed=new("a", range(1, 4)),
        config=FULL_LOAD,
    ),
    "of those that leave too": Case(
        objects=[node("n1"), with_limit("x", cpu=1, limit=6, leaves=True), *trainers("a", (1, 9), ["n1"])],
        placed=new("a", range(1, 4)),
        config=FULL_LOAD,
    ),
    "not of those that have ended": Case(
        objects=[
            node("n1"),
            pod("x", cpu=6, node="n1", scheduler="other", phase="Succeeded"),
            *trainers("a", (1, 20), ["n1"]),
        ],
        placed=new("a", range(1, 10)),
        config=FULL_LOAD,
    ),
    "over all nodes, also of other pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 10), in_pool("b", "n2", 10)),
            *trainers("a", (1, 20), ["n1"], pool="a"),
        ],
        placed=new("a", range(1, 10)),
        config={"maxLoad": 0.5},
    ),
    "but those that are not ready": Case(
        objects=[node("n1"), node("n2", ready="False"), *trainers("a", (1, 20), ["n1"])],
        placed=new("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "cordoned ones count": Case(
        objects=[node("n1"), node("n2", unschedulable=True), *trainers("a", (1, 20), ["n1"])],
        placed=new("a", range(1, 10)),
        config={"maxLoad": 0.5},
    ),
    "memory counts as CPUs do": Case(
        objects=[node("n1", cpu=100), *trainers("a", (1, 20), ["n1"], memory="1Gi")],
        placed=new("a", range(1, 5)),
        config={"maxLoad": 0.5},
    ),
    "a resource that the instance does not ask for does not": Case(
        objects=[
            node("n1", cpu=100),
            pod("x", memory="10Gi", node="n1", scheduler="other"),
            *trainers("a", (1, 3), ["n1"]),
        ],
        placed=new("a", range(1, 3)),
        config={"maxLoad": 0.5},
    ),
    "GPU jobs are not held back": Case(
        objects=[node("n1", cpu=4, gpu=4), *trainers("a", (1, 20), ["n1"], gpu=1)],
        placed=new("a", range(1, 4)),
        config={"maxLoad": 0.5},
    ),
    "who is kept room for counts": Case(
        objects=[
            node("n1"),
            theirs("x", cpu=8, leaves=True),
            pod("p", cpu=3),
            *trainers("a", (1, 20), ["n1"]),
            *(node("n2"), theirs("y", cpu=9, on="n2")),
        ],
        # 20 CPUs; 8 leave, 9 and 1 run, 3 are kept: nothing is left, though n2 has a CPU free
        placed={},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
        config=FULL_LOAD,
    ),
    "a minimum is not held back": Case(
        objects=[node("n1", cpu=2), trainingjob("a", trainer=resources(1), trainers=(2, 4))],
        placed=new("a", range(2)),
        config={"maxLoad": 0.5},
    ),
}

# --- cooldown ----------------------------------------------------------------------------------------------

COOLDOWN = {
    "who has just changed rests, and says so": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], changed=JUST_NOW)],
        placed={},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "reasons": ["Held"], "position": None}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "a DIJob too": Case(
        objects=[node("n1"), *ranks("d", (1, 3), ["n1"], changed=JUST_NOW)],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "reasons": ["Held"]}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "for half a minute": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], changed=HALF_A_MINUTE_AGO)],
        placed=new("a", [1, 2]),
        jobs={"TrainingJob/default/a": {"reasons": []}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "or as long as is said": Case(
        objects=[node("n1"), *trainers("a", (1, 3), ["n1"], changed=HALF_A_MINUTE_AGO)],
        placed={},
        jobs={"TrainingJob/default/a": {"reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "31s"},
        now=NOW,
    ),
    "the newest change counts": Case(
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
    "who has all it may have does not say so": Case(
        objects=[node("n1"), *trainers("a", (1, 2), ["n1", "n1"], changed=JUST_NOW)],
        placed={},
        jobs={"TrainingJob/default/a": {"reasons": []}},
        now=NOW,
    ),
    "others grow meanwhile": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"], changed=JUST_NOW),
            *trainers("b", (1, 3), ["n1"]),
        ],
        placed=new("b", [1]),
        config=FULL_LOAD,
        now=NOW,
    ),
    "a minimum is placed all the same": Case(
        objects=[node("n1", cpu=3), *trainers("a", (2, 3), ["n1"], changed=JUST_NOW)],
        placed=new("a", [1]),
        jobs={"TrainingJob/default/a": {"reasons": ["Held"]}},
        config=FULL_LOAD,
        now=NOW,
    ),
    "who rests gives to another's minimum": Case(
        objects=[
            node("n1", cpu=2),
            *trainers("a", (1, 2), ["n1", "n1"], changed=JUST_NOW),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("a", [1]),
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
        now=NOW,
    ),
    "growth is a change: when room appears a cycle later it rests": Case(
        objects=[
            node("n1", cpu=4),
            theirs("x", cpu=2, leaves=True),
            *trainers("a", (1, 4), ["n1"]),
        ],
        cycles=5,
        placed=new("a", [1]),
        jobs={"TrainingJob/default/a": {"target": 2, "reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "1m"},
    ),
    "after one step of the clock it has rested half a minute": Case(
        objects=[
            node("n1", cpu=4),
            theirs("x", cpu=2, leaves=True),
            *trainers("a", (1, 4), ["n1"]),
        ],
        cycles=5,
        placed=new("a", [1, 2, 3]),
        jobs={"TrainingJob/default/a": {"target": 4, "reasons": []}},
        config=FULL_LOAD,
    ),
    "starting is no change": Case(
        objects=[
            node("n1", cpu=2),
            theirs("x", leaves=True),
            trainingjob("a", trainer=resources(1), trainers=(1, 4)),
        ],
        cycles=5,
        placed=new("a", [0, 1]),
        config=FULL_LOAD | {"cooldown": "1h"},
    ),
    "giving is a change": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 3), ["n1"] * 3),
            theirs("x", leaves=True),
            pod("p", cpu=2),
        ],
        # for p one trainer must go; x leaves a room of its own
        cycles=5,
        placed={"p": "n1"},
        evicted=shrunk("a", [2]),
        jobs={"TrainingJob/default/a": {"target": 2, "reasons": ["Held"]}},
        config=FULL_LOAD | {"cooldown": "1h"},
    ),
}

# --- extra instances give way to another's minimum ---------------------------------------------------------


def crowded(*newcomer: Object) -> list[Object]:
    """A pool of one node of 4 CPUs: a stranger, an elastic job with one to spare, and a lower pod."""
    return [
        *(A, B, LOW, HIGH, in_pool("a", "n1")),
        pod("f", cpu=1, pool="b", node="n1"),
        *trainers("e", (1, 2), ["n1", "n1"], pool="a"),
        pod("l", cpu=1, pool="a", node="n1", priority="low"),
        *newcomer,
    ]


PINNED = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
PINNED_TO_2 = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}

EXTRAS = {
    "pools 26: foreigners go first": Case(
        objects=crowded(pod("p", cpu=1, pool="a", priority="high")),
        placed={},
        evicted={"f": "Reclaimed"},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}}},
    ),
    "pools 26: then what elastic jobs have above their minimum": Case(
        objects=crowded(pod("p", cpu=2, pool="a", priority="high")),
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
        objects=crowded(pod("p", cpu=3, pool="a", priority="high")),
        placed={},
        evicted={"l": "Preempted", "e-trainer-1": "Shrunk", "f": "Reclaimed"},
    ),
    "where preemption is off only extras are taken": Case(
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
    "and nothing more, if they do not suffice": Case(
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
    "with preemption off everywhere nobody gives": Case(
        objects=[node("n1", cpu=2), *trainers("e", (1, 2), ["n1", "n1"]), pod("p", cpu=1)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}, "TrainingJob/default/e": {"target": 2}},
        config=NO_PREEMPTION,
    ),
    "whose class never preempts takes nothing": Case(
        objects=[
            *(node("n1", cpu=2), priority_class("patient", 50, never=True)),
            *trainers("e", (1, 2), ["n1", "n1"]),
            pod("p", cpu=1, priority="patient"),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "an equal gives": Case(
        objects=[node("n1", cpu=2), *trainers("e", (1, 2), ["n1", "n1"]), pod("p", cpu=1)],
        placed={},
        evicted=shrunk("e", [1]),
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
        objects=[node("n1", cpu=3), *ranks("d", (1, 3), ["n1"] * 3), pod("p", cpu=1)],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        evicted_for={"d-0-2": "Pod/default/p"},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "target": 2, "reasons": []}},
    ),
    "a suspended one gives nothing": Case(
        objects=[node("n1", cpu=2), *ranks("d", (1, 2), ["n1"] * 2, suspend=True), pod("p", cpu=1)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "one that lacks a parameter server gives nothing": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=2), theirs("x", cpu=2, on="n2")),
            *trainers("e", (1, 2), ["n1", "n1"], pserver=resources(2)),
            theirs("y"),
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
        evicted=shrunk("b", [2]),
    ),
    "one at a time, ties in the reverse of the order of growth": Case(
        # a2 at 1; then b2 and a1 both at 1/2, and b would grow after a
        objects=[
            node("n1", cpu=6),
            *trainers("a", (1, 3), ["n1"] * 3),
            *trainers("b", (1, 5), ["n1"] * 3),
            pod("p", cpu=2),
        ],
        placed={},
        evicted=shrunk("a", [2]) | shrunk("b", [2]),
    ),
    "among equals the one with more GPUs gives": Case(
        objects=[
            node("n1", cpu=4, gpu=4),
            *trainers("a", (1, 2), ["n1"] * 2, gpu=1),
            *trainers("b", (1, 2), ["n1"] * 2),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("a", [1]),
    ),
    "of two nodes the one of the more fulfilled": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=3)),
            *trainers("a", (1, 5), ["n1"] * 3),
            *trainers("b", (1, 3), ["n2"] * 3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("b", [2]),
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
    ),
    "a node with foreigners before one with extras": Case(
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
    "a node with extras before one with lower classes": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=1), node("n2", cpu=2)),
            pod("l", cpu=1, node="n1", priority="low"),
            *trainers("e", (1, 2), ["n2", "n2"]),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted=shrunk("e", [1]),
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
    ),
    "guarded extras go only if no others serve": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=3)),
            *trainers("a", (1, 3), ["n1"] * 3, labels={"app": "guarded"}),
            *trainers("b", (1, 5), ["n2"] * 3),
            budget("g", selector={"app": "guarded"}, min_available=3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("b", [2]),
    ),
    "and then they go": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"] * 3, labels={"app": "guarded"}),
            budget("g", selector={"app": "guarded"}, min_available=3),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("a", [2]),
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
    "the highest that it has, though there is a gap": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1), theirs("x", on="n2")),
            *trainers("a", (1, 5), ["n1", None, None, "n1"]),
            pod("p", cpu=1),
        ],
        placed={},
        evicted=shrunk("a", [3]),
    ),
    "several, as long as each is the highest": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1", "n2"]),
            pod("g0", cpu=1, gang="g", spec=PINNED),
            pod("g1", cpu=1, gang="g", spec=PINNED_TO_2),
        ],
        placed={},
        evicted=shrunk("a", [1, 2]),
        jobs={"Gang/default/g": {"nominated": {"g0": "n1", "g1": "n2"}}},
    ),
    "if the highest does not help the job gives nothing more": Case(
        # with trainer 1 gone the gang would fit n1, but then trainer 2 could stay
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1", "n2"]),
            pod("g0", cpu=1, gang="g", spec=PINNED),
            pod("g1", cpu=1, gang="g", spec=PINNED),
        ],
        placed={},
        jobs={"Gang/default/g": {"reasons": ["NoRoom"]}},
        config=STILL | {"cooldown": "0s"},
    ),
    "never below its minimum": Case(
        objects=[node("n1", cpu=3), *trainers("a", (2, 3), ["n1"] * 3), pod("p", cpu=2)],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}, "TrainingJob/default/a": {"target": 3}},
    ),
    "a lower one gives one instance where that is enough": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=3)),
            *trainers("a", (2, 3), ["n1"] * 3, priority="low"),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted=shrunk("a", [2]),
    ),
    "a lower one goes whole where it is not": Case(
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
    "what is left of a victim may be taken by the next": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (1, 3), ["n1"] * 3, created=EARLY),
            pod("p", cpu=1, created=EARLY),
            pod("q", cpu=1, created=LATE),
        ],
        placed={},
        evicted=shrunk("a", [1, 2]),
        evicted_for={"a-trainer-2": "Pod/default/p", "a-trainer-1": "Pod/default/q"},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 1}},
    ),
    "but no more than there is": Case(
        objects=[
            node("n1", cpu=3),
            *trainers("a", (2, 3), ["n1"] * 3, created=EARLY),
            pod("p", cpu=1, created=EARLY),
            pod("q", cpu=1, created=LATE),
        ],
        placed={},
        evicted=shrunk("a", [2]),
        jobs={"Pod/default/q": {"state": "Unscheduled", "reasons": ["Behind"]}},
    ),
    "what gives does not grow in the same cycle": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1)),
            *trainers("a", (1, 3), ["n1", "n1"]),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        evicted=shrunk("a", [1]),
        jobs={"TrainingJob/default/a": {"target": 1}},
        config=FULL_LOAD,
    ),
    "a gang makes room for its minimum only": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"] * 4),
            tyjob("t", leader=template(cpu=1), workers={"w": (3, template(cpu=1))}, min_workers=1),
        ],
        placed={},
        evicted=shrunk("a", [2, 3]),
        jobs={"TYJob/default/t": {"nominated": {"t-leader": "n1", "t-w-0": "n1"}}},
    ),
    "so does an elastic newcomer": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 4), ["n1"] * 4),
            trainingjob("b", trainer=resources(1), trainers=(1, 4)),
        ],
        placed={},
        evicted=shrunk("a", [3]),
        jobs={"TrainingJob/default/b": {"nominated": {"b-trainer-0": "n1"}}},
    ),
    "growing is no reason to take": Case(
        objects=[node("n1", cpu=4), *trainers("a", (1, 2), ["n1"] * 2), *trainers("b", (1, 5), ["n1"] * 2)],
        placed={},
        config=FULL_LOAD,
    ),
    "extras of a job with a lender are not its home's to give": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 1), in_pool("b", "n2", 3)),
            pod("x", cpu=1, pool="a", node="n1"),
            *trainers("e", (1, 3), ["n2"] * 3, pool="a"),
            pod("p", cpu=1, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "a foreign elastic job is reclaimed down to its minimum": Case(
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
    """A full node: one job has three, another one."""
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
        evicted=shrunk("h", range(31, 60)),
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
                "nominated": new("l", range(2, 31)),
                "reasons": ["WaitingForRoom"],
            },
        },
    ),
    "and stay so": Case(
        objects=[
            node("n1", cpu=62),
            *trainers("h", (2, 60), ["n1"] * 60),
            *trainers("l", (2, 60), ["n1"] * 2),
        ],
        cycles=6,
        placed=new("l", range(2, 31)),
        evicted=shrunk("h", range(31, 60)),
        jobs={
            "TrainingJob/default/h": {"state": "ScheduledSucceed", "target": 31, "reasons": []},
            "TrainingJob/default/l": {"state": "ScheduledSucceed", "target": 31, "nominated": {}},
        },
        config={"cooldown": "0s"},
    ),
    "3 and 1 become 2 and 2": Case(
        objects=unequal(),
        placed={},
        evicted=shrunk("h", [2]),
        evicted_for={"h-trainer-2": "TrainingJob/default/l"},
        jobs={"TrainingJob/default/l": {"nominated": {"l-trainer-1": "n1"}}},
    ),
    "3 and 2 stay: whoever gives stays at least as fulfilled": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 4), ["n1"] * 3),
            *trainers("l", (1, 4), ["n1"] * 2),
        ],
        placed={},
    ),
    "not where it is switched off": Case(objects=unequal(), placed={}, config={"rebalance": False}),
    "not where nobody may be evicted": Case(objects=unequal(), placed={}, config=NO_PREEMPTION),
    "not while a minimum waits": Case(
        objects=unequal(pod("p", cpu=4)),
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "who can never fit does not hinder": Case(
        objects=unequal(pod("p", cpu=5)),
        placed={},
        evicted=shrunk("h", [2]),
        jobs={"Pod/default/p": {"state": "ScheduledFailed"}},
    ),
    "who waits in another pool does not hinder": Case(
        objects=[
            *(open_pool("a", shares=False), open_pool("b", shares=False)),
            *(in_pool("a", "n1", 4), in_pool("b", "n2", 4)),
            *trainers("h", (1, 3), ["n1"] * 3, pool="a"),
            *trainers("l", (1, 3), ["n1"], pool="a"),
            *(pod("x", cpu=4, pool="b", node="n2"), pod("p", cpu=1, pool="b")),
        ],
        placed={},
        evicted=shrunk("h", [2]),
    ),
    "not between pools": Case(
        objects=[
            *(A, B, in_pool("a", "n1", 3), in_pool("b", "n2", 1)),
            *trainers("h", (1, 3), ["n1"] * 3, pool="a"),
            *trainers("l", (1, 3), ["n2"], pool="b"),
        ],
        placed={},
    ),
    "not if it can grow": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed=new("l", [1]),
        config=FULL_LOAD,
    ),
    "nor if it can once those that leave are gone": Case(
        objects=[
            *(node("n1", cpu=5), theirs("x", leaves=True)),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        cycles=2,
        placed=new("l", [1]),
        config=FULL_LOAD,
    ),
    "the load does not forbid an exchange": Case(
        objects=unequal(), placed={}, evicted=shrunk("h", [2]), config={"maxLoad": 0.5}
    ),
    "who may not grow for the load receives too": Case(
        objects=[
            node("n1", cpu=8),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk("h", [2]),
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
    "a lower gives to a higher, and not more than is fair": Case(
        objects=[
            *(HIGH, node("n1", cpu=4)),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], priority="high"),
        ],
        placed={},
        evicted=shrunk("h", [2]),
    ),
    "who rests does not give": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("h", (1, 3), ["n1"] * 3, changed=JUST_NOW),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        now=NOW,
    ),
    "who rests does not receive": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("h", (1, 3), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], changed=JUST_NOW),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"reasons": ["Held"]}},
        now=NOW,
    ),
    "who grew in this cycle does not give": Case(
        # h takes the last free CPU, since l needs two
        objects=[
            node("n1", cpu=6),
            *trainers("h", (1, 6), ["n1"] * 3),
            *trainers("l", (1, 3), ["n1"], cpu=2),
        ],
        placed=new("h", [3]),
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
        # g is as fulfilled as h and gives first, but its last instance is too small for l
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=8)),
            *trainers("h", (1, 3), ["n1"] * 3, created=LATE),
            *trainers("g", (1, 3), ["n2"] * 3, cpu=2, created=EARLY),
            *trainers("l", (1, 3), ["n2"], cpu=2),
        ],
        placed={},
        evicted=shrunk("g", [2]),
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
        evicted=shrunk("h", [3, 4]),
        evicted_for={"h-trainer-4": "TrainingJob/default/l", "h-trainer-3": "TrainingJob/default/l"},
        jobs={"TrainingJob/default/m": {"target": 3, "reasons": []}},
    ),
    "a DIJob gives to a TrainingJob": Case(
        objects=[node("n1", cpu=4), *ranks("d", (1, 3), ["n1"] * 3), *trainers("t", (1, 3), ["n1"])],
        placed={},
        evicted={"d-0-2": "Shrunk"},
        evicted_for={"d-0-2": "TrainingJob/default/t"},
    ),
    "a TrainingJob gives to a DIJob, as far as that asks": Case(
        objects=[
            node("n1", cpu=5),
            *ranks("d", (0, 5), requested=1),
            *trainers("t", (1, 5), ["n1"] * 5),
        ],
        # t: 3/4, d: 1/1: t would be less fulfilled
        placed={},
    ),
    "who was cut to its largest size need not give where that is room enough": Case(
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 4),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk("h", [3]),
        config=FULL_LOAD,
    ),
    "and gives as well where it is not": Case(
        # the load forbids l to grow into what is cut
        objects=[
            node("n1", cpu=5),
            *trainers("h", (1, 3), ["n1"] * 4),
            *trainers("l", (1, 3), ["n1"]),
        ],
        placed={},
        evicted=shrunk("h", [2, 3]),
        evicted_for={"h-trainer-3": None, "h-trainer-2": "TrainingJob/default/l"},
        config={"maxLoad": 0.8},
    ),
}

# --- room that was promised for growth ---------------------------------------------------------------------


def promised(
    name: str,
    tasks: dict[str, str],
    *,
    sizes: tuple[int, int] = (1, 3),
    **more: Any,  # noqa: ANN401 - what trainers() takes
) -> list[Object]:
    """A job with one trainer, which was promised nodes for more."""
    return trainers(name, sizes, ["n1"], status={"nominations": tasks}, **more)


PROMISES = {
    "a promise is kept while pods leave": Case(
        objects=[node("n1", cpu=2), theirs("x", leaves=True), *promised("l", {"l-trainer-1": "n1"})],
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
    "and fulfilled when they are gone": Case(
        objects=[node("n1", cpu=2), theirs("x", leaves=True), *promised("l", {"l-trainer-1": "n1"})],
        cycles=2,
        placed=new("l", [1]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "reasons": []}},
    ),
    "on its own node, whatever BinPack says": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=4)),
            *promised("l", {"l-trainer-1": "n2"}, sizes=(1, 2)),
        ],
        placed=new("l", [1], "n2"),
        config=FULL_LOAD,
    ),
    "a promise is fulfilled while it rests, too": Case(
        objects=[node("n1", cpu=3), *promised("l", {"l-trainer-1": "n1"}, changed=JUST_NOW)],
        placed=new("l", [1]),
        jobs={"TrainingJob/default/l": {"reasons": ["Held"]}},
        now=NOW,
    ),
    "before others grow": Case(
        objects=[
            node("n1", cpu=4),
            *trainers("a", (1, 9), ["n1", "n1"]),
            *promised("l", {"l-trainer-1": "n1"}, sizes=(1, 2)),
        ],
        placed=new("l", [1]),
        config=STILL,
    ),
    "whatever the load": Case(
        objects=[node("n1", cpu=2), *promised("l", {"l-trainer-1": "n1"})],
        placed=new("l", [1]),
        config={"maxLoad": 0.5},
    ),
    "dropped when the room is gone": Case(
        objects=[node("n1", cpu=2), theirs("x"), *promised("l", {"l-trainer-1": "n1"})],
        placed={},
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 1}},
    ),
    "dropped when it would be too many": Case(
        objects=[
            node("n1", cpu=3),
            theirs("x", leaves=True),
            *trainers("l", (1, 2), ["n1", "n1"], status={"nominations": {"l-trainer-2": "n1"}}),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 2}},
    ),
    "all or none": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1), theirs("x", on="n2")),
            theirs("y", leaves=True),
            *promised("l", {"l-trainer-1": "n1", "l-trainer-2": "n2"}),
        ],
        placed={},
        jobs={"TrainingJob/default/l": {"nominated": {}, "target": 1}},
    ),
    "who loses to another's minimum loses the promise": Case(
        objects=[
            *(HIGH, node("n1", cpu=2), node("n2", cpu=1), theirs("x", on="n2", leaves=True)),
            *trainers("l", (1, 3), ["n1", "n1"], status={"nominations": {"l-trainer-2": "n2"}}),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        evicted=shrunk("l", [1]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledSucceed", "nominated": {}, "target": 1}},
    ),
    "it grows on beside the promise": Case(
        objects=[
            *(node("n1", cpu=3), node("n2", cpu=1), theirs("x", on="n2", leaves=True)),
            *promised("l", {"l-trainer-1": "n2"}),
        ],
        placed=new("l", [2]),
        jobs={"TrainingJob/default/l": {"state": "ScheduledPartly", "target": 3}},
        config=FULL_LOAD,
    ),
    "a DIJob's promise too": Case(
        objects=[
            *(node("n1", cpu=2), theirs("x", leaves=True)),
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

# --- parameter servers that scale --------------------------------------------------------------------------


def scaled(sizes: tuple[int, int], pservers: tuple[int, int], on: int, have: int) -> list[Object]:
    """A TrainingJob with so many trainers and pservers of 1 CPU on n1; pservers scale."""
    low, high = pservers
    made = trainers("a", sizes, ["n1"] * on, pserver=resources(1), pservers=low, scaled_to=high)
    return [*made, *servers("a", ["n1"] * have)]


SERVERS = {
    "they come with the trainers": Case(
        # 1/2: 1 + 1/2 · 2 = 2; 1: 3
        objects=[node("n1"), *scaled((1, 3), (1, 3), 1, 1)],
        placed=new("a", [1, 2]) | {"a-pserver-1": "n1", "a-pserver-2": "n1"},
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
    "also from the start": Case(
        objects=[node("n1"), *scaled((1, 3), (1, 2), 0, 0)],
        placed=new("a", range(3)) | {"a-pserver-0": "n1", "a-pserver-1": "n1"},
        config=FULL_LOAD,
    ),
    "both or neither": Case(
        objects=[node("n1", cpu=3), *scaled((1, 3), (1, 3), 1, 1)],
        placed={},
        config=FULL_LOAD,
    ),
    "a half is rounded to the even number: up": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (1, 2), 1, 1)],
        placed=new("a", [1]) | {"a-pserver-1": "n1"},
        config=FULL_LOAD,
    ),
    "a half is rounded to the even number: down": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (2, 3), 1, 2)],
        placed=new("a", [1]),
        config=FULL_LOAD,
    ),
    "without scaleWithTrainers they stay as they are": Case(
        objects=[
            node("n1"),
            *trainers("a", (1, 3), ["n1"], pserver=resources(1)),
            *servers("a", ["n1"]),
        ],
        placed=new("a", [1, 2]),
        config=FULL_LOAD,
    ),
    "those that are too many go, the highest first, for nobody": Case(
        objects=[node("n1", cpu=4), *scaled((1, 3), (1, 3), 1, 3)],
        placed={},
        evicted={"a-pserver-2": "Shrunk", "a-pserver-1": "Shrunk"},
        evicted_for={"a-pserver-2": None},
        jobs={"TrainingJob/default/a": {"state": "ScheduledSucceed", "target": 1, "reasons": []}},
        config=FULL_LOAD,
    ),
    "not if it grows": Case(
        objects=[node("n1"), *scaled((1, 3), (1, 3), 1, 3)],
        placed=new("a", [1, 2]),
        config=FULL_LOAD,
    ),
    "not before the trainers that use them": Case(
        objects=[
            node("n1", cpu=5),
            *scaled((1, 3), (1, 3), 1, 3),
            pod_of("a-trainer-1", template(cpu=1), node="n1", terminating=True, of=owner("TrainingJob", "a")),
        ],
        placed={},
        config=FULL_LOAD,
    ),
    "they are nothing extra": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=1)),
            *scaled((1, 3), (1, 3), 1, 1),
            pod_of("a-trainer-1", template(cpu=1), node="n2", of=owner("TrainingJob", "a")),
            pod_of("a-pserver-1", template(cpu=1), node="n1", of=owner("TrainingJob", "a")),
            theirs("x"),
            pod("p", cpu=1, spec=PINNED),
        ],
        placed={},
        jobs={"Pod/default/p": {"reasons": ["NoRoom"]}},
    ),
    "they leave after their trainer": Case(
        # p takes trainer 1; in the next cycle pserver 1 is one too many
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
    "whose next step needs one does not receive": Case(
        objects=[
            node("n1", cpu=5),
            *scaled((1, 3), (1, 3), 1, 1),
            *trainers("h", (1, 3), ["n1"] * 3),
        ],
        placed={},
        config=FULL_LOAD,
    ),
}

CASES = SPEC | GROWTH | OWN_SIZE | LOAD | COOLDOWN | EXTRAS | REBALANCING | PROMISES | SERVERS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    answer = plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now)
    check(case, answer)


def test_what_may_still_come_asks_for_something_that_no_node_has() -> None:
    """Nothing of the job runs, and what it would grow by is in no pod and on no node."""
    job = dijob("d", template(cpu=1, gpu=1), replicas=(0, 4), preemptible=True)
    paddle = trainingjob("t", trainer={"cpu": "1"}, pserver={"nvidia.com/gpu": "1"}, scaled_to=3)
    answer = plan([node("n1", cpu=4), job, paddle], cycles=3)
    assert answer["stable"]
    assert {entry["job"]: entry["target"] for entry in answer["jobs"]}["DIJob/default/d"] == 0


def test_who_is_evicted_for_its_neighbourhood_does_not_come_back_first() -> None:
    """By dominant share the victim goes first in the queue; its place is kept for the other all the same."""
    apart = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "y"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    shy = template(cpu=1, labels={"app": "y"}, priority="low", spec={"affinity": affinity})
    objects = [
        node("n1", cpu=7, labels={"zone": "b"}),
        priority_class("low", -5),
        dijob("shy", shy, preemptible=True),
        dijob("trio", template(cpu=1, labels={"app": "y"}), replicas=(3, 3)),
    ]
    answer = plan(objects, config={"queuePolicy": "DRF"}, cycles=12)
    assert answer["stable"]
    assert {entry["job"]: entry["target"] for entry in answer["jobs"]} == {
        "DIJob/default/shy": 0,
        "DIJob/default/trio": 3,
    }
