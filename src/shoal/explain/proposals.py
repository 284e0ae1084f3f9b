"""Proposals: the smallest changes that would let a job run now, one of each dimension, each of them planned.

Where to look is found with cheap questions to the room that is left; what is proposed was planned anew in a
world with just that change, by the same cycle, and the job ran.
"""

from shoal.explain.change import Case, Change
from shoal.explain.concessions import fewer, pool, priority
from shoal.explain.openings import end, resource
from shoal.explain.trials import Terms
from shoal.scheduling.report import Step
from shoal.scheduling.workload import Workload
from shoal.world.world import World


def propose(world: World, terms: Terms, step: Step, workload: Workload) -> tuple[Change, ...]:
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
