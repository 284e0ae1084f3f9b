"""What one cycle writes about the allocations of a job: its status, bindings and evictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from shoal.api import kinds
from shoal.api.decode import decode
from shoal.cache.dry_run import world_of
from shoal.cache.snapshots import build_snapshot
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.scheduler.decisions import Decision, decide
from tests import builders
from tests.builders import GPU, Object, node, owner, pod, pod_of, taint, template

CPU = template(cpu=1)
NOW = "2024-05-01T01:00:00Z"
DISRUPTED: Object = {"type": "DisruptionTarget", "status": "True"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A world, and what the cycle writes about one job."""

    objects: Sequence[Object]
    status: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the job's status after the cycle."""
    binds: Mapping[str, str] = field(default_factory=dict)
    evicted: Mapping[str, str] = field(default_factory=dict)
    """Pods with the reasons of their evictions."""
    config: Object = field(default_factory=lambda: {"maxLoad": 1})


# --- builders ----------------------------------------------------------------------------------------------


def tyjob(
    nodes: Object | None = None,
    *,
    counts: int = 2,
    least: int = 1,
    **more: Any,  # noqa: ANN401 - fields of spec and status
) -> Object:
    """The TYJob `a`: a leader, and workers of 1 CPU. `more`: `policy`, `suspend`, fields of its status."""
    policy, suspend = more.pop("policy", None), more.pop("suspend", False)
    workers, status = {"w": (counts, CPU)}, {"allocations": nodes or {}, **more}
    built = builders.tyjob("a", leader=CPU, workers=workers, min_workers=least, policy=policy, status=status)
    built["spec"]["suspend"] = suspend
    return built


def dijob(nodes: Sequence[str] = (), *, sizes: tuple[int, int] = (1, 1), **more: Any) -> Object:  # noqa: ANN401
    """The preemptible DIJob `d` with replicas of 1 CPU. `more`: `suspend`, and fields of its status."""
    suspend = more.pop("suspend", False)
    status = {"allocation": list(nodes), **more}
    return builders.dijob("d", CPU, replicas=sizes, preemptible=True, suspend=suspend, status=status)


def tasks_dijob(collectors: int = 1, **status: Any) -> Object:  # noqa: ANN401
    """The preemptible DIJob `d` in tasks form: a learner, and collectors of 1 CPU."""
    tasks = [builders.di_task("learner", CPU), builders.di_task("collector", CPU, replicas=collectors)]
    built = builders.dijob_tasks("d", tasks, status=status)
    built["spec"]["preemptible"] = True
    return built


def trainingjob(allocations: Object | None = None, *, sizes: tuple[int, int] = (1, 1), **more: Any) -> Object:  # noqa: ANN401
    """The TrainingJob `t`. `more`: `gpu`, `suspend`, `fault_tolerant`, and fields of its status."""
    gpu, spec = more.pop("gpu", 0), {key: more.pop(key, False) for key in ("suspend", "fault_tolerant")}
    limits, status = {GPU: str(gpu)} if gpu else None, {"allocations": allocations or {}, **more}
    trainer = builders.resources(1, gpu=gpu)
    built = builders.trainingjob("t", trainer=trainer, limits=limits, trainers=sizes, status=status)
    built["spec"] |= spec
    return built


KINDS = {"a": "TYJob", "d": "DIJob", "t": "TrainingJob"}


def of(name: str, on: str | None = None, *, terminating: bool = False, phase: str | None = None) -> Object:
    """A pod of the job whose name its own begins with; a pod of a DIJob in template form has its rank."""
    job, _, rest = name.partition("-")
    made = pod_of(name, CPU, node=on, of=owner(KINDS[job], job), terminating=terminating, phase=phase)
    if job == "d" and rest.replace("-", "").isdigit():
        made["metadata"]["labels"] = {"diengine/rank": name.rpartition("-")[2]}
    return made


def ended(name: str, finished: str, *, requested: str) -> Object:
    """A pod that ended with exit code 0 at a time, and was asked to stop at another."""
    made = of(name, "n1", phase="Succeeded")
    made["status"]["containerStatuses"] = [{"state": {"terminated": {"finishedAt": finished}}}]
    made["status"]["conditions"] = [DISRUPTED | {"lastTransitionTime": requested}]
    return made


# --- one cycle ---------------------------------------------------------------------------------------------


def world(objects: Sequence[Object]) -> World:
    """The world of these objects; each has its name as uid."""
    named = [one | {"metadata": {"uid": one["metadata"]["name"], **one["metadata"]}} for one in objects]
    views = [kinds.read(kinds.by_name()[one["apiVersion"], one["kind"]], one) for one in named]
    return world_of(views, now=1_714_525_200.0)


def decided(of_world: World, config: SchedulerConfig) -> list[Decision]:
    built = build_snapshot(of_world, config, of_world.now)
    return decide(of_world, built, cycle(built.snapshot, config))


def assume(of_world: World, decisions: Sequence[Decision]) -> None:
    """Let the decisions count, as the committer does."""
    for one in decisions:
        if one.job_status:
            of_world.assume_status(one.job_status.kind, one.job_status.key, **one.job_status.changes)
        for bind in one.binds:
            of_world.assume_bound(bind.key, bind.node)
        for eviction in one.evictions:
            of_world.assume_leaving(eviction.key)


def job_status(of_world: World) -> Object:
    (job,) = [job for jobs in of_world.jobs.values() for job in jobs.values()]
    status: Object = msgspec.json.decode(msgspec.json.encode(job.status))
    return status


def check(row: Row) -> None:
    """Compare the writes of a cycle. Once a later one has dropped nominations, nothing is left to write."""
    config, of_world = decode(SchedulerConfig, dict(row.config)), world(row.objects)
    decisions = decided(of_world, config)
    assume(of_world, decisions)
    status = job_status(of_world)
    assert {key: status[key] for key in row.status} == dict(row.status)
    assert {bind.key[1]: bind.node for one in decisions for bind in one.binds} == dict(row.binds)
    evicted = {e.key[1]: e.record.reason for one in decisions for e in one.evictions if e.uid}
    assert evicted == dict(row.evicted)
    assume(of_world, decided(of_world, config))
    assert not any(one.job_status or one.binds for one in decided(of_world, config))


LIVE = {
    "the entry of a live pod follows the pod's node": Row(
        objects=[
            *(node("n1"), node("n2"), tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1"})),
            *(of("a-leader", "n1"), of("a-w-0", "n2"), of("a-w-1", "n1")),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n2", "a-w-1": "n1"}},
    ),
    "an entry that was dropped is written back while the pod is live": Row(
        objects=[
            *(node("n1"), dijob(["n1"], sizes=(1, 2), replicas=1, wholeMinimum=1)),
            *(of("d-0-0", "n1"), of("d-0-1", "n1")),
        ],
        status={"allocation": ["n1", "n1"], "replicas": 2},
    ),
    "a rank that is beyond the requested size again is evicted again": Row(
        objects=[
            node("n1"),
            dijob(["n1"], sizes=(1, 2), replicas=1, requestedReplicas=1, wholeMinimum=1),
            *(of("d-0-0", "n1"), of("d-0-1", "n1")),
        ],
        status={"allocation": ["n1"], "replicas": 1},
        evicted={"d-0-1": "Shrunk"},
    ),
    "a live pod keeps its entry on a cordoned node": Row(
        objects=[
            *(node("n1", unschedulable=True), trainingjob({"t-trainer-0": "n1"}, wholeMinimum=1)),
            of("t-trainer-0", "n1"),
        ],
        status={"allocations": {"t-trainer-0": "n1"}},
    ),
}

SPARE = [node("n1", unschedulable=True), node("n2")]
VOID_NODES: dict[str, list[Object]] = {
    "does not exist": [node("n2")],
    "is not ready": [node("n1", ready="False"), node("n2")],
    "is silent": [node("n1", ready="Unknown"), node("n2")],
    "is cordoned": SPARE,
    "has a taint that the pod does not tolerate": [node("n1", taints=[taint("gpu", "only")]), node("n2")],
}
VOID = {
    f"an entry is void whose node {why}, and is planned again at once": Row(
        objects=[*nodes, tyjob({"a-leader": "n1", "a-w-0": "n2", "a-w-1": "n1"}), of("a-w-0", "n2")],
        status={"allocations": {"a-leader": "n2", "a-w-0": "n2", "a-w-1": "n2"}},
    )
    for why, nodes in VOID_NODES.items()
} | {
    "no pod is bound by a void entry": Row(
        objects=[node("n1", unschedulable=True), tyjob({"a-leader": "n1", "a-w-0": "n1"}), of("a-w-0")],
        status={"allocations": {}},
    ),
    "a waiting pod whose entry is void is bound elsewhere": Row(
        objects=[*SPARE, tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1"}), of("a-leader")],
        status={"allocations": {"a-leader": "n2", "a-w-0": "n2", "a-w-1": "n2"}},
        binds={"a-leader": "n2"},
    ),
    "the entries of a suspended job are void": Row(
        objects=[node("n1"), tyjob({"a-leader": "n1", "a-w-0": "n1"}, suspend=True)],
        status={"allocations": {}, "scheduleState": "Unscheduled"},
    ),
    "the entries of a suspended DIJob are void": Row(
        objects=[node("n1"), dijob(["n1", "n1"], sizes=(1, 2), suspend=True)],
        status={"allocation": [], "replicas": 0},
    ),
    "the entries of a suspended TrainingJob are void": Row(
        objects=[node("n1"), trainingjob({"t-trainer-0": "n1"}, suspend=True)],
        status={"allocations": {}},
    ),
    "a live pod of a suspended job keeps its entry until it is terminating": Row(
        objects=[
            *(node("n1"), tyjob({"a-leader": "n1", "a-w-0": "n1"}, suspend=True)),
            *(of("a-leader", "n1"), of("a-w-0", "n1", terminating=True)),
        ],
        status={"allocations": {"a-leader": "n1"}},
    ),
    "a void slot above the minimum is released, without scale record": Row(
        objects=[
            *(node("n1", unschedulable=True), node("n2", cpu=1)),
            dijob(["n2", "n1", "n1"], sizes=(1, 3), replicas=3, wholeMinimum=1),
            of("d-0-0", "n2"),
        ],
        status={"allocation": ["n2"], "replicas": 1, "scaleRecords": []},
    ),
    "a void slot above the minimum comes back as growth": Row(
        objects=[
            *(node("n1", unschedulable=True), node("n2", cpu=2)),
            dijob(["n2", "n1"], sizes=(1, 3), replicas=2, wholeMinimum=1),
            of("d-0-0", "n2"),
        ],
        status={"allocation": ["n2", "n2"], "replicas": 2},
    ),
    "a trainer above the minimum whose node is gone is released": Row(
        objects=[
            node("n1", cpu=1),
            trainingjob({"t-trainer-0": "n1", "t-trainer-1": "gone"}, sizes=(1, 2), wholeMinimum=1),
            of("t-trainer-0", "n1"),
        ],
        status={"allocations": {"t-trainer-0": "n1"}, "scaleRecords": []},
    ),
    "a trainer of the minimum whose node is gone gets another at once": Row(
        objects=[
            node("n1"),
            trainingjob({"t-trainer-0": "n1", "t-trainer-1": "gone"}, sizes=(2, 2), wholeMinimum=2),
            of("t-trainer-0", "n1"),
        ],
        status={"allocations": {"t-trainer-0": "n1", "t-trainer-1": "n1"}},
    ),
}

KEPT = {
    "a failed pod keeps its entry": Row(
        objects=[
            *(node("n1", cpu=2), node("n2"), tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1)),
            *(of("a-leader", "n1"), of("a-w-0", "n1", phase="Failed")),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "a terminating pod keeps its entry, and their room counts once": Row(
        objects=[
            *(node("n1", cpu=2), tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1, wholeMinimum=1)),
            *(of("a-leader", "n1"), of("a-w-0", "n1", terminating=True)),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "the room of a terminating pod with an entry is not given away": Row(
        objects=[
            *(node("n1", cpu=2), tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1, wholeMinimum=1)),
            *(of("a-leader", "n1"), of("a-w-0", "n1", terminating=True), pod("x", cpu=1)),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "a terminating rank keeps its entry whatever generation follows": Row(
        objects=[
            node("n1", cpu=1),
            dijob(["n1"], generation=4, replicas=1, wholeMinimum=1),
            of("d-3-0", "n1", terminating=True),
        ],
        status={"allocation": ["n1"], "replicas": 1},
    ),
    "a terminating pod is not bound": Row(
        objects=[
            *(node("n1"), tasks_dijob()),
            *(of("d-learner-0", "n1"), of("d-collector-0", "n1", terminating=True)),
        ],
        status={"nominations": {"d-collector-0": "n1"}},
    ),
    "a pod is bound by its entry as soon as it exists": Row(
        objects=[
            *(node("n1"), node("n2"), tyjob({"a-leader": "n2", "a-w-0": "n2"}, counts=1)),
            of("a-w-0"),
        ],
        status={"allocations": {"a-leader": "n2", "a-w-0": "n2"}},
        binds={"a-w-0": "n2"},
    ),
    "a trainer is bound by its entry": Row(
        objects=[node("n1"), node("n2"), trainingjob({"t-trainer-0": "n2"}), of("t-trainer-0")],
        status={"allocations": {"t-trainer-0": "n2"}},
        binds={"t-trainer-0": "n2"},
    ),
    "a rank is bound by its entry": Row(
        objects=[node("n1"), node("n2"), dijob(["n2"], generation=3), of("d-3-0")],
        status={"allocation": ["n2"]},
        binds={"d-3-0": "n2"},
    ),
}

DROPPED = {
    "names that are no longer wanted are dropped from a job that needs no planning": Row(
        objects=[
            node("n1"),
            tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1", "a-w-2": "n1"}, counts=1, wholeMinimum=1),
            *(of("a-leader", "n1"), of("a-w-0", "n1")),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "a name that is not wanted holds no room": Row(
        objects=[
            *(node("n1", cpu=3), pod("x", cpu=1)),
            tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1"}, counts=1, wholeMinimum=1),
            *(of("a-leader", "n1"), of("a-w-0", "n1")),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
        binds={"x": "n1"},
    ),
    "the state follows where counts were lowered to what is placed": Row(
        objects=[
            *(node("n1", cpu=2), of("a-leader", "n1"), of("a-w-0", "n1")),
            tyjob(
                {"a-leader": "n1", "a-w-0": "n1"},
                counts=1,
                wholeMinimum=1,
                scheduleState="ScheduledPartly",
            ),
        ],
        status={"scheduleState": "ScheduledSucceed"},
    ),
}

BEFORE, AFTER = "2024-05-01T00:30:00Z", "2024-05-01T00:31:00Z"
COMPLETED = {
    "a completed worker needs no node, and counts towards the minimum": Row(
        objects=[
            *(node("n1", cpu=2), of("a-leader", "n1"), of("a-w-1", "n1")),
            tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1"}, least=2, completed={"w": "0"}),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-1": "n1"}, "scheduleState": "ScheduledSucceed"},
    ),
    "a worker that is not started again is no slot": Row(
        objects=[
            *(node("n1"), of("a-leader", "n1"), of("a-w-1", "n1")),
            tyjob({"a-leader": "n1", "a-w-0": "n1", "a-w-1": "n1"}, failed={"w": "0"}, policy="Gang"),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-1": "n1"}, "wholeMinimum": 1},
    ),
    "a completed rank without pod takes no room": Row(
        objects=[
            *(node("n1"), of("d-0-1", "n1")),
            dijob(
                ["n1", "n1"],
                sizes=(2, 2),
                workers=[{"rank": 0, "pod": "d-0-0", "phase": "Succeeded"}],
            ),
        ],
        status={"allocation": ["", "n1"], "replicas": 2, "wholeMinimum": 2},
    ),
    "a completed pod of a task takes no room": Row(
        objects=[
            *(node("n1"), of("d-learner-0", "n1")),
            tasks_dijob(workers=[{"rank": 1, "pod": "d-collector-0", "phase": "Succeeded"}]),
        ],
        status={"nominations": {}, "wholeMinimum": 2},
    ),
    "a completed trainer counts towards the minimum and the size": Row(
        objects=[
            *(node("n1"), of("t-trainer-1", "n1")),
            trainingjob({"t-trainer-1": "n1"}, sizes=(2, 2), completed={"trainer": "0"}),
        ],
        status={
            "allocations": {"t-trainer-1": "n1"},
            "replicas": {"trainer": {"desired": 2, "ready": 0, "succeeded": 0, "failed": 0}},
        },
    ),
    "a trainer that is not started again is no slot": Row(
        objects=[
            *(node("n1"), of("t-trainer-2", "n1")),
            trainingjob(
                {"t-trainer-1": "n1", "t-trainer-2": "n1"},
                sizes=(3, 5),
                completed={"trainer": "0"},
                failed={"trainer": "1"},
            ),
        ],
        status={"allocations": {"t-trainer-2": "n1"}, "wholeMinimum": 2},
    ),
    "a fault-tolerant job keeps only the trainers that still run once one has succeeded": Row(
        objects=[
            *(node("n1"), of("t-trainer-1", "n1")),
            trainingjob(
                {"t-trainer-1": "n1", "t-trainer-2": "n1"},
                sizes=(3, 3),
                fault_tolerant=True,
                completed={"trainer": "0"},
            ),
        ],
        status={
            "allocations": {"t-trainer-1": "n1"},
            "wholeMinimum": 2,
            "replicas": {"trainer": {"desired": 2, "ready": 0, "succeeded": 0, "failed": 0}},
        },
    ),
    "a pod that succeeded before it was asked to stop is completed": Row(
        objects=[
            *(node("n1"), of("a-leader", "n1"), ended("a-w-0", BEFORE, requested=AFTER)),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1),
        ],
        status={"allocations": {"a-leader": "n1"}},
    ),
    "a pod that was asked to stop before it ended is not completed": Row(
        objects=[
            *(node("n1"), of("a-leader", "n1"), ended("a-w-0", AFTER, requested=BEFORE)),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "a pod that ended in the second in which it was asked to stop is not completed": Row(
        objects=[
            *(node("n1"), of("a-leader", "n1"), ended("a-w-0", AFTER, requested=AFTER)),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "a job of which an instance succeeded does not grow": Row(
        objects=[
            *(node("n1"), of("t-trainer-1", "n1"), of("t-trainer-0", "n1", phase="Succeeded")),
            trainingjob({"t-trainer-0": "n1", "t-trainer-1": "n1"}, sizes=(1, 6)),
        ],
        status={
            "allocations": {"t-trainer-1": "n1"},
            "replicas": {"trainer": {"desired": 2, "ready": 0, "succeeded": 0, "failed": 0}},
            "scaleRecords": [],
        },
    ),
    "growth that was nominated for it is given up": Row(
        objects=[
            *(node("n1"), of("d-0-0", "n1")),
            dijob(
                ["n1"],
                sizes=(1, 3),
                nominations={"d-0-2": "n1"},
                workers=[{"rank": 1, "pod": "d-0-1", "phase": "Succeeded"}],
            ),
        ],
        status={"allocation": ["n1"], "nominations": {}, "replicas": 2},
    ),
}

TASKS = {
    "a preemptible job in tasks form has no allocation": Row(
        objects=[node("n1"), tasks_dijob(2), *(of(f"d-{task}") for task in ("learner-0", "collector-0"))],
        status={
            "allocation": [],
            "nominations": {f"d-{t}": "n1" for t in ("learner-0", "collector-0", "collector-1")},
        },
        binds={"d-learner-0": "n1", "d-collector-0": "n1"},
    ),
    "it borrows": Row(
        objects=[
            *(node("n1"), builders.open_pool("b", selector={"pool": "b"})),
            *(pod("x", cpu=10, node="n1"), node("n2", labels={"pool": "b"}), of("d-learner-0")),
            of("d-collector-0"),
            tasks_dijob(),
        ],
        binds={"d-learner-0": "n2", "d-collector-0": "n2"},
    ),
    "a nomination belongs to the rank, whatever generation is in the name": Row(
        objects=[
            *(node("n1", cpu=1), node("n2", cpu=2)),
            *(pod("x", cpu=1, node="n1", terminating=True), pod("y", cpu=2, node="n2")),
            dijob([], generation=3, nominations={"d-2-0": "n1"}),
        ],
        status={"nominations": {"d-3-0": "n1"}, "allocation": []},
    ),
    "a nomination that is fulfilled is dropped": Row(
        objects=[node("n1"), dijob(["n1"], nominations={"d-0-0": "n1"}, wholeMinimum=1), of("d-1-0", "n1")],
        status={"nominations": {}, "allocation": ["n1"]},
    ),
    "a failed pod under a nominated name does not fulfil the nomination": Row(
        objects=[
            *(node("n1", cpu=2), pod("x", cpu=1, node="n1", terminating=True)),
            *(of("d-learner-0", "n1"), of("d-collector-0", "n1", phase="Failed")),
            tasks_dijob(nominations={"d-collector-0": "n1"}),
        ],
        status={"nominations": {"d-collector-0": "n1"}},
    ),
    "scheduleState is written when it is Unscheduled for the first time": Row(
        objects=[node("n1", cpu=1), tyjob()],
        status={"scheduleState": "ScheduledFailed", "allocations": {}},
    ),
    "scheduleState is Unscheduled while there is no room": Row(
        objects=[node("n1"), pod("x", cpu=10, node="n1"), tyjob()],
        status={"scheduleState": "Unscheduled", "allocations": {}},
    ),
}

SURPLUS = {
    "a second pod of a rank is deleted": Row(
        objects=[
            *(node("n1"), dijob(["n1"], generation=1, wholeMinimum=1)),
            *(of("d-0-0", "n1"), of("d-1-0", "n1")),
        ],
        evicted={"d-0-0": "Shrunk"},
    ),
    "a pod of no role is deleted": Row(
        objects=[
            *(node("n1"), trainingjob({"t-trainer-0": "n1"}, wholeMinimum=1)),
            *(of("t-trainer-0", "n1"), of("t-other-0", "n1")),
        ],
        evicted={"t-other-0": "Shrunk"},
    ),
    "its controller deletes the surplus pods of a TYJob": Row(
        objects=[
            *(node("n1"), tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1, wholeMinimum=1)),
            *(of("a-leader", "n1"), of("a-w-0", "n1"), of("a-w-1", "n1")),
        ],
        status={"allocations": {"a-leader": "n1", "a-w-0": "n1"}},
    ),
    "its controller deletes the pods of a suspended job": Row(
        objects=[node("n1"), dijob(["n1"], suspend=True), of("d-0-0", "n1"), of("d-0-5", "n1")],
        status={"allocation": ["n1", "", "", "", "", "n1"]},
    ),
}

WHOLE = {
    "the minimum is recorded with the placement that meets it": Row(
        objects=[node("n1"), tyjob(counts=3, least=2)],
        status={"wholeMinimum": 2, "scheduleState": "ScheduledSucceed"},
    ),
    "a raised minimum does not break a gang that had the lower one": Row(
        objects=[
            *(node("n1", cpu=2), of("a-leader", "n1"), of("a-w-0", "n1")),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=3, policy="Gang", wholeMinimum=1),
        ],
        status={
            "wholeMinimum": 1,
            "brokenSince": None,
            "scheduleState": "ScheduledPartly",
            "allocations": {"a-leader": "n1", "a-w-0": "n1"},
        },
    ),
    "it has lost a part when it has less than the lower one": Row(
        objects=[
            *(node("n1", cpu=2), node("n2"), pod("x", cpu=10, node="n2")),
            *(of("a-leader", "n1"), of("a-w-0", "n1")),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=3, policy="Gang", wholeMinimum=2),
        ],
        status={"wholeMinimum": 2, "brokenSince": NOW, "scheduleState": "Unscheduled"},
    ),
    "a gang that lost a part after its minimum was raised gets back what it had": Row(
        objects=[
            *(node("n1", cpu=1), node("n2", cpu=2), of("a-leader", "n1"), of("a-w-1", "n2")),
            tyjob({"a-leader": "n1", "a-w-1": "n2"}, counts=5, least=5, wholeMinimum=2),
        ],
        status={
            "wholeMinimum": 2,
            "brokenSince": None,
            "allocations": {"a-leader": "n1", "a-w-0": "n2", "a-w-1": "n2"},
        },
    ),
    "a void rank below the minimum is planned before a higher one": Row(
        objects=[node("n1"), dijob(["n1", "", "gone"], sizes=(2, 2), wholeMinimum=2), of("d-0-0", "n1")],
        status={"allocation": ["n1", "n1"]},
    ),
    "a lowered minimum is recorded": Row(
        objects=[
            *(node("n1", cpu=2), of("a-leader", "n1"), of("a-w-0", "n1")),
            tyjob({"a-leader": "n1", "a-w-0": "n1"}, counts=1, wholeMinimum=3),
        ],
        status={"wholeMinimum": 1, "brokenSince": None},
    ),
    "a job in tasks form that was made larger keeps what it has": Row(
        objects=[
            *(node("n1", cpu=2), of("d-learner-0", "n1"), of("d-collector-0", "n1"), of("d-collector-1")),
            tasks_dijob(3, wholeMinimum=2),
        ],
        status={"wholeMinimum": 2, "brokenSince": None},
    ),
}

DESIRED = {"desired": 1, "ready": 0, "succeeded": 0, "failed": 0}
TRAINING = {
    "the nodes of a TrainingJob are recorded with its size and its growth": Row(
        objects=[node("g1", gpu=3), trainingjob(sizes=(1, 3), gpu=1)],
        status={
            "allocations": {"t-trainer-0": "g1", "t-trainer-1": "g1", "t-trainer-2": "g1"},
            "nominations": {},
            "replicas": {"trainer": DESIRED | {"desired": 3}},
            "scaleRecords": [{"time": NOW, "from": 1, "to": 3, "reason": "Grown"}],
        },
    ),
    "a size holds until the pods exist": Row(
        objects=[
            node("g1", gpu=3),
            trainingjob(
                {"t-trainer-0": "g1", "t-trainer-1": "g1", "t-trainer-2": "g1"},
                sizes=(1, 3),
                gpu=1,
                replicas={"trainer": DESIRED | {"desired": 3}},
                scaleRecords=[{"time": NOW, "from": 1, "to": 3, "reason": "Grown"}],
            ),
        ],
        status={"replicas": {"trainer": DESIRED | {"desired": 3}}},
    ),
    "the pods of a job on CPUs are created before there is room": Row(
        objects=[node("n1"), pod("x", cpu=10, node="n1"), trainingjob(sizes=(2, 4))],
        status={"allocations": {}, "replicas": {"trainer": DESIRED | {"desired": 2}}},
    ),
    "the pods of a job on GPUs are not": Row(
        objects=[node("g1", gpu=1), pod("x", gpu=1, node="g1"), trainingjob(gpu=1)],
        status={"allocations": {}, "replicas": {"trainer": DESIRED | {"desired": 0}}},
    ),
    "a pod that waits is bound when there is room": Row(
        objects=[node("n1"), trainingjob(), of("t-trainer-0")],
        status={"allocations": {"t-trainer-0": "n1"}},
        binds={"t-trainer-0": "n1"},
    ),
    "an instance that is nominated is not desired yet": Row(
        objects=[
            *(node("g1", gpu=2), pod("x", gpu=1, node="g1", terminating=True)),
            trainingjob({"t-trainer-0": "g1"}, sizes=(1, 2), gpu=1, nominations={"t-trainer-1": "g1"}),
        ],
        status={
            "allocations": {"t-trainer-0": "g1"},
            "nominations": {"t-trainer-1": "g1"},
            "replicas": {"trainer": DESIRED},
        },
    ),
    "the requested size is the ceiling": Row(
        objects=[node("n1"), dijob([], sizes=(1, 5), requestedReplicas=2)],
        status={"allocation": ["n1", "n1"], "replicas": 2},
    ),
}

ROWS = LIVE | VOID | KEPT | DROPPED | COMPLETED | TASKS | SURPLUS | WHOLE | TRAINING


def test_schedule_state_is_written_for_the_first_time() -> None:
    waiting = world([node("n1"), pod("x", cpu=10, node="n1"), tyjob()])
    patches = [one.job_status.patch for one in decided(waiting, SchedulerConfig()) if one.job_status]
    assert patches == [{"scheduleState": "Unscheduled"}]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_writes_of_a_cycle(row: Row) -> None:
    check(row)
