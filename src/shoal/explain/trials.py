"""Trials: a changed world is planned by the same cycle, to see whether one job runs then.

Estimates (`shoal.explain.estimates`) select what to try. A change is proposed only if its trial succeeded.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, Literal, TypedDict

import msgspec

from shoal.api.fields import pluralize
from shoal.cache.policy_questions import ask_policy
from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.policy_answers import NO_ANSWERS
from shoal.engine.report import CycleResult
from shoal.engine.workload import Workload
from shoal.explain.edits import LoosePods
from shoal.explain.estimates import FitEstimator
from shoal.explain.planned_cluster import PlannedCluster
from shoal.policies.contract import Policy

Dimension = Literal["fewer", "pool", "priority", "resource", "end"]
"""What is changed: number of pods, home pool, priority, resources of nodes, or the end of other jobs."""

_MAX_TRIALS: Final = 60
"""Plans per explanation: in a large cluster each takes seconds."""

_MAX_LISTED_JOBS: Final = 3
"""Jobs that a text lists by name."""


class PlanOptions(msgspec.Struct, frozen=True, eq=False):
    """Everything that a plan depends on except the world; `now` in seconds since the epoch."""

    config: SchedulerConfig
    now: float
    policy: Policy | None = None


class EvictedPod(msgspec.Struct, frozen=True):
    """A pod that a change would evict."""

    pod: str
    job: str
    node: str
    reason: str


class TrialResult(msgspec.Struct, frozen=True):
    """What the job gets in a successful trial: nodes, or nominations to room that others are leaving."""

    placed: dict[str, str]
    nominated: dict[str, str]
    evicts: tuple[EvictedPod, ...]


class ResultFields(TypedDict):
    """The fields that a Change has in common with a TrialResult."""

    placed: dict[str, str]
    nominated: dict[str, str]
    evicts: tuple[EvictedPod, ...]


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A change that lets the job run, and what the job gets then; each dimension uses fields of its own."""

    dimension: Dimension
    text: str
    role: str | None = None
    count: int | None = None
    of: int | None = None
    set: dict[str, int] | None = None
    pool: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    priority_class_value: int | None = None
    node: str | None = None
    add: dict[str, str] | None = None
    like: str | None = None
    nodes: int | None = None
    jobs: tuple[str, ...] | None = None
    placed: dict[str, str]
    nominated: dict[str, str]
    evicts: tuple[EvictedPod, ...]


class TrialPlanner:
    """Plans changed worlds for one job: a trial succeeds if its minimum runs, or, if `whole`, all of it.

    The worlds differ little: a trial costs what has changed since the previous one.
    """

    def __init__(self, options: PlanOptions, job: str, *, whole: bool) -> None:
        """Use the options of the plan that is explained."""
        self._options, self._job, self._whole = options, job, whole
        self._remaining = _MAX_TRIALS
        self._world = World(0.0)
        self._builder = SnapshotBuilder(self._world, options.config)

    def run(self, world: World) -> TrialResult | None:
        """What the job gets in a world; None if it does not run there, or if all trials are used up."""
        cycle_result = self.plan(world)
        return self.result(cycle_result) if cycle_result else None

    def plan(self, world: World) -> CycleResult | None:
        """The plan of a world; None if all trials are used up."""
        if not self._remaining:
            return None
        self._remaining -= 1
        options = self._options
        self._world.become(world)
        snapshot = self._builder.build(options.now).snapshot
        answers = ask_policy(options.policy, world, snapshot) if options.policy else NO_ANSWERS
        return CycleResult(snapshot, cycle(snapshot, options.config, answers))

    def result(self, cycle_result: CycleResult) -> TrialResult | None:
        """What the job gets by a plan; None if it does not run."""
        workload = self.workload(cycle_result)
        if workload is None:
            return None
        plan = cycle_result.plan
        state = plan.verdict(workload).state
        nominated = any(nomination.workload is workload for nomination in plan.nominations)
        has_minimum = not self._whole and (state == "ScheduledPartly" or nominated)
        return _trial_result(cycle_result, workload) if has_minimum or state == "ScheduledSucceed" else None

    def workload(self, cycle_result: CycleResult) -> Workload | None:
        """The job's workload in another plan."""
        return next((one for one in cycle_result.snapshot.workloads if one.key == self._job), None)


class ChangeSearch:
    """The search for changes that let one workload run: its state after a plan, estimates and trials."""

    def __init__(
        self,
        world: World,
        options: PlanOptions,
        cycle_result: CycleResult,
        workload: Workload,
        *,
        whole: bool,
    ) -> None:
        """Search for what completes the minimum of the workload, or, if `whole`, all of it."""
        self.world, self.snapshot, self.workload, self.whole = world, cycle_result.snapshot, workload, whole
        self.planned = PlannedCluster(cycle_result, workload)
        self.estimator = FitEstimator(self.planned, whole=whole)
        self.loose_pods = LoosePods(world, options.config, options.now)
        self.planner = TrialPlanner(options, workload.key, whole=whole)

    def estimator_after(self, cycle_result: CycleResult) -> FitEstimator | None:
        """An estimator for the workload after another plan; None if that plan does not know the workload."""
        workload = self.planner.workload(cycle_result)
        return FitEstimator(PlannedCluster(cycle_result, workload), whole=self.whole) if workload else None


def find_smallest(
    trial: Callable[[int], TrialResult | None], low: int, high: int, guess: int
) -> tuple[int, TrialResult] | None:
    """The smallest number whose trial succeeds, by bisection; None if no trial succeeds.

    It is the smallest only if every larger number succeeds too; the returned number succeeds in any case. The
    search starts at `guess`: a good one saves most trials.
    """
    run = cache(trial)
    if low > high:
        return None
    guess = min(max(guess, low), high)
    if run(guess):
        low, high = (low, guess) if guess == low or run(guess - 1) else (guess, guess)
    else:
        low = guess + 1
    if not run(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if run(middle) else (middle + 1, high)
    result = run(high)
    return (high, result) if result else None


def result_fields(result: TrialResult) -> ResultFields:
    """The fields of a Change that say what the job gets."""
    return {"placed": result.placed, "nominated": result.nominated, "evicts": result.evicts}


def describe_effects(result: TrialResult) -> str:
    """What else has to happen before the job runs, as the end of a sentence; "" if nothing."""
    if result.evicts:
        jobs = list(dict.fromkeys(evicted.job for evicted in result.evicts))
        listed = ", ".join(jobs[:_MAX_LISTED_JOBS])
        if len(jobs) > _MAX_LISTED_JOBS:
            listed += f" and {pluralize(len(jobs) - _MAX_LISTED_JOBS, 'other')}"
        return f"; {pluralize(len(result.evicts), 'pod')} of {listed} would have to leave"
    return "; once pods that are terminating are gone" if result.nominated else ""


def _trial_result(cycle_result: CycleResult, workload: Workload) -> TrialResult:
    names, plan = cycle_result.snapshot.nodes.names, cycle_result.plan
    return TrialResult(
        placed={p.task.name: names[p.column] for p in plan.placements if p.workload is workload},
        nominated={n.task.name: names[n.column] for n in plan.nominations if n.workload is workload},
        evicts=tuple(
            EvictedPod(
                f"{e.workload.namespace}/{e.task.name}", e.workload.key, names[e.task.column], e.reason
            )
            for e in plan.evictions
            if e.beneficiary is workload
        ),
    )
