"""Decisions: what a Plan asks of objects, workload by workload. Pure: a Plan goes in, data comes out.

It is for live objects what `world.rehearsal` is for records. A task that has a pod is bound. One that has
none yet is written down in its job: in its allocation, where the kind has one, else among its nominations,
so that the room is kept until somebody has made the pod. What is already as it should be asks for no write.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from shoal.cache.changes import Key
from shoal.cache.snapshots import Assembly
from shoal.cache.world import World
from shoal.cluster.patches.json_patch import make_merge_patch
from shoal.cluster.resources import Object
from shoal.engine.plan import Eviction, Plan
from shoal.engine.workload import Task, Workload
from shoal.kinds.base import Outcome, PlannedJob, job_kinds
from shoal.kinds.pods import EvictionRecord, PodRecord


class Bind(msgspec.Struct, frozen=True):
    """A pod gets a node."""

    key: Key
    uid: str
    node: str


class PatchPod(msgspec.Struct, frozen=True):
    """A pod is given other fields: `nominated`, or `broken_since`, by the names of its record."""

    key: Key
    uid: str
    changes: dict[str, Any]


class PatchJobStatus(msgspec.Struct, frozen=True):
    """A job is given another status: by the names of its view, and as a merge patch."""

    kind: str
    key: Key
    uid: str
    changes: dict[str, Any]
    patch: Object


class Evict(msgspec.Struct, frozen=True):
    """A pod is sent away, and told why."""

    key: Key
    uid: str
    doom: EvictionRecord


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan asks of the objects of one workload; `pool` is its home."""

    workload: str
    pool: str
    restate: PatchJobStatus | None = None
    marks: tuple[PatchPod, ...] = ()
    binds: tuple[Bind, ...] = ()
    evictions: tuple[Evict, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restate or self.marks or self.binds or self.evictions)


def decide(world: World, made: Assembly, plan: Plan) -> list[Decision]:
    """What a plan asks of objects, in its own order."""
    outcomes = _outcomes(made, plan)
    quiet = (w for w in plan.verdicts if w not in outcomes and _may_change(w, plan))
    nothing = Outcome()
    found = [
        _decision(world, made, plan, workload, outcomes.get(workload, nothing))
        for workload in (*outcomes, *quiet)
    ]
    hopeless = {w.key for w, outcome in outcomes.items() if not _is_writable(made, w, outcome)}
    return [decision for one in found if (decision := _without(one, hopeless))]


def _outcomes(made: Assembly, plan: Plan) -> dict[Workload, Outcome]:
    """What a plan does for each workload that it does something for."""
    names = made.snapshot.nodes.names
    found: defaultdict[Workload, Outcome] = defaultdict(Outcome)
    for placement in plan.placements:
        found[placement.workload].placed[placement.task] = names[placement.column]
    for kept in plan.nominations:
        found[kept.workload].nominated[kept.task] = names[kept.column]
    for eviction in plan.evictions:
        found[eviction.workload].evictions.append(eviction)
    for resize in plan.resizes:
        found[resize.workload].resize = resize
    return dict(found)


def _may_change(workload: Workload, plan: Plan) -> bool:
    """Whether objects of a workload that got nothing may have to be written: most need not be looked at."""
    if workload.kind not in ("Pod", "Gang"):
        return True
    broken = plan.verdicts[workload].broken
    return bool(workload.nominated) or broken is not None or workload.broken_since is not None


def _decision(world: World, made: Assembly, plan: Plan, workload: Workload, outcome: Outcome) -> Decision:
    tasks = dict.fromkeys((*workload.tasks, *outcome.placed))
    pods = {task: made.pod(workload, task) for task in tasks}
    outcome.unmade = {task for task in outcome.placed if not pods[task].uid}
    loose = workload.kind not in world.jobs
    return Decision(
        workload=workload.key,
        pool=made.snapshot.pools[workload.pool].name,
        restate=None if loose else _restated(world, made, plan, workload, outcome),
        marks=tuple(_marks(plan, workload, outcome, pods)) if loose else (),
        binds=tuple(
            Bind(pods[task].key, pods[task].uid, node)
            for task, node in outcome.placed.items()
            if task not in outcome.unmade and not _is_too_early(workload, outcome)
        ),
        evictions=tuple(
            Evict(pods[one.task].key, pods[one.task].uid, _doom(workload, outcome, one))
            for one in outcome.evictions
        ),
    )


def _is_too_early(workload: Workload, outcome: Outcome) -> bool:
    """Whether a gang must wait until more of its pods are there: it starts whole."""
    there = workload.done + len(workload.placed) + len(outcome.placed) - len(outcome.unmade)
    return workload.kind == "Gang" and bool(outcome.unmade) and there < workload.minimum


def _doom(workload: Workload, outcome: Outcome, eviction: Eviction) -> EvictionRecord:
    whole = 1 < len(outcome.evictions) == len(workload.placed)
    whom = eviction.beneficiary.key if eviction.beneficiary else ""
    return EvictionRecord(eviction.reason, workload.key if whole else "", whom)


def _marks(
    plan: Plan, workload: Workload, outcome: Outcome, pods: dict[Task, PodRecord]
) -> Iterator[PatchPod]:
    """Where loose pods are nominated, and since when their gang is broken.

    Room for several is written down before the first of them is bound.
    """
    wanted = outcome.nominated | (outcome.placed if len(outcome.placed) > 1 else {})
    broken = None if outcome.evictions else plan.verdict(workload).broken
    since = None if broken is None else float(int(broken))
    for task in workload.tasks:
        pod = pods[task]
        changes = _change(pod, "broken_since", since)
        if not pod.node and (task in wanted or task not in outcome.placed):
            changes |= _change(pod, "nominated", wanted.get(task, ""))
        if changes and pod.uid:
            yield PatchPod(pod.key, pod.uid, changes)


def _change(pod: PodRecord, field: str, wanted: object) -> dict[str, Any]:
    return {} if getattr(pod, field) == wanted else {field: wanted}


def _restated(
    world: World, made: Assembly, plan: Plan, workload: Workload, outcome: Outcome
) -> PatchJobStatus | None:
    """The status that a job is to have; None if it has it."""
    job = world.jobs[workload.kind][workload.namespace, workload.name]
    planned = PlannedJob(job, workload, outcome, plan.verdict(workload), made.snapshot.now)
    after = job_kinds()[workload.kind].status_after(planned)
    return restate(workload.kind, job, after)


def restate(kind: str, job: Any, after: Any) -> PatchJobStatus | None:  # noqa: ANN401 - a job of any kind, and its status
    """The write that gives a job another status; None if it has it."""
    before, meta = job.status, job.metadata
    changes = {
        name: value
        for name in after.__struct_fields__
        if (value := getattr(after, name)) != getattr(before, name)
    }
    if not changes:
        return None
    patch = make_merge_patch(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return PatchJobStatus(kind, (meta.namespace, meta.name), meta.uid, changes, patch)


def _is_writable(made: Assembly, workload: Workload, outcome: Outcome) -> bool:
    """Whether the room that a workload is to get can be written down: a loose pod must exist for that."""
    if workload.kind not in ("Pod", "Gang"):
        return True
    return all(made.pod(workload, task).uid for task in outcome.nominated)


def _without(decision: Decision, hopeless: Iterable[str]) -> Decision:
    """A decision that sends nobody away for workloads whose room could not be written down."""
    evictions = tuple(one for one in decision.evictions if one.doom.beneficiary not in hopeless)
    if len(evictions) == len(decision.evictions):
        return decision
    return msgspec.structs.replace(decision, restate=None, evictions=evictions)
