"""The cases of spec/pools.md about lending, borrowing and reclaiming (1–4, 23 and 26 are elsewhere)."""

import pytest

from tests.builders import (
    GPU,
    NO_PREEMPTION,
    START,
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
    taint,
    template,
    tyjob,
)
from tests.support import plan

EARLY, LATE = "2024-05-01T00:00:00Z", "2024-05-01T00:01:00Z"
A, B, C = open_pool("a"), open_pool("b"), open_pool("c")
LOW, MID, HIGH = priority_class("low", -5), priority_class("mid", 5), priority_class("high", 100)
CLASSES = (LOW, MID, HIGH)
ONE = template(cpu=1)


def in_pool(pool: str, name: str, *, cpu: Amount = 4, gpu: Amount = 0, **more: list[Object]) -> Object:
    """A node of a pool."""
    return node(name, cpu=cpu, gpu=gpu, labels={"pool": pool}, taints=more.get("taints", ()))


def budgeted_pod(name: str, *, on: str, priority: str) -> Object:
    return pod(name, cpu=4, node=on, priority=priority, labels={"app": "guarded"})


def gang_pods(gang: str, count: int, *, on: tuple[str, ...] = (), pool: str | None = None) -> list[Object]:
    """Pods of 1 CPU that form a gang, distributed over nodes, or pending."""
    return [
        pod(f"{gang}-{i}", cpu=1, gang=gang, pool=pool, node=on[i % len(on)] if on else None)
        for i in range(count)
    ]


def job(
    name: str, workers: int, *, on: str | None = None, pool: str | None = None, minimum: int | None = None
) -> list[Object]:
    """A TYJob of 1-CPU tasks, all on one node or pending."""
    built = tyjob(
        name, leader=ONE, workers={"w": (workers, ONE)}, min_workers=minimum, pool=pool, created=EARLY
    )
    names = [f"{name}-leader", *(f"{name}-w-{i}" for i in range(workers))]
    return [built, *(pod_of(task, ONE, node=on, of=owner("TYJob", name)) for task in names if on)]


RECLAIM = {
    "5: home before borrowers, and within each by priority": Case(
        objects=[
            *(A, B, priority_class("p10", 10), priority_class("p1000", 1000), in_pool("a", "n1", cpu=3)),
            pod("foreign", cpu=1, pool="b", priority="p1000"),
            pod("home0", cpu=1, pool="a"),
            pod("home10", cpu=1, pool="a", priority="p10"),
        ],
        placed={"home10": "n1", "home0": "n1", "foreign": "n1"},
        order=["Pod/default/home10", "Pod/default/home0", "Pod/default/foreign"],
        borrowed=["foreign"],
    ),
    "5: borrowers may get nothing": Case(
        objects=[
            *(A, B, priority_class("p10", 10), priority_class("p1000", 1000), in_pool("a", "n1", cpu=2)),
            pod("foreign", cpu=1, pool="b", priority="p1000"),
            pod("home0", cpu=1, pool="a"),
            pod("home10", cpu=1, pool="a", priority="p10"),
        ],
        placed={"home10": "n1", "home0": "n1"},
        jobs={"Pod/default/foreign": {"state": "Unscheduled", "position": None, "reasons": ["NoRoom"]}},
    ),
    "6: a home task reclaims its pool's room from a borrower of any priority": Case(
        objects=[
            *(A, B, priority_class("p10000", 10000), in_pool("a", "n1")),
            pod("f", cpu=2, pool="b", node="n1", priority="p10000"),
            pod("a1", cpu=2, pool="a", node="n1"),
            pod("a2", cpu=2, pool="a"),
        ],
        placed={},
        evicted={"f": "Reclaimed"},
        evicted_for={"f": "Pod/default/a2"},
        jobs={
            "Pod/default/a1": {"state": "ScheduledSucceed", "allocation": {"a1": "n1"}},
            "Pod/default/a2": {
                "state": "Unscheduled",
                "nominated": {"a2": "n1"},
                "reasons": ["WaitingForRoom"],
                "position": 1,
                "target": 1,
            },
            "Pod/default/f": {"state": "Unscheduled", "allocation": {}, "current": 1, "reasons": ["NoRoom"]},
        },
    ),
    "6: the home task runs in the next cycle": Case(
        objects=[
            *(A, B, priority_class("p10000", 10000), in_pool("a", "n1")),
            pod("f", cpu=2, pool="b", node="n1", priority="p10000"),
            pod("a1", cpu=2, pool="a", node="n1"),
            pod("a2", cpu=2, pool="a"),
        ],
        cycles=2,
        placed={"a2": "n1"},
        borrowed=[],
        evicted={"f": "Reclaimed"},
        jobs={"Pod/default/a2": {"state": "ScheduledSucceed", "nominated": {}, "reasons": []}},
        absent=["Pod/default/f"],
    ),
    "6: the borrower is recreated by its owner and waits": Case(
        objects=[
            *(A, B, priority_class("p10000", 10000), in_pool("a", "n1")),
            pod("f", cpu=2, pool="b", node="n1", priority="p10000", owner=owner("ReplicaSet", "r")),
            pod("a1", cpu=2, pool="a", node="n1"),
            pod("a2", cpu=2, pool="a"),
        ],
        cycles=5,
        placed={"a2": "n1"},
        evicted={"f": "Reclaimed"},
        jobs={"Pod/default/f": {"state": "Unscheduled", "current": 0, "reasons": ["NoRoom"]}},
    ),
    "7: equal or higher home pods are no victims; it borrows": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            pod("a1", cpu=2, pool="a", node="n1", priority="high"),
            pod("a2", cpu=2, pool="a", node="n1", priority="mid"),
            pod("a3", cpu=2, pool="a", priority="mid"),
        ],
        placed={"a3": "n2"},
        borrowed=["a3"],
        jobs={"Pod/default/a3": {"state": "ScheduledSucceed", "pool": "a", "reasons": []}},
    ),
    "7: it waits if the other pool does not share": Case(
        objects=[
            *(A, open_pool("b", shares=False), *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            pod("a1", cpu=4, pool="a", node="n1"),
            pod("a3", cpu=2, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/a3": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "7: it waits if it does not fit there": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2", cpu=1)),
            pod("a1", cpu=4, pool="a", node="n1"),
            pod("a3", cpu=2, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/a3": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "7: it waits if a workload of the other pool waits": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2")),
            pod("a1", cpu=4, pool="a", node="n1"),
            pod("a3", cpu=2, pool="a"),
            pod("b1", cpu=2, pool="b", node="n2"),
            pod("b2", cpu=4, pool="b"),
        ],
        placed={},
        jobs={
            "Pod/default/a3": {"position": 1, "reasons": ["NoRoom"]},
            "Pod/default/b2": {"position": 1, "reasons": ["NoRoom"]},
        },
    ),
    "8: the pool of the masters lends nothing": Case(
        objects=[
            *(open_pool("masters", preempts=False, borrows=False, shares=False), A),
            *(in_pool("masters", "m1"), in_pool("a", "n1", cpu=1)),
            pod("p", cpu=2, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/p": {"state": "ScheduledFailed", "position": None, "reasons": ["NeverFits"]}},
    ),
    "8: the pool of the masters neither borrows nor preempts": Case(
        objects=[
            *(open_pool("masters", preempts=False, borrows=False, shares=False), A, *CLASSES),
            *(in_pool("masters", "m1"), in_pool("a", "n1")),
            pod("foreign", cpu=2, pool="a", node="m1"),
            pod("small", cpu=2, pool="masters", node="m1", priority="low"),
            pod("p", cpu=2, pool="masters", priority="high"),
        ],
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "9: pods of another scheduler are never victims, others on the node are": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("a", "n2")),
            pod("theirs", cpu=3, node="n1", scheduler="default-scheduler"),
            pod("f", cpu=1, pool="b", node="n1"),
            pod("a1", cpu=4, pool="a", node="n2"),
            pod("p", cpu=2, pool="a", priority="high"),
        ],
        placed={},
        evicted={"a1": "Preempted"},
        evicted_for={"a1": "Pod/default/p"},
        jobs={"Pod/default/p": {"nominated": {"p": "n2"}}},
        absent=["Pod/default/theirs"],
    ),
    "10: with disablePreemption nothing is evicted, but workloads borrow": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2", cpu=2)),
            pod("f", cpu=2, pool="b", node="n1"),
            pod("a1", cpu=2, pool="a", node="n1", priority="low"),
            pod("p", cpu=2, pool="a", priority="high", created=EARLY),
            pod("q", cpu=2, pool="a", priority="high", created=LATE),
        ],
        placed={"p": "n2"},
        borrowed=["p"],
        jobs={"Pod/default/q": {"position": 1, "reasons": ["NoRoom"]}},
        config=NO_PREEMPTION,
    ),
    "11: where a taint prevents placement nothing is evicted; the pod borrows": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1", taints=[taint("team")]), in_pool("b", "n2")),
            pod("f", cpu=4, pool="b", node="n1"),
            pod("p", cpu=2, pool="a", priority="high"),
        ],
        placed={"p": "n2"},
        borrowed=["p"],
    ),
    "12: the room of a terminating borrower goes to the home pool, without a victim": Case(
        objects=[
            *(open_pool("a", preempts=False), B, in_pool("a", "n1", cpu=2), in_pool("b", "n2", cpu=2)),
            pod("f", cpu=2, pool="b", node="n1", terminating=True),
            pod("a1", cpu=2, pool="a"),
            pod("b1", cpu=2, pool="b", node="n2"),
            pod("b2", cpu=2, pool="b"),
        ],
        placed={},
        jobs={
            "Pod/default/a1": {"nominated": {"a1": "n1"}, "reasons": ["WaitingForRoom"]},
            "Pod/default/b2": {"reasons": ["NoRoom"]},
        },
    ),
    "12: within one cycle after the borrower is gone": Case(
        objects=[
            *(open_pool("a", preempts=False), B, in_pool("a", "n1", cpu=2), in_pool("b", "n2", cpu=2)),
            pod("f", cpu=2, pool="b", node="n1", terminating=True),
            pod("a1", cpu=2, pool="a"),
            pod("b1", cpu=2, pool="b", node="n2"),
            pod("b2", cpu=2, pool="b"),
        ],
        cycles=2,
        placed={"a1": "n1"},
        borrowed=[],
    ),
}


def lending_pools(*, borrows: bool = True, borrows_from: tuple[str, ...] = ()) -> list[Object]:
    """A pod whose home pool has no nodes, and two pools that lend."""
    return [
        *(open_pool("pool1"), open_pool("pool2")),
        open_pool("pool3", borrows=borrows, borrows_from=borrows_from),
        *(in_pool("pool1", "n1", cpu=1), in_pool("pool2", "n2", cpu=2)),
        pod("p", cpu="500m", pool="pool3"),
    ]


BORROWING = {
    "13: of two lenders the one with more room left": Case(
        objects=lending_pools(), placed={"p": "n2"}, borrowed=["p"]
    ),
    "14: only from the pools that its pool names": Case(
        objects=lending_pools(borrows_from=("pool1",)), placed={"p": "n1"}, borrowed=["p"]
    ),
    "15: a pool that does not borrow lets its pods wait": Case(
        objects=lending_pools(borrows=False),
        placed={},
        jobs={"Pod/default/p": {"pool": "pool3", "state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "16: a hundred pods that borrow at once are spread": Case(
        objects=[
            *(open_pool("pool1"), open_pool("pool2"), open_pool("pool3")),
            *(in_pool("pool1", "n1", cpu=48), in_pool("pool2", "n2", cpu=48)),
            *(pod(f"p{number:03}", cpu=1, pool="pool3", created=START) for number in range(100)),
        ],
        placed={f"p{number:03}": ("n1", "n2")[number % 2] for number in range(96)},
        jobs={"Pod/default/p096": {"reasons": ["NoRoom"]}, "Pod/default/p099": {"reasons": ["NoRoom"]}},
    ),
    "27: a workload that never fits its pool does not keep the pool from lending": Case(
        objects=[
            *(
                A,
                B,
                open_pool("c", borrows=False, shares=False),
                in_pool("a", "n1"),
                in_pool("c", "g", gpu=1),
            ),
            pod("gpu", cpu=1, gpu=1, pool="a"),
            pod("p", cpu=1, pool="b"),
        ],
        placed={"p": "n1"},
        borrowed=["p"],
        jobs={"Pod/default/gpu": {"state": "ScheduledFailed", "position": None, "reasons": ["NeverFits"]}},
    ),
    "27: nor if other pools could take it": Case(
        objects=[
            *(A, B, open_pool("g", borrows=False), in_pool("a", "n1"), in_pool("g", "n2", gpu=1)),
            pod("theirs", cpu=1, gpu=1, pool="g", node="n2"),
            pod("gpu", cpu=1, gpu=1, pool="a"),
            pod("p", cpu=1, pool="b", priority="low"),
            LOW,
        ],
        placed={"p": "n1"},
        borrowed=["p"],
        jobs={"Pod/default/gpu": {"state": "Unscheduled", "position": None, "reasons": ["NoRoom"]}},
    ),
    "a workload is placed entirely in one lending pool": Case(
        objects=[
            *(A, B, C, in_pool("b", "n1", cpu=2), in_pool("c", "n2", cpu=2)),
            *gang_pods("g", 3, pool="a"),
        ],
        placed={},
        jobs={"Gang/default/g": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "a borrower takes all its tasks that fit, and the rest waits": Case(
        objects=[A, B, in_pool("b", "n1", cpu=3), *job("t", 4, pool="a", minimum=1)],
        placed={"t-leader": "n1", "t-w-0": "n1", "t-w-1": "n1"},
        borrowed=["t-leader", "t-w-0", "t-w-1"],
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "position": None, "reasons": ["NoRoom"]}},
    ),
    "the rest of a borrower is placed in the same pool": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2"), *job("t", 3, pool="a", minimum=1)),
            *(pod_of(f"t-{task}", ONE, node="n2", of=owner("TYJob", "t")) for task in ("leader", "w-0")),
        ],
        placed={"t-w-1": "n2", "t-w-2": "n2"},
        borrowed=["t-w-1", "t-w-2"],
    ),
    "a borrower whose pods do not exist yet is not moved home": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2")),
            tyjob(
                "t",
                leader=ONE,
                workers={"w": (2, ONE)},
                pool="a",
                status={"allocations": {"t-leader": "n2", "t-w-0": "n2"}},
            ),
        ],
        placed={"t-w-1": "n2"},
        borrowed=["t-w-1"],
        jobs={
            "TYJob/default/t": {
                "state": "ScheduledSucceed",
                "allocation": {"t-leader": "n2", "t-w-0": "n2", "t-w-1": "n2"},
            }
        },
    ),
    "the rest of a borrower waits while a workload of the lender waits": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=1), in_pool("b", "n2"), *job("t", 3, pool="a", minimum=1)),
            *(pod_of(f"t-{task}", ONE, node="n2", of=owner("TYJob", "t")) for task in ("leader", "w-0")),
            pod("x", cpu=1, node="n2", scheduler="other"),
            pod("b1", cpu=4, pool="b"),
        ],
        placed={},
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "reasons": ["NoRoom"]}},
    ),
    "the rest of a borrower waits once the pool no longer shares": Case(
        objects=[
            *(A, open_pool("b", shares=False), in_pool("a", "n1"), in_pool("b", "n2")),
            *job("t", 3, pool="a", minimum=1),
            *(pod_of(f"t-{task}", ONE, node="n2", of=owner("TYJob", "t")) for task in ("leader", "w-0")),
        ],
        placed={},
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "reasons": ["NoRoom"]}},
    ),
    "room reserved for a nominated task is not lent": Case(
        objects=[
            *(A, B, in_pool("a", "n1")),
            pod("leaving", cpu=2, node="n1", pool="a", terminating=True),
            pod("a1", cpu=3, pool="a", nominated="n1"),
            pod("p", cpu=2, pool="b"),
        ],
        placed={},
        jobs={"Pod/default/a1": {"nominated": {"a1": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "room about to become free at home precedes borrowing": Case(
        objects=[
            *(A, B, in_pool("a", "n1"), in_pool("b", "n2")),
            pod("leaving", cpu=4, node="n1", pool="a", terminating=True),
            pod("p", cpu=2, pool="a"),
        ],
        placed={},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "a DIJob that is not preemptible never borrows": Case(
        objects=[A, B, in_pool("a", "n1", cpu=1), in_pool("b", "n2"), dijob("d", template(cpu=2), pool="a")],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "a preemptible DIJob borrows": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=1), in_pool("b", "n2")),
            dijob("d", template(cpu=2), pool="a", preemptible=True),
        ],
        placed={"d-0-0": "n2"},
        borrowed=["d-0-0"],
    ),
}


def full_nodes(*nodes: tuple[str, ...]) -> list[Object]:
    """Nodes n1, n2, … of 4 CPUs, filled by pods of these classes, and a pod that needs a whole node."""
    objects: list[Object] = [pod("p", cpu=4, priority="top"), priority_class("top", 1000)]
    for number, classes in enumerate(nodes, start=1):
        objects.append(node(f"n{number}", cpu=4))
        objects += [
            pod(f"v{number}-{i}", cpu=f"{4000 // len(classes)}m", node=f"n{number}", priority=name)
            for i, name in enumerate(classes)
        ]
    return objects


P2, P4 = priority_class("p2", 2), priority_class("p4", 4)

VICTIM_CHOICE = {
    "17: the node whose highest victim is lowest": Case(
        objects=[*CLASSES, *full_nodes(("high",), ("mid",), ("low", "low"))],
        placed={},
        evicted={"v3-0": "Preempted", "v3-1": "Preempted"},
        jobs={"Pod/default/p": {"nominated": {"p": "n3"}}},
    ),
    "18: equal highest: the lowest sum": Case(
        objects=[*CLASSES, P2, *full_nodes(("mid", "mid"), ("mid", "p2"))],
        placed={},
        evicted={"v2-0": "Preempted", "v2-1": "Preempted"},
    ),
    "18: equal sum: the fewest": Case(
        objects=[*CLASSES, P2, P4, *full_nodes(("mid", "p2", "p2"), ("mid", "p4"))],
        placed={},
        evicted={"v2-0": "Preempted", "v2-1": "Preempted"},
    ),
    "18: negative priorities count 0 in the sum": Case(
        objects=[*CLASSES, *full_nodes(("mid", "low"), ("mid",))],
        placed={},
        evicted={"v2-0": "Preempted"},
    ),
    "18: equal in all: the first by name": Case(
        objects=[*CLASSES, *full_nodes(("mid",), ("mid",))], placed={}, evicted={"v1-0": "Preempted"}
    ),
    "19: pods protected by a budget stay if another node is enough": Case(
        objects=[
            *(*CLASSES, budget("b", selector={"app": "guarded"}, min_available=1), node("n1", cpu=4)),
            *(node("n2", cpu=4), budgeted_pod("v1", on="n1", priority="low")),
            pod("v2", cpu=4, node="n2", priority="mid"),
            pod("p", cpu=4, priority="high"),
        ],
        placed={},
        evicted={"v2": "Preempted"},
    ),
    "19: pods protected by a budget are evicted if no other node is enough": Case(
        objects=[
            *(*CLASSES, budget("b", selector={"app": "guarded"}, min_available=1), node("n1", cpu=4)),
            budgeted_pod("v1", on="n1", priority="low"),
            pod("p", cpu=4, priority="high"),
        ],
        placed={},
        evicted={"v1": "Preempted"},
    ),
    "19: the status of a budget precedes its spec": Case(
        objects=[
            *(*CLASSES, budget("b", selector={"app": "guarded"}, min_available=1, allowed=1)),
            *(node("n1", cpu=4), node("n2", cpu=4), budgeted_pod("v1", on="n1", priority="low")),
            pod("v2", cpu=4, node="n2", priority="mid"),
            pod("p", cpu=4, priority="high"),
        ],
        placed={},
        evicted={"v1": "Preempted"},
    ),
    "19: percentages are of the healthy pods, rounded up": Case(
        objects=[
            *(*CLASSES, budget("b", selector={"app": "guarded"}, max_unavailable="30%")),
            *(node(f"n{i}", cpu=4) for i in (1, 2)),
            *(budgeted_pod(f"v{i}", on=f"n{i}", priority="low") for i in (1, 2)),
            pod("p", cpu=4, priority="high", created=EARLY),
            pod("q", cpu=4, priority="high", created=LATE),
            *(node("n3", cpu=4), pod("v3", cpu=4, node="n3", priority="mid")),
        ],
        placed={},
        evicted={"v1": "Preempted", "v3": "Preempted"},
        evicted_for={"v1": "Pod/default/p", "v3": "Pod/default/q"},
    ),
    "on one node the pod protected by a budget is reprieved first": Case(
        objects=[
            *(*CLASSES, budget("b", selector={"app": "guarded"}, allowed=0), node("n1", cpu=4)),
            pod("v1", cpu=2, node="n1", priority="low", labels={"app": "guarded"}, created=LATE),
            pod("v2", cpu=2, node="n1", priority="mid", created=EARLY),
            pod("p", cpu=2, priority="high"),
        ],
        placed={},
        evicted={"v2": "Preempted"},
    ),
    "reprieved: the higher priority, then the older": Case(
        objects=[
            *(*CLASSES, node("n1", cpu=4)),
            pod("old", cpu=1, node="n1", priority="low", created=EARLY),
            pod("new", cpu=1, node="n1", priority="low", created=LATE),
            pod("mid", cpu=2, node="n1", priority="mid", created=LATE),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted={"new": "Preempted"},
    ),
    "borrowers are evicted before home pods": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("a", "n2")),
            pod("a1", cpu=4, pool="a", node="n1", priority="low"),
            *(pod(f"f{i}", cpu=1, pool="b", node="n2", priority="high") for i in range(4)),
            pod("p", cpu=4, pool="a", priority="mid"),
        ],
        placed={},
        evicted={f"f{i}": "Reclaimed" for i in range(4)},
    ),
    "a borrower in a pool that no longer shares is evicted first": Case(
        objects=[
            *(open_pool("a", shares=False), B, *CLASSES, in_pool("a", "n1", cpu=2)),
            pod("f", cpu=1, pool="b", node="n1", priority="high", created=EARLY),
            pod("a1", cpu=1, pool="a", node="n1", priority="low"),
            pod("p", cpu=1, pool="a", priority="mid"),
        ],
        placed={},
        evicted={"f": "Reclaimed"},
    ),
    "a pod on a relabelled node is a borrower there": Case(
        objects=[
            *(A, B, in_pool("b", "n1", cpu=1)),
            *(pod("f", cpu=1, pool="a", node="n1"), pod("b1", cpu=1, pool="b")),
        ],
        placed={},
        evicted={"f": "Reclaimed"},
        evicted_for={"f": "Pod/default/b1"},
    ),
    "a class that never preempts evicts nothing": Case(
        objects=[
            *(LOW, priority_class("patient", 100, never=True), node("n1", cpu=1)),
            *(pod("v", cpu=1, node="n1", priority="low"), pod("p", cpu=1, priority="patient")),
        ],
        placed={},
        jobs={"Pod/default/p": {"position": 1, "reasons": ["NoRoom"]}},
    ),
    "a pod with preemptionPolicy Never evicts nothing": Case(
        objects=[
            *(LOW, HIGH, node("n1", cpu=1), pod("v", cpu=1, node="n1", priority="low")),
            pod("p", cpu=1, priority="high", spec={"preemptionPolicy": "Never"}),
        ],
        placed={},
    ),
    "the job priority of a kind evicts nothing": Case(
        objects=[
            node("n1", cpu=2),
            *job("v", 1, on="n1"),
            tyjob("t", leader=ONE, workers={"w": (1, ONE)}, priority=10),
        ],
        placed={},
        jobs={"TYJob/default/t": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "a DIJob that is not preemptible is no victim": Case(
        objects=[
            *(
                HIGH,
                node("n1", cpu=1),
                dijob("d", ONE),
                pod_of("d-0-0", ONE, node="n1", of=owner("DIJob", "d")),
            ),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
    ),
    "a preemptible DIJob is a victim": Case(
        objects=[
            *(HIGH, node("n1", cpu=1), dijob("d", ONE, preemptible=True)),
            pod_of("d-0-0", ONE, node="n1", of=owner("DIJob", "d")),
            pod("p", cpu=1, priority="high"),
        ],
        placed={},
        evicted={"d-0-0": "Preempted"},
        jobs={"DIJob/default/d": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "PreemptFirst, the default: preempts at home though another pool would lend": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            *(pod("v", cpu=4, pool="a", node="n1"), pod("p", cpu=4, pool="a", priority="high")),
        ],
        placed={},
        evicted={"v": "Preempted"},
    ),
    "BorrowFirst: borrows though it could preempt": Case(
        objects=[
            *(open_pool("a", order="BorrowFirst"), B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            *(pod("v", cpu=4, pool="a", node="n1"), pod("p", cpu=4, pool="a", priority="high")),
        ],
        placed={"p": "n2"},
        borrowed=["p"],
    ),
    "BorrowFirst: a workload that cannot borrow preempts": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2", cpu=3)),
            *(pod("v", cpu=4, pool="a", node="n1"), pod("p", cpu=4, pool="a", priority="high")),
        ],
        placed={},
        evicted={"v": "Preempted"},
        jobs={"Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]}},
        config={"order": "BorrowFirst"},
    ),
    "the order of a pool overrides the scheduler's": Case(
        objects=[
            *(open_pool("a", order="PreemptFirst"), B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            *(pod("v", cpu=4, pool="a", node="n1"), pod("p", cpu=4, pool="a", priority="high")),
        ],
        placed={},
        evicted={"v": "Preempted"},
        config={"order": "BorrowFirst"},
    ),
    "with disablePreemption of its own a pool borrows at once": Case(
        objects=[
            *(open_pool("a", preempts=False), B, *CLASSES, in_pool("a", "n1"), in_pool("b", "n2")),
            *(pod("v", cpu=4, pool="a", node="n1"), pod("p", cpu=4, pool="a", priority="high")),
        ],
        placed={"p": "n2"},
    ),
}

GPUS = open_pool("gpus", node_resources=[GPU])
CPUS = open_pool("cpus", selector={"kind": "cpu"})
CPU_MACHINE = node("c1", cpu=4, labels={"kind": "cpu"})

SCENARIOS = {
    "20: CPU jobs use the CPUs of idle GPU machines": Case(
        objects=[
            *(GPUS, CPUS, CPU_MACHINE, node("g1", cpu=8, gpu=8)),
            *(pod("c", cpu=4, pool="cpus", node="c1"), pod("d", cpu=4, pool="cpus")),
        ],
        placed={"d": "g1"},
        borrowed=["d"],
    ),
    "20: CPU jobs are evicted when GPU jobs arrive": Case(
        objects=[
            *(GPUS, CPUS, CPU_MACHINE, node("g1", cpu=8, gpu=8)),
            *(pod("c", cpu=4, pool="cpus", node="c1"), pod("d", cpu=4, pool="cpus", node="g1")),
            tyjob(
                "t",
                leader=template(cpu=2),
                workers={"w": (2, template(cpu=3, gpu=4))},
                min_workers=2,
                pool="gpus",
            ),
        ],
        cycles=3,
        placed={"t-leader": "g1", "t-w-0": "g1", "t-w-1": "g1"},
        borrowed=[],
        evicted={"d": "Reclaimed"},
        evicted_for={"d": "TYJob/default/t"},
        jobs={"TYJob/default/t": {"state": "ScheduledSucceed"}},
    ),
    "21: jobs of one GPU run on machines of eight": Case(
        objects=[
            *(open_pool("ones"), open_pool("eights"), in_pool("eights", "e1", cpu=16, gpu=8)),
            *(pod(f"p{i}", cpu=1, gpu=1, pool="ones") for i in range(3)),
        ],
        placed={f"p{i}": "e1" for i in range(3)},
        borrowed=[f"p{i}" for i in range(3)],
    ),
    "21: until a job of eight GPUs arrives": Case(
        objects=[
            *(open_pool("ones"), open_pool("eights"), in_pool("eights", "e1", cpu=16, gpu=8)),
            *(pod(f"p{i}", cpu=1, gpu=1, pool="ones", node="e1") for i in range(3)),
            pod("big", cpu=8, gpu=8, pool="eights"),
        ],
        cycles=2,
        placed={"big": "e1"},
        evicted={f"p{i}": "Reclaimed" for i in range(3)},
    ),
    "22: team A's idle machines serve team B": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2), in_pool("b", "n3", cpu=1)),
            *(pod(f"b{i}", cpu=1, pool="b", created=EARLY) for i in range(5)),
        ],
        placed={"b0": "n3", "b1": "n1", "b2": "n1", "b3": "n2", "b4": "n2"},
        borrowed=["b1", "b2", "b3", "b4"],
    ),
    "22: until A needs them, and no more than it needs": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2), in_pool("b", "n3", cpu=1)),
            pod("b0", cpu=1, pool="b", node="n3"),
            *(pod(f"b{i}", cpu=1, pool="b", node="n1", owner=owner("ReplicaSet", "r")) for i in (1, 2)),
            *(pod(f"b{i}", cpu=1, pool="b", node="n2", owner=owner("ReplicaSet", "r")) for i in (3, 4)),
            pod("a1", cpu=2, pool="a"),
        ],
        cycles=4,
        placed={"a1": "n1"},
        evicted={"b1": "Reclaimed", "b2": "Reclaimed"},
        jobs={"Pod/default/b1": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "23: nodes by the resources they have": Case(
        objects=[GPUS, CPUS, CPU_MACHINE, node("g1", gpu=8), node("n1")],
        placed={},
        pools={"cpus": ["c1"], "default": ["n1"], "gpus": ["g1"]},
    ),
    "24: a gang of four that would lose two is evicted whole": Case(
        objects=[
            *(HIGH, node("n1", cpu=2), node("n2", cpu=2)),
            *gang_pods("g", 4, on=("n1", "n2")),
            pod("p", cpu=2, priority="high"),
        ],
        placed={},
        evicted={f"g-{i}": "Preempted" for i in range(4)},
        evicted_for={f"g-{i}": "Pod/default/p" for i in range(4)},
        jobs={
            "Pod/default/p": {"nominated": {"p": "n1"}},
            "Gang/default/g": {"state": "Unscheduled", "allocation": {}, "reasons": ["NoRoom"]},
        },
    ),
    "24: also if part of it is in another pool": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("b", "n2", cpu=2)),
            *gang_pods("g", 4, on=("n1", "n2"), pool="b"),
            pod("p", cpu=2, pool="a"),
        ],
        placed={},
        evicted={f"g-{i}": "Reclaimed" for i in range(4)},
    ),
    "a victim job that keeps its minimum loses only what is needed": Case(
        objects=[
            *(HIGH, node("n1", cpu=4), *job("t", 3, on="n1", minimum=1)),
            pod("p", cpu=2, priority="high"),
        ],
        placed={},
        evicted={"t-w-1": "Preempted", "t-w-2": "Preempted"},
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "target": 1, "reasons": ["NoRoom"]}},
    ),
    "25: while the victim terminates, no other workload takes the room": Case(
        objects=[
            *(*CLASSES, node("n1", cpu=4), pod("v", cpu=4, node="n1", priority="low", terminating=True)),
            pod("p", cpu=3, priority="high", nominated="n1"),
            pod("other", cpu=2, priority="mid"),
        ],
        placed={},
        jobs={
            "Pod/default/p": {"nominated": {"p": "n1"}, "position": 1, "reasons": ["WaitingForRoom"]},
            "Pod/default/other": {"position": 2, "reasons": ["Behind"]},
        },
    ),
    "a nominated workload is placed where it fits now, before a later one": Case(
        objects=[
            *(*CLASSES, node("n1", cpu=4), node("n2", cpu=4)),
            pod("v", cpu=4, node="n1", priority="low", terminating=True),
            pod("p", cpu=3, priority="high", nominated="n1"),
            pod("other", cpu=3, priority="mid"),
        ],
        placed={"p": "n2"},
        jobs={
            "Pod/default/p": {"state": "ScheduledSucceed", "nominated": {}},
            "Pod/default/other": {"nominated": {"other": "n1"}, "reasons": ["WaitingForRoom"]},
        },
    ),
    "a nominated workload does not take room that is reserved for another": Case(
        objects=[
            *(*CLASSES, node("n1", cpu=4), node("n2", cpu=4)),
            pod("v", cpu=4, node="n1", priority="low", terminating=True),
            pod("w", cpu=1, node="n2", priority="low", terminating=True),
            pod("p", cpu=3, priority="high", nominated="n1"),
            pod("other", cpu=4, priority="mid", nominated="n2"),
        ],
        placed={},
        jobs={
            "Pod/default/p": {"nominated": {"p": "n1"}, "reasons": ["WaitingForRoom"]},
            "Pod/default/other": {"nominated": {"other": "n2"}, "reasons": ["WaitingForRoom"]},
        },
    ),
    "the nomination of a pod that has a node reserves nothing": Case(
        objects=[
            *(node("n1", cpu=4), node("n2", cpu=4), node("n3", cpu=4)),
            *(pod("p", cpu=4, node="n2", nominated="n1"), pod("other", cpu=4)),
            pod("leaving", cpu=4, node="n3", nominated="n1", terminating=True),
        ],
        placed={"other": "n1"},
        jobs={"Pod/default/p": {"state": "ScheduledSucceed", "nominated": {}}},
    ),
    "a nominated gang of which only a part fits now keeps its reservations": Case(
        objects=[
            *(node("n1", cpu=2), node("n2", cpu=1), pod("v", cpu=2, node="n1", terminating=True)),
            *(pod(f"g-{i}", cpu=1, gang="g", nominated="n1") for i in range(2)),
        ],
        placed={},
        jobs={"Gang/default/g": {"nominated": {"g-0": "n1", "g-1": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "25: nor over three cycles": Case(
        objects=[
            *(*CLASSES, node("n1", cpu=4)),
            pod("v", cpu=4, node="n1", priority="low", owner=owner("ReplicaSet", "r")),
            pod("p", cpu=3, priority="high"),
            pod("other", cpu=2, priority="mid"),
        ],
        cycles=3,
        placed={"p": "n1"},
        evicted={"v": "Preempted"},
        evicted_for={"v": "Pod/default/p"},
        jobs={
            "Pod/default/p": {"state": "ScheduledSucceed"},
            "Pod/default/other": {"position": 1, "reasons": ["NoRoom"]},
            "Pod/default/v": {"position": 2, "reasons": ["NoRoom"]},
        },
    ),
}

PUTTING_BACK = {
    "a home job keeps a part, before a lower class and a borrower are put back": Case(
        # all of t does not fit back, but its minimum and one worker more do
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1", cpu=6)),
            *job("t", 3, on="n1", pool="a", minimum=1),
            pod("low", cpu=1, pool="a", node="n1", priority="low"),
            pod("f", cpu=1, pool="b", node="n1"),
            pod("p", cpu=3, pool="a", priority="high"),
        ],
        placed={},
        evicted={"t-w-2": "Preempted", "low": "Preempted", "f": "Reclaimed"},
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "target": 2}},
    ),
    "a job gets nothing back if what fits is not its minimum; others then do": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1", cpu=6)),
            *job("t", 3, on="n1", pool="a", minimum=3),
            pod("low", cpu=1, pool="a", node="n1", priority="low"),
            pod("f", cpu=1, pool="b", node="n1"),
            pod("p", cpu=3, pool="a", priority="high"),
        ],
        placed={},
        evicted={"t-leader": "Preempted", **{f"t-w-{i}": "Preempted" for i in range(3)}},
    ),
    "a gang: a home job keeps a part, before a lower class and a borrower are put back": Case(
        objects=[
            *(A, B, *CLASSES, in_pool("a", "n1", cpu=3), in_pool("a", "n2", cpu=3)),
            *job("t", 3, pool="a", minimum=1)[:1],
            *(
                pod_of(f"t-{name}", ONE, node="n1", of=owner("TYJob", "t"))
                for name in ("leader", "w-0", "w-1")
            ),
            pod_of("t-w-2", ONE, node="n2", of=owner("TYJob", "t")),
            pod("low", cpu=1, pool="a", node="n2", priority="low"),
            pod("f", cpu=1, pool="b", node="n2"),
            *(pod(f"g-{i}", cpu=1, pool="a", priority="high", gang="g") for i in range(3)),
        ],
        placed={},
        evicted={"t-w-2": "Preempted", "low": "Preempted", "f": "Reclaimed"},
        jobs={"Gang/default/g": {"nominated": {"g-0": "n2", "g-1": "n2", "g-2": "n2"}}},
    ),
    "a borrower keeps a part, before a younger one is put back": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=5)),
            *job("t", 2, on="n1", pool="b", minimum=1),
            *(pod(f"f{i}", cpu=1, pool="b", node="n1", created=LATE) for i in range(2)),
            pod("p", cpu=3, pool="a"),
        ],
        placed={},
        evicted={"t-w-1": "Reclaimed", "f0": "Reclaimed", "f1": "Reclaimed"},
    ),
}

GANGS = {
    "a gang preempts on several nodes at once": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2)),
            *(pod("f1", cpu=2, pool="b", node="n1"), pod("f2", cpu=2, pool="b", node="n2")),
            *gang_pods("g", 4, pool="a"),
        ],
        placed={},
        evicted={"f1": "Reclaimed", "f2": "Reclaimed"},
        jobs={"Gang/default/g": {"nominated": {"g-0": "n1", "g-1": "n1", "g-2": "n2", "g-3": "n2"}}},
    ),
    "a gang that would not fit even then evicts nothing": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2)),
            *(pod("f1", cpu=2, pool="b", node="n1"), pod("x", cpu=1, node="n2", scheduler="other")),
            *gang_pods("g", 4, pool="a"),
        ],
        placed={},
        jobs={"Gang/default/g": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "a gang with too few existing pods evicts nothing": Case(
        objects=[
            A,
            in_pool("a", "n1", cpu=4),
            pod("f", cpu=4, node="n1", pool="b"),
            pod("g-0", cpu=4, pool="a", gang="g", gang_min=2),
        ],
        placed={},
        says={"Gang/default/g": ["1 of 2 pods exist"]},
    ),
    "a gang preempts for its minimum only": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2)),
            *(pod("f1", cpu=2, pool="b", node="n1"), pod("f2", cpu=2, pool="b", node="n2")),
            *job("t", 3, pool="a", minimum=1),
        ],
        placed={},
        evicted={"f2": "Reclaimed"},
        jobs={"TYJob/default/t": {"nominated": {"t-leader": "n2", "t-w-0": "n2"}, "target": 1}},
    ),
    "the rest of a preempting gang waits": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=2), in_pool("a", "n2", cpu=2)),
            *(pod("f1", cpu=2, pool="b", node="n1"), pod("f2", cpu=2, pool="b", node="n2")),
            *job("t", 3, pool="a", minimum=1),
        ],
        cycles=5,
        placed={"t-leader": "n2", "t-w-0": "n2"},
        evicted={"f2": "Reclaimed"},
        jobs={"TYJob/default/t": {"state": "ScheduledPartly", "position": None, "reasons": ["NoRoom"]}},
    ),
    "no more victims than the gang needs": Case(
        objects=[
            *(HIGH, node("n1", cpu=4)),
            *(pod(f"v{i}", cpu=1, node="n1", created=EARLY) for i in range(4)),
            tyjob("t", leader=template(cpu=1, priority="high"), workers={"w": (1, ONE)}),
        ],
        placed={},
        evicted={"v2": "Preempted", "v3": "Preempted"},
    ),
    "a gang evicts a whole gang if it needs its room": Case(
        objects=[
            *(A, B, in_pool("a", "n1", cpu=4)),
            *gang_pods("f", 4, on=("n1",), pool="b"),
            *gang_pods("g", 2, pool="a"),
        ],
        placed={},
        evicted={f"f-{i}": "Reclaimed" for i in range(4)},
    ),
}

CASES = RECLAIM | BORROWING | VICTIM_CHOICE | SCENARIOS | PUTTING_BACK | GANGS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    answer = plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now)
    check(case, answer)
