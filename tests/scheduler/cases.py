"""The live cases of spec/pools.md as scenarios. The numbers are those of the document."""

from tests.builders import (
    GPU,
    NO_PREEMPTION,
    Amount,
    Object,
    budget,
    dijob,
    node,
    open_pool,
    pod,
    priority_class,
    resources,
    template,
    trainingjob,
    tyjob,
)
from tests.scheduler.scenarios import Scenario, Step

A, B = open_pool("a"), open_pool("b")
CLASSES = [
    priority_class(f"scenario-{name}", value) for name, value in (("low", -5), ("mid", 5), ("high", 100))
]
ON_CPU, ON_GPU = resources(1), resources(1, gpu=1)
LOW, MID, HIGH = "scenario-low", "scenario-mid", "scenario-high"


def in_pool(pool: str, name: str, *, cpu: Amount = 4) -> Object:
    return node(name, cpu=cpu, labels={"pool": pool}, ready="True")


def small(
    name: str, pool: str, *, cpu: Amount = 2, on: str | None = None, priority: str | None = None
) -> Object:
    return pod(name, cpu=cpu, pool=pool, node=on, priority=priority)


def whole(name: str, priority: str) -> Object:
    """A pod of pool a that needs a node for itself."""
    return small(name, "a", cpu=4, priority=priority)


def four(name: str, *, least: int) -> Object:
    """A TYJob of four pods that need 2 CPUs each, and so many workers at least."""
    shape = template(cpu=2)
    return tyjob(name, leader=shape, workers={"w": (3, shape)}, min_workers=least)


def workers_of(count: int) -> Object:
    """The patch that gives a TYJob of `four` another number of workers."""
    return {"spec": {"workerSets": [{"name": "w", "counts": count, "template": template(cpu=2)}]}}


def selecting(name: str, **labels: str) -> Object:
    return {"spec": {"nodeSelector": {"matchLabels": {"pool": name, **labels}}}}


CASES: dict[str, Scenario] = {
    "6: a home pod takes its pool's room back, and the one at home stays": Scenario(
        objects=[
            A,
            B,
            *CLASSES,
            in_pool("a", "n1"),
            small("f", "b", on="n1", priority=HIGH),
            small("a1", "a", on="n1"),
        ],
        steps=[
            Step(on={"f": "n1", "a1": "n1"}),
            Step(create=[small("a2", "a")], on={"a2": "n1", "a1": "n1"}, gone=["f"]),
        ],
    ),
    "7: without lower-priority victims at home, a pod borrows": Scenario(
        objects=[
            A,
            B,
            *CLASSES,
            in_pool("a", "n1"),
            in_pool("b", "n2"),
            small("a1", "a", cpu=4, on="n1", priority=MID),
        ],
        steps=[Step(create=[small("a2", "a", priority=MID)], on={"a1": "n1", "a2": "n2"})],
    ),
    "7: it waits where the other pool does not share, and runs when it does": Scenario(
        objects=[
            *(A, open_pool("b", shares=False), in_pool("a", "n1"), in_pool("b", "n2")),
            small("a1", "a", cpu=4, on="n1"),
        ],
        steps=[
            Step(create=[small("a2", "a")], on={"a1": "n1"}, waits={"a2": "Unschedulable: pool a"}),
            Step(patch=[("Pool", "b", {"spec": {"disableSharing": False}})], on={"a2": "n2"}),
        ],
    ),
    "8: a pool with everything disabled neither lends, nor borrows, nor preempts": Scenario(
        objects=[
            *(A, open_pool("masters", preempts=False, borrows=False, shares=False), *CLASSES),
            *(in_pool("a", "n1"), in_pool("masters", "n2")),
            small("m1", "masters", cpu=4, on="n2", priority=LOW),
            small("a1", "a", on="n1"),
        ],
        steps=[
            Step(
                create=[small("m2", "masters", priority=HIGH)], waits={"m2": "pool masters"}, on={"m1": "n2"}
            ),
            Step(ends=["m1"], on={"m2": "n2"}),
            Step(create=[small("a2", "a", cpu=3)], waits={"a2": "pool a"}, on={"a1": "n1", "m2": "n2"}),
        ],
    ),
    "10: with disablePreemption no pod is evicted": Scenario(
        objects=[A, B, *CLASSES, in_pool("a", "n1"), small("f", "b", cpu=4, on="n1", priority=LOW)],
        config=NO_PREEMPTION,
        steps=[
            Step(create=[small("a1", "a", priority=HIGH)], waits={"a1": "pool a"}, on={"f": "n1"}),
            Step(delete=[("Pod", "f")], on={"a1": "n1"}, gone=["f"]),
        ],
    ),
    "12: a home pod gets the room once the borrower is gone": Scenario(
        objects=[
            *(open_pool("a", preempts=False), B, in_pool("a", "n1"), small("f", "b", cpu=4, on="n1")),
        ],
        steps=[
            Step(create=[small("a1", "a")], waits={"a1": "pool a"}, on={"f": "n1"}),
            Step(ends=["f"], on={"a1": "n1"}),
        ],
    ),
    "15: pods of a pool that does not borrow wait": Scenario(
        objects=[open_pool("a", borrows=False), B, in_pool("b", "n2")],
        steps=[
            Step(create=[small("a1", "a")], waits={"a1": "Unschedulable"}),
            Step(create=[in_pool("a", "n1")], on={"a1": "n1"}),
        ],
    ),
    "19: a pod protected by a budget is evicted only if no other node is enough": Scenario(
        objects=[
            *(A, *CLASSES, in_pool("a", "n1"), in_pool("a", "n2")),
            budget("keep", selector={"app": "kept"}, min_available=1, allowed=0),
            pod("kept", cpu=4, pool="a", node="n1", priority=LOW, labels={"app": "kept"}),
            small("other", "a", cpu=4, on="n2", priority=MID),
        ],
        steps=[
            Step(on={"kept": "n1", "other": "n2"}),
            Step(
                create=[small("h1", "a", cpu=4, priority=HIGH)], on={"h1": "n2", "kept": "n1"}, gone=["other"]
            ),
            Step(create=[small("h2", "a", cpu=4, priority=HIGH)], on={"h1": "n2", "h2": "n1"}, gone=["kept"]),
        ],
    ),
    "22: a team's idle machines serve another until it needs them": Scenario(
        objects=[A, B, in_pool("a", "n1"), in_pool("b", "n2"), small("b1", "b", cpu=4, on="n2")],
        steps=[
            Step(create=[small("b2", "b"), small("b3", "b")], on={"b1": "n2", "b2": "n1", "b3": "n1"}),
            Step(create=[small("a1", "a", cpu=4)], on={"a1": "n1", "b1": "n2"}, gone=["b2", "b3"]),
        ],
    ),
    "24: a gang that would lose pods of its minimum is evicted whole": Scenario(
        objects=[
            *(A, *CLASSES, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=1)),
            *(pod(f"g{i}", cpu=1, pool="a", gang="g", node=f"n{1 + i % 2}", priority=LOW) for i in range(3)),
        ],
        steps=[
            Step(on={"g0": "n1", "g1": "n2", "g2": "n1"}),
            Step(create=[small("h", "a", cpu=2, priority=HIGH)], on={"h": "n1"}, gone=["g0", "g1", "g2"]),
        ],
    ),
    "25: no other pod takes nominated room": Scenario(
        objects=[A, *CLASSES, in_pool("a", "n1"), small("victim", "a", cpu=4, on="n1", priority=LOW)],
        steps=[
            Step(
                create=[small("thief", "a", cpu=1, priority=LOW), small("first", "a", cpu=4, priority=HIGH)],
                on={"first": "n1"},
                waits={"thief": "pool a"},
                gone=["victim"],
            ),
        ],
    ),
    "nodes and pods follow when pools are added, changed and deleted": Scenario(
        objects=[in_pool("a", "n1"), in_pool("b", "n2")],
        steps=[
            Step(create=[open_pool("a", borrows=False), open_pool("b", shares=False)]),
            Step(create=[small("a1", "a", cpu=4)], on={"a1": "n1"}),
            Step(create=[small("a2", "a")], waits={"a2": "pool a"}, on={"a1": "n1"}),
            Step(
                patch=[
                    ("Pool", "a", {"spec": {"disableBorrowing": False}}),
                    ("Pool", "b", selecting("none")),
                ],
                on={"a2": "n2"},
            ),
            Step(delete=[("Pool", "a")], on={"a1": "n1", "a2": "n2"}),
            Step(create=[small("a3", "a")], on={"a3": "n2"}),
        ],
    ),
    "a node that is relabelled serves its new pool": Scenario(
        objects=[open_pool("a", borrows=False), open_pool("b", shares=False), in_pool("b", "n1")],
        steps=[
            Step(create=[small("a1", "a")], waits={"a1": "Unschedulable"}),
            Step(patch=[("Node", "n1", {"metadata": {"labels": {"pool": "a"}}})], on={"a1": "n1"}),
        ],
    ),
    "a gang starts whole or not at all": Scenario(
        objects=[A, in_pool("a", "n1")],
        steps=[
            Step(
                create=[pod(f"g{i}", cpu=2, pool="a", gang="g", gang_min=3) for i in range(3)],
                waits={"g0": "3 pods", "g1": "3 pods", "g2": "3 pods"},
            ),
            Step(create=[in_pool("a", "n2")], on={"g0": "n1", "g1": "n1", "g2": "n2"}),
        ],
    ),
    "26: borrowers are evicted first, then surplus instances, then home pods": Scenario(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1")),
            *(small("f", "b", cpu=1, on="n1", priority=HIGH), small("h", "a", cpu=1, on="n1", priority=LOW)),
        ],
        config={"cooldown": "0s", "maxLoad": 1},
        steps=[
            Step(
                create=[dijob("e", template(cpu=1), replicas=(1, 2), preemptible=True, pool="a")],
                on={"e-0-0": "n1", "e-0-1": "n1", "f": "n1", "h": "n1"},
                statuses={"DIJob/e": {"allocation": ["n1", "n1"], "replicas": 2}},
            ),
            Step(create=[small("x", "a", cpu=1)], on={"x": "n1", "e-0-1": "n1", "h": "n1"}, gone=["f"]),
            Step(
                create=[small("y", "a", cpu=1)],
                on={"y": "n1", "e-0-0": "n1", "h": "n1"},
                statuses={"DIJob/e": {"allocation": ["n1"], "replicas": 1}},
            ),
            Step(create=[small("z", "a", cpu=1)], on={"z": "n1", "e-0-0": "n1"}, gone=["h"]),
        ],
    ),
}

JOBS: dict[str, Scenario] = {
    "a TYJob is allocated whole in one write, and its pods are bound there": Scenario(
        objects=[in_pool("a", "n1"), in_pool("a", "n2")],
        steps=[
            Step(
                create=[four("t", least=3)],
                on={"t-leader": "n1", "t-w-0": "n1", "t-w-1": "n2", "t-w-2": "n2"},
                statuses={"TYJob/t": {"scheduleState": "ScheduledSucceed"}},
            ),
        ],
    ),
    "a deleted pod of a TYJob comes back on its node, and no other pod takes the room": Scenario(
        objects=[in_pool("a", "n1"), in_pool("a", "n2")],
        steps=[
            Step(create=[four("t", least=3)], on={"t-leader": "n1", "t-w-2": "n2"}),
            Step(
                create=[small("x", "a")],
                delete=[("Pod", "t-w-0")],
                on={"t-w-0": "n1"},
                gone=["t-w-0"],
                waits={"x": "pool a"},
            ),
        ],
    ),
    "a cordoned node does not get a pod back": Scenario(
        objects=[in_pool("a", "n1"), in_pool("a", "n2")],
        steps=[
            Step(create=[four("t", least=3)], on={"t-leader": "n1", "t-w-0": "n1", "t-w-2": "n2"}),
            Step(create=[in_pool("a", "n3")], patch=[("Node", "n1", {"spec": {"unschedulable": True}})]),
            Step(
                delete=[("Pod", "t-w-0")],
                on={"t-w-0": "n3", "t-leader": "n1"},
                gone=["t-w-0"],
                statuses={
                    "TYJob/t": {
                        "allocations": {"t-leader": "n1", "t-w-0": "n3", "t-w-1": "n2", "t-w-2": "n2"}
                    }
                },
            ),
        ],
    ),
    "workers that are no longer wanted hold no room, and wait when they are wanted again": Scenario(
        objects=[in_pool("a", "n1"), in_pool("a", "n2")],
        steps=[
            Step(create=[four("t", least=1)], on={"t-leader": "n1", "t-w-0": "n1", "t-w-2": "n2"}),
            Step(
                patch=[("TYJob", "t", workers_of(1))],
                create=[small("x", "a", cpu=4)],
                on={"x": "n2", "t-w-0": "n1"},
                gone=["t-w-1", "t-w-2"],
                statuses={"TYJob/t": {"allocations": {"t-leader": "n1", "t-w-0": "n1"}}},
            ),
            Step(
                patch=[("TYJob", "t", workers_of(3))],
                on={"x": "n2", "t-w-0": "n1"},
                statuses={
                    "TYJob/t": {
                        "allocations": {"t-leader": "n1", "t-w-0": "n1"},
                        "scheduleState": "ScheduledPartly",
                    }
                },
            ),
        ],
    ),
    "a TYJob that does not fit waits with a reason, and starts when there is room": Scenario(
        objects=[in_pool("a", "n1")],
        steps=[
            Step(
                create=[four("t", least=2)],
                statuses={"TYJob/t": {"scheduleState": "ScheduledFailed", "allocations": None}},
            ),
            Step(
                create=[in_pool("a", "n2", cpu=2)],
                on={"t-leader": "n2", "t-w-0": "n1", "t-w-1": "n1"},
                statuses={"TYJob/t": {"scheduleState": "ScheduledPartly"}},
            ),
            Step(create=[in_pool("a", "n3")], on={"t-w-2": "n3"}),
        ],
    ),
    "a preemptible DIJob grows into free room, and shrinks to its requested size": Scenario(
        objects=[in_pool("a", "n1")],
        config={"cooldown": "0s"},
        steps=[
            Step(
                create=[dijob("d", template(cpu=1), replicas=(1, 3), preemptible=True)],
                on={"d-0-0": "n1", "d-0-1": "n1", "d-0-2": "n1"},
                statuses={"DIJob/d": {"allocation": ["n1"] * 3, "replicas": 3}},
            ),
            Step(
                status=[("DIJob", "d", {"requestedReplicas": 2})],
                on={"d-0-0": "n1", "d-0-1": "n1"},
                statuses={"DIJob/d": {"allocation": ["n1"] * 2, "replicas": 2}},
            ),
        ],
    ),
    "a DIJob that is not preemptible starts whole, at home": Scenario(
        objects=[in_pool("a", "n1"), in_pool("a", "n2", cpu=2)],
        steps=[
            Step(
                create=[dijob("d", template(cpu=2), replicas=(3, 3))],
                on={"d-0-0": "n2", "d-0-1": "n1", "d-0-2": "n1"},
                statuses={"DIJob/d": {"nominations": {}}},
            ),
        ],
    ),
    "the room of a TrainingJob is reserved until its pods exist": Scenario(
        objects=[in_pool("a", "n1"), node("g1", cpu=4, gpu=4, ready="True")],
        config={"maxLoad": 1, "cooldown": "0s"},
        steps=[
            Step(
                create=[trainingjob("e", trainer=ON_GPU, limits={GPU: "1"}, trainers=(2, 3), pserver=ON_CPU)],
                on={"e-trainer-0": "g1", "e-trainer-1": "g1", "e-trainer-2": "g1"},
                statuses={
                    "TrainingJob/e": {
                        "allocations": {
                            "e-pserver-0": "n1",
                            "e-trainer-0": "g1",
                            "e-trainer-1": "g1",
                            "e-trainer-2": "g1",
                        }
                    }
                },
            ),
        ],
    ),
}
"""Scenarios of jobs, whose pods are created by controllers."""
