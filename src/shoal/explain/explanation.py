"""Proposals: the smallest changes that would let a job run now, one of each dimension, each of them planned.

Where to look is found with cheap questions to the room that is left; what is proposed was planned anew in a
world with just that change, by the same cycle, and the job ran.

Explanation: one job after a plan, node by node, and what would let it run (`docs/explain.md`).
"""

from collections.abc import Sequence

import msgspec

from shoal.cache.world import World
from shoal.engine.plan import State
from shoal.engine.report import CycleResult
from shoal.engine.workload import Reason, Workload
from shoal.explain.aftermath import Aftermath
from shoal.explain.concessions import fewer, pool, priority
from shoal.explain.nodes import TaskEntry, explain_tasks
from shoal.explain.openings import end, resource
from shoal.explain.trials import Case, Change, Terms


def propose(world: World, terms: Terms, step: CycleResult, workload: Workload) -> tuple[Change, ...]:
    """What would let a workload run, or complete it if it runs in part.

    Nothing for one that is complete, or has room kept for it, or that no room would help.
    """
    verdict = step.plan.verdict(workload)
    nominated = any(nomination.workload is workload for nomination in step.plan.nominations)
    if workload.held or nominated or verdict.state == "ScheduledSucceed":
        return ()
    case = Case(world, terms, step, workload, whole=verdict.state == "ScheduledPartly")
    found = (fewer(case), pool(case), priority(case), resource(case), end(case))
    return tuple(change for change in found if change)


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job stands, why, and what would help."""

    job: str
    state: State
    pool: str
    priority: int
    cycles: int
    reasons: tuple[Reason, ...]
    summary: str
    tasks: tuple[TaskEntry, ...]
    changes: tuple[Change, ...]


def explain(world: World, terms: Terms, steps: Sequence[CycleResult], workload: Workload) -> Explanation:
    """Explain a workload of the last step; the world must be as that step saw it."""
    step = steps[-1]
    verdict = step.plan.verdict(workload)
    aftermath = Aftermath(step, workload)
    changes = propose(world, terms, step, workload)
    return Explanation(
        job=workload.key,
        state=verdict.state,
        pool=step.snapshot.pools[workload.pool].name,
        priority=workload.priority,
        cycles=len(steps),
        reasons=verdict.reasons,
        summary=_summary(aftermath, verdict.state, changes),
        tasks=explain_tasks(aftermath),
        changes=changes,
    )


def _summary(aftermath: Aftermath, state: State, changes: tuple[Change, ...]) -> str:
    """What there is to do about it, in one line."""
    if aftermath.workload.held:
        return "it is held, and no room would help; do as the reason says"
    if state == "ScheduledSucceed" and aftermath.size < aftermath.workload.ceiling:
        size, most = aftermath.size, aftermath.workload.ceiling
        return f"it has its minimum, {size} of up to {most}; it grows as room comes free and its turn comes"
    if state == "ScheduledSucceed":
        return "it has all that it asks for; there is nothing to change"
    if aftermath.nominated:
        return "room is kept for it, and it runs once those in it are gone; there is nothing to change"
    wanted = "complete it" if state == "ScheduledPartly" else "let it run now"
    if not changes:
        return f"no single change was found that would {wanted}"
    return f"any one of these would {wanted}; each was planned"
