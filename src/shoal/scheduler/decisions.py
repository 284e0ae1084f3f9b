"""Decisions: the writes that a Plan requires, workload by workload. Pure: a Plan goes in, data comes out.

A task that has a pod is bound. A task without a pod is recorded in its job: in its allocations, where the
kind has such, else in its nominations, so that the room is reserved until the pod is created. An object that
is as it should be needs no write.

Some writes are due whatever is planned: an allocated pod is bound as soon as it is created, surplus pods are
deleted, and the status of a job follows its pods and nodes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from shoal.cache.changes import Key
from shoal.cache.snapshots import BuiltSnapshot
from shoal.cache.workload_entry import WorkloadEntry, needs_planning
from shoal.cache.world import World
from shoal.cluster.patches.json_patch import make_merge_patch
from shoal.cluster.resources import Object
from shoal.engine.plan import Eviction, Plan
from shoal.engine.workload import Task, Workload
from shoal.kinds.base import Outcome, PlannedJob, job_kinds
from shoal.kinds.pods import EvictionRecord, PodRecord


class Bind(msgspec.Struct, frozen=True):
    """Bind a pod to a node."""

    key: Key
    uid: str
    node: str


class PatchPod(msgspec.Struct, frozen=True):
    """Change fields of a pod, by the names of its record: `nominated`, `broken_since`."""

    key: Key
    uid: str
    changes: dict[str, Any]


class PatchJobStatus(msgspec.Struct, frozen=True):
    """Change the status of a job: by the names of its view, and as a merge patch."""

    kind: str
    key: Key
    uid: str
    changes: dict[str, Any]
    patch: Object


class Evict(msgspec.Struct, frozen=True):
    """Evict a pod."""

    key: Key
    uid: str
    record: EvictionRecord


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """All writes for the objects of one workload; `pool` is its home pool."""

    workload: str
    pool: str
    job_status: PatchJobStatus | None = None
    pod_patches: tuple[PatchPod, ...] = ()
    binds: tuple[Bind, ...] = ()
    evictions: tuple[Evict, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.job_status or self.pod_patches or self.binds or self.evictions)


def decide(world: World, built: BuiltSnapshot, plan: Plan) -> list[Decision]:
    """The decisions of a plan, in the order of the plan."""
    outcomes = _outcomes(built, plan)
    quiet = (w for w in plan.verdicts if w not in outcomes and _may_change(w, plan))
    due = (entry.workload for entry in built.due if _is_decided(entry.workload, plan))
    found = [
        _decision(world, built, plan, workload, outcomes.get(workload) or Outcome())
        for workload in dict.fromkeys((*outcomes, *quiet, *due))
    ]
    unreservable = {w.key for w, outcome in outcomes.items() if not _is_writable(built, w, outcome)}
    return [decision for one in found if (decision := _without(one, unreservable))]


def _is_decided(workload: Workload, plan: Plan) -> bool:
    """Whether the plan decided about a workload, or had nothing to decide; one in back-off is left out."""
    return workload in plan.verdicts or not needs_planning(workload)


def _outcomes(built: BuiltSnapshot, plan: Plan) -> dict[Workload, Outcome]:
    """What a plan does for each workload that it changes."""
    names = built.snapshot.nodes.names
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
    """Whether objects of a workload that got nothing may need a write; most do not."""
    if workload.kind not in ("Pod", "Gang"):
        return True
    broken = plan.verdicts[workload].broken
    return bool(workload.nominated) or broken is not None or workload.broken_since is not None


def _decision(
    world: World, built: BuiltSnapshot, plan: Plan, workload: Workload, outcome: Outcome
) -> Decision:
    entry, tasks = built.entry(workload), dict.fromkeys((*workload.tasks, *outcome.placed))
    pods = {task: entry.pod(task) for task in tasks}
    outcome.unmade = {task for task in outcome.placed if not pods[task].uid}
    loose = workload.kind not in world.jobs
    return Decision(
        workload=workload.key,
        pool=built.snapshot.pools[workload.pool].name,
        job_status=None if loose else _job_status(world, built, plan, entry, outcome),
        pod_patches=tuple(_pod_patches(plan, workload, outcome, pods)) if loose else (),
        binds=tuple(_binds(entry, outcome, pods)),
        evictions=tuple(_evictions(entry, outcome, pods)),
    )


def _binds(entry: WorkloadEntry, outcome: Outcome, pods: dict[Task, PodRecord]) -> Iterator[Bind]:
    """Bind the pods of placed tasks, and pods that were created for their allocations."""
    if not _must_wait(entry.workload, outcome):
        for task, node in outcome.placed.items():
            if task not in outcome.unmade:
                yield Bind(pods[task].key, pods[task].uid, node)
    evicted = {pods[one.task].uid for one in outcome.evictions}
    for pod, node in entry.unbound:
        if pod.uid not in evicted:
            yield Bind(pod.key, pod.uid, node)


def _evictions(entry: WorkloadEntry, outcome: Outcome, pods: dict[Task, PodRecord]) -> Iterator[Evict]:
    """Evict the pods that lose their nodes, and surplus ones."""
    for one in outcome.evictions:
        pod = pods[one.task]
        yield Evict(pod.key, pod.uid, _eviction_record(entry.workload, outcome, one))
    for pod in entry.surplus:
        yield Evict(pod.key, pod.uid, EvictionRecord("Shrunk"))


def _must_wait(workload: Workload, outcome: Outcome) -> bool:
    """Whether a gang must wait until more of its pods exist: it starts as a whole."""
    there = workload.done + len(workload.placed) + len(outcome.placed) - len(outcome.unmade)
    return workload.kind == "Gang" and bool(outcome.unmade) and there < workload.minimum


def _eviction_record(workload: Workload, outcome: Outcome, eviction: Eviction) -> EvictionRecord:
    whole = 1 < len(outcome.evictions) == len(workload.placed)
    beneficiary = eviction.beneficiary.key if eviction.beneficiary else ""
    return EvictionRecord(eviction.reason, workload.key if whole else "", beneficiary)


def _pod_patches(
    plan: Plan, workload: Workload, outcome: Outcome, pods: dict[Task, PodRecord]
) -> Iterator[PatchPod]:
    """Nominations of loose pods, and since when their gang is broken.

    Room for several pods is reserved before the first of them is bound.
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


def _job_status(
    world: World, built: BuiltSnapshot, plan: Plan, entry: WorkloadEntry, outcome: Outcome
) -> PatchJobStatus | None:
    """The write of a job's status after a plan; None if nothing changes."""
    workload, names = entry.workload, built.snapshot.nodes.names
    job = world.jobs[workload.kind][workload.namespace, workload.name]
    evicted = {eviction.task for eviction in outcome.evictions}
    kept = {task: names[task.column] for task in workload.placed if task not in evicted}
    planned = PlannedJob(
        job=job,
        workload=workload,
        outcome=outcome,
        verdict=plan.verdict(workload),
        nodes=kept | outcome.placed,
        completed=entry.completed,
        now=built.snapshot.now,
    )
    after = job_kinds()[workload.kind].status_after(planned)
    return status_change(workload.kind, job, after)


def status_change(kind: str, job: Any, after: Any) -> PatchJobStatus | None:  # noqa: ANN401 - a job of any kind, and its status
    """The write that changes the status of a job; None if nothing changes."""
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


def _is_writable(built: BuiltSnapshot, workload: Workload, outcome: Outcome) -> bool:
    """Whether room for a workload can be reserved in objects: a loose pod must exist for that."""
    if workload.kind not in ("Pod", "Gang"):
        return True
    return all(built.pod(workload, task).uid for task in outcome.nominated)


def _without(decision: Decision, unreservable: Iterable[str]) -> Decision:
    """A decision without evictions in favour of workloads whose room cannot be reserved."""
    evictions = tuple(one for one in decision.evictions if one.record.beneficiary not in unreservable)
    if len(evictions) == len(decision.evictions):
        return decision
    return msgspec.structs.replace(decision, job_status=None, evictions=evictions)
