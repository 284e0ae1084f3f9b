"""Change: something that would let a job run if it were different, and the case that it is looked for in."""

from typing import Final, Literal, TypedDict

import msgspec

from shoal.api.fields import many
from shoal.explain.aftermath import Aftermath
from shoal.explain.edits import LoosePods
from shoal.explain.trials import Departure, Success, Terms, Trials
from shoal.explain.whatif import WhatIf
from shoal.scheduling.report import Step
from shoal.scheduling.workload import Workload
from shoal.world.world import World

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

    def __init__(self, world: World, terms: Terms, step: Step, workload: Workload, *, whole: bool) -> None:
        """Look for what completes its minimum; or, if `whole`, for what completes all of it."""
        self.world, self.snapshot, self.workload, self.whole = world, step.snapshot, workload, whole
        self.aftermath = Aftermath(step, workload)
        self.whatif = WhatIf(self.aftermath, whole=whole)
        self.loose = LoosePods(world, terms.config, terms.now)
        self.trials = Trials(terms, workload.key, whole=whole)

    def after(self, step: Step) -> WhatIf | None:
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
            f" and {many(len(jobs) - _FEW, 'other')}" if len(jobs) > _FEW else ""
        )
        return f"; {many(len(success.evicts), 'pod')} of {whose} would have to leave"
    return "; once pods that are terminating are gone" if success.nominated else ""
