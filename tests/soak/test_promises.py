"""A witness sees every promise that is broken, and none where nothing is: as stories of objects."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from shoal.apiserver.registry.records import Change, Key, Record
from shoal.simulator import START, Faults, Schedule, WallClock, run
from tests.builders import INDEX, Object, budget, node, pod
from tests.soak.sight import Sight
from tests.soak.witness import Witness

RESOURCES = {
    "Pod": "pods",
    "Node": "nodes",
    "Job": "jobs.batch",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
}
GONE: Object = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TOLD: Object = {"type": "DisruptionTarget", "status": "True"}
FULL: Object = {"type": "PodScheduled", "status": "False", "message": "full"}
SILENT = 3600.0
"""Seconds that are longer than anybody may take."""

Told = Object | float | str
"""An object becomes this; one that is `gone` is no more. Or so many seconds pass. Or a fault comes."""


def seen(thing: Object, **more: Object) -> Object:
    """An object with its uid, and with more in its metadata, spec or status."""
    merged = {part: {**thing.get(part, {}), **more.get(part, {})} for part in ("metadata", "spec", "status")}
    merged["metadata"]["uid"] = f"uid-{merged['metadata']['name']}"
    return {**thing, **merged}


def one(
    name: str,
    on: str = "",
    cpu: int = 2,
    phase: str = "Pending",
    *,
    told: bool = False,
    leaves: bool = False,
    status: Object | None = None,
) -> Object:
    """A loose pod, which may have been told why it must go, and may be on its way out."""
    more = {"conditions": [TOLD]} if told else {}
    made = pod(name, cpu=cpu, node=on or None)
    return seen(made, metadata=GONE if leaves else {}, status={"phase": phase, **more, **(status or {})})


def rank(
    name: str, index: int, phase: str = "Running", *, told: bool = False, leaves: bool = False
) -> Object:
    """A pod of the Job, and its index."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
    metadata = {"annotations": {INDEX: str(index)}, "ownerReferences": [owner]}
    return seen(one(name, "n1", 1, phase, told=told, leaves=leaves), metadata=metadata)


def member(name: str, on: str = "", phase: str = "Pending", kept: str = "") -> Object:
    """A pod of a gang of which two start together."""
    notes = {"shoal.io/gang": "g", "shoal.io/gang-min": "2"}
    status = {"nominatedNodeName": kept} if kept else {}
    return seen(one(name, on, 1, phase, status=status), metadata={"annotations": notes})


def job(succeeded: int = 0, *ends: str, parallelism: int = 2) -> Object:
    conditions = [{"type": end, "status": "True"} for end in ends]
    status = {"succeeded": succeeded, "conditions": conditions}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"}}
    return seen(made, spec={"completions": 3, "parallelism": parallelism}, status=status)


def guard(allowed: int) -> Object:
    """A budget for three pods, of which two must serve."""
    status = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2}
    return seen(budget("guard", guards={}), status=status)


def gone(thing: Object) -> Object:
    return {**thing, "gone": True}


N1, N2 = seen(node("n1", cpu=4, pods=3)), seen(node("n2", cpu=4, pods=3))
CORDONED = seen(N2, spec={"unschedulable": True})

PAIR = (member("a"), member("b", kept="n1"), member("a", "n1"), member("b", "n1"))
"""A gang that is bound as it should be."""
WAITING = (member("a"), member("b"), member("a", kept="n1"), member("b", kept="n1"))
"""A gang that is about to be bound."""
KEPT = (
    one("a", status={"conditions": [FULL]}),
    one("a", status={"conditions": [FULL], "nominatedNodeName": "n1"}),
)
APART = tuple(
    seen(member(name, kept=kept), status={"conditions": [FULL]})
    for name, kept in (("g1", ""), ("g2", ""), ("g1", "n1"), ("g2", "n2"))
)
"""A gang for which room is kept on two nodes."""


@dataclass(frozen=True)
class Story:
    """What happens, what runs on nodes in the end, and the promise that is broken by it, if any."""

    told: Sequence[Told]
    broken: str = ""
    running: Mapping[str, Sequence[str]] = field(default_factory=dict)


STORIES = {
    "a node can be full": Story([N1, one("a", "n1"), one("b", "n1")]),
    "a node has no more": Story(
        [N1, one("a", "n1"), one("b", "n1"), one("c", "n1", 1)], "no_node_is_given_more_than_it_has"
    ),
    "pods that end give their room back": Story(
        [N1, one("a", "n1", 4), one("a", "n1", 4, "Succeeded"), one("b", "n1", 4)]
    ),
    "pods that terminate hold their room": Story(
        [N1, one("a", "n1", 4, told=True), one("a", "n1", 4, told=True, leaves=True), one("b", "n1", 4)],
        "no_node_is_given_more_than_it_has",
    ),
    "a node has no place for so many pods": Story(
        [N1, *(one(name, "n1", 1) for name in "abcd")], "no_node_is_given_more_than_it_has"
    ),
    "a node runs what it is not known to have": Story(
        [N1, one("a", "n1", 4, told=True), gone(one("a", "n1", 4, told=True)), one("b", "n1", 4, "Running")],
        "no_node_runs_more_than_it_has",
        {"n1": ["uid-a", "uid-b"]},
    ),
    "a gang is bound one by one where room is kept for all": Story([N1, *PAIR]),
    "half a gang is bound": Story(
        [N1, member("a"), member("b"), member("a", "n1")], "a_gang_is_whole_or_absent"
    ),
    "half a gang is bound, and somebody has just lost its room": Story(
        [N1, *WAITING, member("b"), "a fault", member("a", "n1")], "a_gang_is_whole_or_absent"
    ),
    "one of a gang has failed, and another is bound all the same": Story(
        [N1, *WAITING, member("b", phase="Failed"), member("a", "n1")], "a_gang_is_whole_or_absent"
    ),
    "one of a gang has failed while the binding of another was held up": Story(
        [N1, *WAITING, "a fault", member("b", phase="Failed"), 60.0, member("a", "n1"), SILENT / 12, N2]
    ),
    "what is left of a gang after a binding that was held up stays for ever": Story(
        [N1, *WAITING, "a fault", member("b", phase="Failed"), 60.0, member("a", "n1"), SILENT, N2],
        "a_gang_is_whole_or_absent",
    ),
    "what is left of a gang has time to recover": Story(
        [N1, *PAIR, SILENT / 12, member("b", "n1", "Failed"), SILENT / 12, N2]
    ),
    "what is left of a gang stays for ever": Story(
        [N1, *PAIR, member("b", "n1", "Failed"), SILENT, N2],
        "a_gang_is_whole_or_absent",
    ),
    "a gang of which one has done its work is whole": Story(
        [N1, *PAIR, member("b", "n1", "Succeeded"), SILENT, N2]
    ),
    "room is kept for the only one of a gang": Story(
        [N1, member("a", kept="n1")], "nothing_is_kept_for_a_gang_that_cannot_start"
    ),
    "room is kept, and there is more": Story([N1, *KEPT, one("b", "n1"), SILENT, N1]),
    "room that was kept is taken by another": Story(
        [N1, *KEPT, one("b", "n1", 3), SILENT, one("c", "n1", 1)], "nobody_takes_room_that_is_kept"
    ),
    "room that another was told to make is taken": Story(
        [N1, one("x", "n1", told=True), *KEPT, one("b", "n1"), SILENT, one("x", "n1", told=True)],
        "nobody_takes_room_that_is_kept",
    ),
    "room that nobody was told to make is no room yet": Story(
        [N1, one("x", "n1", 3), *KEPT, one("b", "n1", 1), SILENT, one("x", "n1", 3)]
    ),
    "room of a gang is no room while there is none for the rest": Story(
        [N1, N2, one("x", "n2", 4), *APART, one("b", "n1", 4), SILENT, one("x", "n2", 4)]
    ),
    "room of a gang is taken while there is some for the rest": Story(
        [N1, N2, one("x", "n2", 3), *APART, one("b", "n1", 4), SILENT, one("x", "n2", 3)],
        "nobody_takes_room_that_is_kept",
    ),
    "room of a gang is no room once one of it has failed": Story(
        [N1, N2, *APART, member("g2", phase="Failed"), one("b", "n1", 4), SILENT, one("x", "n2", 3)]
    ),
    "room is kept on a node that is closed then": Story(
        [N1, N2, *APART, 1.0, CORDONED, one("b", "n1", 4), SILENT, one("x", "n2", 3)]
    ),
    "room is kept on a node that gives a sign of life then": Story(
        [N1, N2, *APART, 1.0, N2, one("b", "n1", 4), SILENT, one("x", "n2", 3)],
        "nobody_takes_room_that_is_kept",
    ),
    "who loses its room gets another": Story(
        [N1, N2, *KEPT, one("b", "n1", 3), one("a", "n2"), SILENT, one("c", "n1", 1)]
    ),
    "a pod that was told why is deleted": Story(
        [
            N1,
            one("a", "n1", told=True),
            one("a", "n1", told=True, leaves=True),
            gone(one("a", "n1", leaves=True)),
        ]
    ),
    "a pod is deleted and was never told why": Story(
        [N1, one("a", "n1"), one("a", "n1", leaves=True)], "nobody_disappears"
    ),
    "a pod is gone at once": Story([N1, one("a", "n1"), gone(one("a", "n1"))], "nobody_disappears"),
    "a Job that has ended deletes its pods": Story(
        [N1, job(), rank("a", 0), job(0, "Failed"), rank("a", 0, leaves=True)]
    ),
    "a Job deletes a pod that it needs": Story(
        [N1, job(), rank("a", 0), rank("a", 0, leaves=True)], "nobody_disappears"
    ),
    "two indices run": Story([N1, job(), rank("a", 0), rank("b", 1)], running={"n1": ["uid-a", "uid-b"]}),
    "an index runs twice": Story(
        [N1, job(), rank("a", 0, "Pending"), rank("b", 0)],
        "no_task_runs_twice_at_once",
        {"n1": ["uid-a"], "n2": ["uid-b"]},
    ),
    "an index runs again while a lost node still runs it": Story(
        [N1, job(), rank("a", 0, told=True), gone(rank("a", 0, told=True)), rank("b", 0)],
        running={"n1": ["uid-a"], "n2": ["uid-b"]},
    ),
    "a Job runs more pods than it wants at once": Story(
        [N1, job(parallelism=1), rank("a", 0, "Pending"), rank("b", 1)],
        "no_task_runs_twice_at_once",
        {"n1": ["uid-a", "uid-b"]},
    ),
    "a finished index runs again": Story(
        [N1, job(), rank("a", 0), rank("a", 0, "Succeeded"), rank("b", 0)],
        "what_is_finished_is_not_run_again",
    ),
    "a Job counts its successes": Story(
        [N1, job(), rank("a", 0, "Succeeded"), job(1), rank("b", 1, "Succeeded"), job(2)]
    ),
    "a Job counts a success that it did not have": Story(
        [N1, job(), rank("a", 0, "Succeeded"), job(2)], "jobs_count_what_happened"
    ),
    "a Job takes a success back": Story(
        [N1, job(), rank("a", 0, "Succeeded"), job(1), job(0)], "jobs_count_what_happened"
    ),
    "a Job takes its verdict back": Story([job(0, "Failed"), job(0)], "jobs_count_what_happened"),
    "pods are made once": Story([job(), *(rank(f"p{n}", n % 3, "Failed") for n in range(20))]),
    "pods are made over and over": Story(
        [job(), *(rank(f"p{n}", n % 3, "Failed") for n in range(21))], "nobody_is_made_over_and_over"
    ),
    "a budget allows what it can spare": Story([guard(allowed=1)]),
    "a budget allows more than it can spare": Story([guard(allowed=2)], "budgets_add_up"),
    "a pod has just come": Story([one("a"), 10.0, N1]),
    "a pod waits and says why": Story([one("a", status={"conditions": [FULL]}), SILENT, N1]),
    "a pod waits and does not say why": Story([one("a"), SILENT, N1], "who_waits_says_why"),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_what_a_witness_says(story: Story) -> None:
    assert run(lambda _: witnessed(story)).partition(":")[0] == story.broken


async def witnessed(story: Story) -> str:
    """What a witness says of a story; what runs, runs from the last thing that happens."""
    loop, last = asyncio.get_running_loop(), story.told[-1]
    running: dict[str, Sequence[str]] = {}
    sight = Sight(loop.time, lambda: running)
    faults = Faults(Schedule(), WallClock(loop.time, START))
    witness = Witness(sight, faults)
    before: dict[Key, Record] = {}
    for thing in story.told:
        if isinstance(thing, float):
            await asyncio.sleep(thing)
        elif isinstance(thing, str):
            faults.story.append(thing)
        else:
            running.update(story.running if thing is last else {})
            record = _record(thing)
            witness([Change(record, before.get(record.key))])
            before[record.key] = record
    return witness.broken


def _record(thing: Object) -> Record:
    metadata = thing["metadata"]
    key = Key(RESOURCES[thing["kind"]], metadata.get("namespace", ""), metadata["name"])
    return Record(1, START, key, msgspec.json.encode(thing), deleted=thing.get("gone", False))


ENDS = {
    "a pod runs for ever": (one("a", "n1", phase="Running"), "all_that_can_finish_has_finished"),
    "a Job has no verdict": (job(3), "all_that_can_finish_has_finished"),
    "a Job is complete with too little": (job(2, "Complete"), "jobs_have_what_they_say"),
    "room is kept for what fits nowhere": (
        one("huge", status={"nominatedNodeName": "n1"}),
        "nothing_is_kept_for_nobody",
    ),
    "a pod has ended": (one("a", "n1", phase="Succeeded"), ""),
    "a Job is complete": (job(3, "Complete"), ""),
    "what fits nowhere waits": (one("huge"), ""),
}


@pytest.mark.parametrize("left, broken", ENDS.values(), ids=ENDS.keys())
def test_what_a_witness_says_in_the_end(left: Object, broken: str) -> None:
    async def main(_: object) -> str:
        loop = asyncio.get_running_loop()
        witness = Witness(Sight(loop.time, dict), Faults(Schedule(), WallClock(loop.time, START)))
        list(witness.sight.take([Change(_record(left), None)]))
        await witness.must_rest_within(SILENT)
        assert bool(broken) == (loop.time() >= SILENT)
        return witness.broken

    assert run(main).partition(":")[0] == broken
