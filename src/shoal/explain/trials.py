"""Trials: a changed world is planned, by the same cycle, to see whether one job then runs.

Change: something that would let a job run if it were different, and the case that it is looked for in.
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
from shoal.explain.aftermath import Aftermath
from shoal.explain.edits import LoosePods
from shoal.explain.what_if import WhatIf
from shoal.policies.contract import Policy

_MOST: Final = 60
"""Plans made for one explanation: in a large cluster each takes seconds."""


class Terms(msgspec.Struct, frozen=True, eq=False):
    """What a plan depends on besides the world."""

    config: SchedulerConfig
    now: float
    policy: Policy | None = None


class Departure(msgspec.Struct, frozen=True):
    """A pod that would have to leave."""

    pod: str
    job: str
    node: str
    reason: str


class Success(msgspec.Struct, frozen=True):
    """What the job got: nodes at once, or room that is kept until others have left it."""

    placed: dict[str, str]
    nominated: dict[str, str]
    evicts: tuple[Departure, ...]


class Trials:
    """Plans changed worlds for one job: for its minimum, or `whole`, for all of it.

    Worlds that are tried are much alike: each costs what is different from the one before.
    """

    def __init__(self, terms: Terms, job: str, *, whole: bool) -> None:
        """Plan on the terms of the plan that is explained."""
        self._terms, self._job, self._whole = terms, job, whole
        self._left = _MOST
        self._stage = World(0.0)
        self._assembler = SnapshotBuilder(self._stage, terms.config)

    def run(self, world: World) -> Success | None:
        """What the job gets in a world; None if it does not run there."""
        step = self.plan(world)
        return self.success(step) if step else None

    def plan(self, world: World) -> CycleResult | None:
        """The plan of a world; None if too many were made."""
        if not self._left:
            return None
        self._left -= 1
        terms = self._terms
        self._stage.become(world)
        snapshot = self._assembler.build(terms.now).snapshot
        advice = ask_policy(terms.policy, world, snapshot) if terms.policy else NO_ANSWERS
        return CycleResult(snapshot, cycle(snapshot, terms.config, advice))

    def success(self, step: CycleResult) -> Success | None:
        """What the job gets by a plan; None if it does not run."""
        workload = self.workload(step)
        if workload is None:
            return None
        state = step.plan.verdict(workload).state
        nominated = any(nomination.workload is workload for nomination in step.plan.nominations)
        in_part = not self._whole and (state == "ScheduledPartly" or nominated)
        return _success(step, workload) if in_part or state == "ScheduledSucceed" else None

    def workload(self, step: CycleResult) -> Workload | None:
        """The job in another plan."""
        return next((one for one in step.snapshot.workloads if one.key == self._job), None)


def smallest(
    works: Callable[[int], Success | None], low: int, high: int, guess: int
) -> tuple[int, Success] | None:
    """The smallest number that works, if all above one that works do too; what is told works in any case.

    It begins at a guess, since a good one leaves little to search for.
    """
    tried = cache(works)
    if low > high:
        return None
    guess = min(max(guess, low), high)
    if tried(guess):
        low, high = (low, guess) if guess == low or tried(guess - 1) else (guess, guess)
    else:
        low = guess + 1
    if not tried(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tried(middle) else (middle + 1, high)
    success = tried(high)
    return (high, success) if success else None


def _success(step: CycleResult, workload: Workload) -> Success:
    names, plan = step.snapshot.nodes.names, step.plan
    return Success(
        placed={p.task.name: names[p.column] for p in plan.placements if p.workload is workload},
        nominated={n.task.name: names[n.column] for n in plan.nominations if n.workload is workload},
        evicts=tuple(
            Departure(f"{e.workload.namespace}/{e.task.name}", e.workload.key, names[e.task.column], e.reason)
            for e in plan.evictions
            if e.beneficiary is workload
        ),
    )


Dimension = Literal["fewer", "pool", "priority", "resource", "end"]

_FEW: Final = 3
"""How many jobs are named in a sentence."""


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A change that lets the job run, and what it then gets; each dimension has fields of its own."""

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
    evicts: tuple[Departure, ...]


class Case:
    """A workload of a world that lacks something, as it stood in a step."""

    def __init__(
        self, world: World, terms: Terms, step: CycleResult, workload: Workload, *, whole: bool
    ) -> None:
        """Look for what completes its minimum; or, if `whole`, for what completes all of it."""
        self.world, self.snapshot, self.workload, self.whole = world, step.snapshot, workload, whole
        self.aftermath = Aftermath(step, workload)
        self.whatif = WhatIf(self.aftermath, whole=whole)
        self.loose = LoosePods(world, terms.config, terms.now)
        self.trials = Trials(terms, workload.key, whole=whole)

    def after(self, step: CycleResult) -> WhatIf | None:
        """The room that another plan leaves, as the workload sees it there."""
        workload = self.trials.workload(step)
        return WhatIf(Aftermath(step, workload), whole=self.whole) if workload else None


class Outcome(TypedDict):
    """The fields of a Change that tell what the job gets."""

    placed: dict[str, str]
    nominated: dict[str, str]
    evicts: tuple[Departure, ...]


def outcome(success: Success) -> Outcome:
    """What a job gets, as the fields that a Change has for it."""
    return {"placed": success.placed, "nominated": success.nominated, "evicts": success.evicts}


def consequences(success: Success) -> str:
    """What else must happen before the job runs, in words."""
    if success.evicts:
        jobs = list(dict.fromkeys(departure.job for departure in success.evicts))
        whose = ", ".join(jobs[:_FEW]) + (
            f" and {pluralize(len(jobs) - _FEW, 'other')}" if len(jobs) > _FEW else ""
        )
        return f"; {pluralize(len(success.evicts), 'pod')} of {whose} would have to leave"
    return "; once pods that are terminating are gone" if success.nominated else ""
