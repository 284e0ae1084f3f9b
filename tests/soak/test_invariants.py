"""The checker reports every violation, and none where there is none: sequences of objects as cases."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from shoal.apiserver.registry.records import Change, Key, Record
from shoal.simulator import START, FaultInjector, Schedule, WallClock, run
from tests.builders import INDEX, Object, budget, node, pod
from tests.soak.checker import InvariantChecker
from tests.soak.observed_state import ObservedState

RESOURCES = {
    "Pod": "pods",
    "Node": "nodes",
    "Job": "jobs.batch",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
}
DELETED: Object = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
DISRUPTED: Object = {"type": "DisruptionTarget", "status": "True"}
FULL: Object = {"type": "PodScheduled", "status": "False", "message": "full"}
LONG = 3600.0
"""Seconds, longer than any allowed delay."""

StepSpec = Object | float | str
"""A new version of an object, or its deletion; or a number of seconds that pass; or a fault."""


def with_uid(thing: Object, **more: Object) -> Object:
    """An object with a uid, and with additional metadata, spec or status."""
    merged = {part: {**thing.get(part, {}), **more.get(part, {})} for part in ("metadata", "spec", "status")}
    merged["metadata"]["uid"] = f"uid-{merged['metadata']['name']}"
    return {**thing, **merged}


def one(
    name: str,
    on: str = "",
    cpu: int = 2,
    phase: str = "Pending",
    *,
    disrupted: bool = False,
    terminating: bool = False,
    status: Object | None = None,
) -> Object:
    """A pod without an owner; it may have the DisruptionTarget condition, and may be terminating."""
    more = {"conditions": [DISRUPTED]} if disrupted else {}
    made = pod(name, cpu=cpu, node=on or None)
    return with_uid(
        made, metadata=DELETED if terminating else {}, status={"phase": phase, **more, **(status or {})}
    )


def rank(
    name: str, index: int, phase: str = "Running", *, disrupted: bool = False, terminating: bool = False
) -> Object:
    """A pod of the Job, and its index."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
    metadata = {"annotations": {INDEX: str(index)}, "ownerReferences": [owner]}
    return with_uid(
        one(name, "n1", 1, phase, disrupted=disrupted, terminating=terminating), metadata=metadata
    )


def member(name: str, on: str = "", phase: str = "Pending", nominated: str = "") -> Object:
    """A pod of a gang of which two start together."""
    notes = {"shoal.io/gang": "g", "shoal.io/gang-min": "2"}
    status = {"nominatedNodeName": nominated} if nominated else {}
    return with_uid(one(name, on, 1, phase, status=status), metadata={"annotations": notes})


def job(succeeded: int = 0, *ends: str, parallelism: int = 2) -> Object:
    conditions = [{"type": end, "status": "True"} for end in ends]
    status = {"succeeded": succeeded, "conditions": conditions}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"}}
    return with_uid(made, spec={"completions": 3, "parallelism": parallelism}, status=status)


def guard(allowed: int) -> Object:
    """A budget for three pods, of which two must be healthy."""
    status = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2}
    return with_uid(budget("guard", selector={}), status=status)


def deleted(thing: Object) -> Object:
    return {**thing, "deleted": True}


N1, N2 = with_uid(node("n1", cpu=4, pods=3)), with_uid(node("n2", cpu=4, pods=3))
CORDONED = with_uid(N2, spec={"unschedulable": True})

BOUND_GANG = (member("a"), member("b", nominated="n1"), member("a", "n1"), member("b", "n1"))
"""A gang that is bound correctly."""
NOMINATED_GANG = (member("a"), member("b"), member("a", nominated="n1"), member("b", nominated="n1"))
"""A gang that is nominated, and about to be bound."""
NOMINATED = (
    one("a", status={"conditions": [FULL]}),
    one("a", status={"conditions": [FULL], "nominatedNodeName": "n1"}),
)
GANG_ON_TWO_NODES = tuple(
    with_uid(member(name, nominated=nominated), status={"conditions": [FULL]})
    for name, nominated in (("g1", ""), ("g2", ""), ("g1", "n1"), ("g2", "n2"))
)
"""A gang that is nominated for two nodes."""


@dataclass(frozen=True)
class Case:
    """What happens, which pods run at its end, and the invariant that is violated, if any."""

    steps: Sequence[StepSpec]
    violation: str = ""
    running: Mapping[str, Sequence[str]] = field(default_factory=dict)


CASES = {
    "a node can be full": Case([N1, one("a", "n1"), one("b", "n1")]),
    "a node is overcommitted": Case(
        [N1, one("a", "n1"), one("b", "n1"), one("c", "n1", 1)], "bound_pods_fit_their_node"
    ),
    "finished pods do not count": Case(
        [N1, one("a", "n1", 4), one("a", "n1", 4, "Succeeded"), one("b", "n1", 4)]
    ),
    "terminating pods count": Case(
        [
            N1,
            one("a", "n1", 4, disrupted=True),
            one("a", "n1", 4, disrupted=True, terminating=True),
            one("b", "n1", 4),
        ],
        "bound_pods_fit_their_node",
    ),
    "a node has too many pods": Case(
        [N1, *(one(name, "n1", 1) for name in "abcd")], "bound_pods_fit_their_node"
    ),
    "a node still runs a deleted pod": Case(
        [
            N1,
            one("a", "n1", 4, disrupted=True),
            deleted(one("a", "n1", 4, disrupted=True)),
            one("b", "n1", 4, "Running"),
        ],
        "running_pods_fit_their_node",
        {"n1": ["uid-a", "uid-b"]},
    ),
    "a gang is bound one by one after all were nominated": Case([N1, *BOUND_GANG]),
    "half a gang is bound": Case(
        [N1, member("a"), member("b"), member("a", "n1")], "gangs_are_whole_or_absent"
    ),
    "half a gang is bound, and a pod has just lost its nomination": Case(
        [N1, *NOMINATED_GANG, member("b"), "a fault", member("a", "n1")], "gangs_are_whole_or_absent"
    ),
    "a pod of a gang has failed, and another is bound": Case(
        [N1, *NOMINATED_GANG, member("b", phase="Failed"), member("a", "n1")], "gangs_are_whole_or_absent"
    ),
    "a pod of a gang has failed while the binding of another was delayed": Case(
        [N1, *NOMINATED_GANG, "a fault", member("b", phase="Failed"), 60.0, member("a", "n1"), LONG / 12, N2]
    ),
    "a partial gang after a delayed binding stays": Case(
        [N1, *NOMINATED_GANG, "a fault", member("b", phase="Failed"), 60.0, member("a", "n1"), LONG, N2],
        "gangs_are_whole_or_absent",
    ),
    "a partial gang has time to recover": Case(
        [N1, *BOUND_GANG, LONG / 12, member("b", "n1", "Failed"), LONG / 12, N2]
    ),
    "a partial gang stays": Case(
        [N1, *BOUND_GANG, member("b", "n1", "Failed"), LONG, N2],
        "gangs_are_whole_or_absent",
    ),
    "a gang of which one pod has succeeded is whole": Case(
        [N1, *BOUND_GANG, member("b", "n1", "Succeeded"), LONG, N2]
    ),
    "the only pod of a gang is nominated": Case(
        [N1, member("a", nominated="n1")], "incomplete_gangs_have_no_nominations"
    ),
    "a pod is nominated, and there is more room": Case([N1, *NOMINATED, one("b", "n1"), LONG, N1]),
    "nominated room is taken": Case(
        [N1, *NOMINATED, one("b", "n1", 3), LONG, one("c", "n1", 1)], "nominated_room_is_not_taken"
    ),
    "nominated room of a victim is taken": Case(
        [
            N1,
            one("x", "n1", disrupted=True),
            *NOMINATED,
            one("b", "n1"),
            LONG,
            one("x", "n1", disrupted=True),
        ],
        "nominated_room_is_not_taken",
    ),
    "nominated room without an eviction does not count": Case(
        [N1, one("x", "n1", 3), *NOMINATED, one("b", "n1", 1), LONG, one("x", "n1", 3)]
    ),
    "nominated room of a gang does not count without room for the rest": Case(
        [N1, N2, one("x", "n2", 4), *GANG_ON_TWO_NODES, one("b", "n1", 4), LONG, one("x", "n2", 4)]
    ),
    "nominated room of a gang is taken while there is room for the rest": Case(
        [N1, N2, one("x", "n2", 3), *GANG_ON_TWO_NODES, one("b", "n1", 4), LONG, one("x", "n2", 3)],
        "nominated_room_is_not_taken",
    ),
    "nominated room of a gang does not count once a pod of it has failed": Case(
        [N1, N2, *GANG_ON_TWO_NODES, member("g2", phase="Failed"), one("b", "n1", 4), LONG, one("x", "n2", 3)]
    ),
    "the nominated node is cordoned": Case(
        [N1, N2, *GANG_ON_TWO_NODES, 1.0, CORDONED, one("b", "n1", 4), LONG, one("x", "n2", 3)]
    ),
    "the nominated node sends a heartbeat": Case(
        [N1, N2, *GANG_ON_TWO_NODES, 1.0, N2, one("b", "n1", 4), LONG, one("x", "n2", 3)],
        "nominated_room_is_not_taken",
    ),
    "a pod that loses its nominated room gets another node": Case(
        [N1, N2, *NOMINATED, one("b", "n1", 3), one("a", "n2"), LONG, one("c", "n1", 1)]
    ),
    "a disrupted pod is deleted": Case(
        [
            N1,
            one("a", "n1", disrupted=True),
            one("a", "n1", disrupted=True, terminating=True),
            deleted(one("a", "n1", terminating=True)),
        ]
    ),
    "a pod is deleted without an explanation": Case(
        [N1, one("a", "n1"), one("a", "n1", terminating=True)], "deletions_are_explained"
    ),
    "a pod is deleted at once without an explanation": Case(
        [N1, one("a", "n1"), deleted(one("a", "n1"))], "deletions_are_explained"
    ),
    "a finished Job deletes its pods": Case(
        [N1, job(), rank("a", 0), job(0, "Failed"), rank("a", 0, terminating=True)]
    ),
    "a Job deletes a pod that it needs": Case(
        [N1, job(), rank("a", 0), rank("a", 0, terminating=True)], "deletions_are_explained"
    ),
    "two indexes run": Case([N1, job(), rank("a", 0), rank("b", 1)], running={"n1": ["uid-a", "uid-b"]}),
    "an index runs twice": Case(
        [N1, job(), rank("a", 0, "Pending"), rank("b", 0)],
        "no_task_runs_twice_at_once",
        {"n1": ["uid-a"], "n2": ["uid-b"]},
    ),
    "an index runs again while a lost node still runs it": Case(
        [N1, job(), rank("a", 0, disrupted=True), deleted(rank("a", 0, disrupted=True)), rank("b", 0)],
        running={"n1": ["uid-a"], "n2": ["uid-b"]},
    ),
    "a Job runs more pods than its parallelism": Case(
        [N1, job(parallelism=1), rank("a", 0, "Pending"), rank("b", 1)],
        "no_task_runs_twice_at_once",
        {"n1": ["uid-a", "uid-b"]},
    ),
    "a finished index runs again": Case(
        [N1, job(), rank("a", 0), rank("a", 0, "Succeeded"), rank("b", 0)],
        "finished_indexes_are_not_run_again",
    ),
    "a Job counts its successes": Case(
        [N1, job(), rank("a", 0, "Succeeded"), job(1), rank("b", 1, "Succeeded"), job(2)]
    ),
    "a Job counts a success too many": Case(
        [N1, job(), rank("a", 0, "Succeeded"), job(2)], "job_counters_are_right"
    ),
    "a success counter decreases": Case(
        [N1, job(), rank("a", 0, "Succeeded"), job(1), job(0)], "job_counters_are_right"
    ),
    "a final condition is removed": Case([job(0, "Failed"), job(0)], "job_counters_are_right"),
    "pods are recreated a few times": Case([job(), *(rank(f"p{n}", n % 3, "Failed") for n in range(20))]),
    "pods are recreated in a loop": Case(
        [job(), *(rank(f"p{n}", n % 3, "Failed") for n in range(21))], "pods_are_not_recreated_in_a_loop"
    ),
    "a budget is consistent": Case([guard(allowed=1)]),
    "a budget allows too many disruptions": Case([guard(allowed=2)], "budgets_are_consistent"),
    "a new pod has no reason yet": Case([one("a"), 10.0, N1]),
    "a pending pod has a reason": Case([one("a", status={"conditions": [FULL]}), LONG, N1]),
    "a pending pod has no reason": Case([one("a"), LONG, N1], "pending_pods_have_a_reason"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_invariants(case: Case) -> None:
    assert run(lambda _: check(case)).partition(":")[0] == case.violation


async def check(case: Case) -> str:
    """Return the violation of a case; `running` applies from its last step on."""
    loop, last = asyncio.get_running_loop(), case.steps[-1]
    running: dict[str, Sequence[str]] = {}
    state = ObservedState(loop.time, lambda: running)
    faults = FaultInjector(Schedule(), WallClock(loop.time, START))
    checker = InvariantChecker(state, faults)
    before: dict[Key, Record] = {}
    for thing in case.steps:
        if isinstance(thing, float):
            await asyncio.sleep(thing)
        elif isinstance(thing, str):
            faults.log.append(thing)
        else:
            running.update(case.running if thing is last else {})
            record = _record(thing)
            checker([Change(record, before.get(record.key))])
            before[record.key] = record
    return checker.violation


def _record(thing: Object) -> Record:
    metadata = thing["metadata"]
    key = Key(RESOURCES[thing["kind"]], metadata.get("namespace", ""), metadata["name"])
    return Record(1, START, key, msgspec.json.encode(thing), deleted=thing.get("deleted", False))


ENDS = {
    "a pod is not finished": (one("a", "n1", phase="Running"), "all_pods_and_jobs_finish"),
    "a Job is not finished": (job(3), "all_pods_and_jobs_finish"),
    "a Job is complete with too few successes": (job(2, "Complete"), "complete_jobs_have_their_completions"),
    "a pod that fits on no node is nominated": (
        one("huge", status={"nominatedNodeName": "n1"}),
        "no_nominations_are_left",
    ),
    "a pod is finished": (one("a", "n1", phase="Succeeded"), ""),
    "a Job is complete": (job(3, "Complete"), ""),
    "a pod that fits on no node is pending": (one("huge"), ""),
}


@pytest.mark.parametrize("left, violation", ENDS.values(), ids=ENDS.keys())
def test_final_invariants(left: Object, violation: str) -> None:
    async def main(_: object) -> str:
        loop = asyncio.get_running_loop()
        checker = InvariantChecker(
            ObservedState(loop.time, dict), FaultInjector(Schedule(), WallClock(loop.time, START))
        )
        list(checker.state.apply([Change(_record(left), None)]))
        await checker.expect_finished_within(LONG)
        assert bool(violation) == (loop.time() >= LONG)
        return checker.violation

    assert run(main).partition(":")[0] == violation
