"""What a plan makes of the status of a job: allocations, nominations, sizes. Pure.

Only fields that belong to the scheduler are changed here; the rest of a status is its controller's.
"""

from collections import Counter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shoal.api.dijob import DIJob
from shoal.api.meta import ScaleRecord
from shoal.api.trainingjob import RoleStatus, TrainingJob
from shoal.api.tyjob import TYJob
from shoal.cache.world import AnyJob
from shoal.cluster.times import moment
from shoal.engine.plan import Eviction, Resize, Verdict
from shoal.engine.workload import Task, Workload

_MOST_RECORDS: Final = 20


class Outcome(msgspec.Struct, eq=False):
    """What a plan does for one workload; nodes by their names. Of what is placed, `unmade` has no pod yet."""

    placed: dict[Task, str] = {}
    unmade: set[Task] = set()
    nominated: dict[Task, str] = {}
    evictions: list[Eviction] = []
    resize: Resize | None = None


def has_allocations(job: AnyJob) -> bool:
    """Whether a job's status says where its pods are to be; the pods of others find room one by one."""
    return isinstance(job, TYJob) or (isinstance(job, DIJob) and job.spec.preemptible)


def status_after(job: AnyJob, workload: Workload, outcome: Outcome, verdict: Verdict, now: float) -> Any:  # noqa: ANN401 - of its kind
    """The status of a job after a plan."""
    broken = None if outcome.evictions else verdict.broken
    common: dict[str, Any] = {
        "nominations": _nominations(job, outcome),
        "broken_since": None if broken is None else moment(broken),
    }
    if isinstance(job, TYJob):
        allocations = _allocations(job.status.allocations, workload, outcome)
        return replace(job.status, allocations=allocations, schedule_state=verdict.state, **common)
    records = _records(job.status.scale_records, outcome.resize, now)
    if isinstance(job, TrainingJob):
        sizes = _sizes(job, workload, outcome, verdict)
        return replace(job.status, replicas=sizes, scale_records=records, **common)
    if job.spec.preemptible:
        ranks = _ranks(job.status.allocation, workload, outcome)
        common |= {"allocation": ranks, "replicas": sum(map(bool, ranks))}
    return replace(job.status, scale_records=records, **common)


def _nominations(job: AnyJob, outcome: Outcome) -> dict[str, str]:
    """Nodes whose room is kept, by pods.

    Where a kind has no allocations, the room of what is placed is kept until all of it is bound. Binding one
    pod that is there needs no such preparation.
    """
    kept = dict(outcome.nominated)
    if not has_allocations(job) and (outcome.unmade or len(outcome.placed) > 1):
        kept |= outcome.placed
    return {task.name: node for task, node in kept.items()}


def _lost(workload: Workload, outcome: Outcome) -> set[Task]:
    """Tasks that have no node, or must leave it."""
    return {*workload.missing, *(eviction.task for eviction in outcome.evictions)}


def _allocations(before: dict[str, str], workload: Workload, outcome: Outcome) -> dict[str, str]:
    """The node of each pod."""
    lost = {task.name for task in _lost(workload, outcome)}
    kept = {name: node for name, node in before.items() if name not in lost}
    return kept | {task.name: node for task, node in outcome.placed.items()}


def _ranks(before: tuple[str, ...], workload: Workload, outcome: Outcome) -> tuple[str, ...]:
    """The node of each rank, up to the last that has one; "" for one that has none."""
    nodes = {rank: node for rank, node in enumerate(before) if node}
    for task in _lost(workload, outcome):
        nodes.pop(task.number, None)
    nodes |= {task.number: node for task, node in outcome.placed.items()}
    return tuple(nodes.get(rank, "") for rank in range(max(nodes, default=-1) + 1))


def _sizes(job: TrainingJob, workload: Workload, outcome: Outcome, verdict: Verdict) -> dict[str, RoleStatus]:
    """How many instances of each role there are to be: those with nodes, or with room that is kept for them.

    The pods of a job that hopes for room are made before there is any.
    """
    gone = {eviction.task for eviction in outcome.evictions}
    hopes = workload.optimistic and verdict.state == "Unscheduled" and not workload.held
    tasks = set(workload.tasks if hopes else workload.placed) - gone
    tasks |= {*outcome.placed, *outcome.nominated}
    sizes = Counter(task.role for task in tasks)
    sizes["trainer"] += workload.done
    before = job.status.replicas
    roles = dict.fromkeys((*before, *sorted(sizes)))
    return {role: replace(before.get(role, RoleStatus()), desired=sizes[role]) for role in roles}


def _records(before: tuple[ScaleRecord, ...], resize: Resize | None, now: float) -> tuple[ScaleRecord, ...]:
    """The last changes of size. One that is planned again, while its pods are made, is no other."""
    last = (before[-1].from_, before[-1].to) if before else None
    if resize is None or (resize.before, resize.after) == last:
        return before
    reason = "Grown" if resize.after > resize.before else "Shrunk"
    record = ScaleRecord(time=moment(now), from_=resize.before, to=resize.after, reason=reason)
    return (*before, record)[-_MOST_RECORDS:]
