"""The explanation of one job after a plan: each node, and changes that would let the job run.

Of each dimension the smallest change is proposed. Estimates over the remaining room find candidates; every
proposed change was applied to a copy of the world and planned by the same cycle, and the job ran. The keys of
the JSON object are documented in `docs/explain.md`.
"""

from collections.abc import Sequence

import msgspec

from shoal.cache.world import World
from shoal.engine.plan import State
from shoal.engine.report import CycleResult
from shoal.engine.workload import Reason, Workload
from shoal.explain.cluster_changes import find_ending_jobs, find_resources
from shoal.explain.job_changes import find_fewer_pods, find_pool, find_priority
from shoal.explain.node_entries import TaskEntry, explain_tasks
from shoal.explain.planned_cluster import PlannedCluster
from shoal.explain.trials import Change, ChangeSearch, PlanOptions


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a job after a plan, the reasons, and changes that would let it run."""

    job: str
    state: State
    pool: str
    priority: int
    cycles: int
    reasons: tuple[Reason, ...]
    summary: str
    tasks: tuple[TaskEntry, ...]
    changes: tuple[Change, ...]


def explain(
    world: World, options: PlanOptions, cycle_results: Sequence[CycleResult], workload: Workload
) -> Explanation:
    """Explain a workload of the last cycle; the world must be the one that this cycle planned."""
    last = cycle_results[-1]
    verdict = last.plan.verdict(workload)
    planned = PlannedCluster(last, workload)
    changes = propose_changes(world, options, last, workload)
    return Explanation(
        job=workload.key,
        state=verdict.state,
        pool=last.snapshot.pools[workload.pool].name,
        priority=workload.priority,
        cycles=len(cycle_results),
        reasons=verdict.reasons,
        summary=_summary(planned, verdict.state, changes),
        tasks=explain_tasks(planned),
        changes=changes,
    )


def propose_changes(
    world: World, options: PlanOptions, cycle_result: CycleResult, workload: Workload
) -> tuple[Change, ...]:
    """Changes that would let a workload run, or complete it if it runs in part.

    There are none for a workload that is complete, is nominated, or is held, as no room would help it.
    """
    verdict = cycle_result.plan.verdict(workload)
    nominated = any(nomination.workload is workload for nomination in cycle_result.plan.nominations)
    if workload.held or nominated or verdict.state == "ScheduledSucceed":
        return ()
    whole = verdict.state == "ScheduledPartly"
    search = ChangeSearch(world, options, cycle_result, workload, whole=whole)
    found = (
        find_fewer_pods(search),
        find_pool(search),
        find_priority(search),
        find_resources(search),
        find_ending_jobs(search),
    )
    return tuple(change for change in found if change)


def _summary(planned: PlannedCluster, state: State, changes: tuple[Change, ...]) -> str:
    """The result in one line: whether something should be changed, and what that would achieve."""
    if planned.workload.held:
        return "it is held, and no room would help; do as the reason says"
    if state == "ScheduledSucceed" and planned.workload.may_grow and planned.size < planned.workload.ceiling:
        size, most = planned.size, planned.workload.ceiling
        return f"it has its minimum, {size} of up to {most}; it grows as room comes free and its turn comes"
    if state == "ScheduledSucceed":
        return "it has all that it requests; no change is needed"
    if planned.nominated:
        return "room is kept for it, and it runs once those in it are gone; there is nothing to change"
    wanted = "complete it" if state == "ScheduledPartly" else "let it run now"
    if not changes:
        return f"no single change was found that would {wanted}"
    return f"any one of these would {wanted}; each was planned"
