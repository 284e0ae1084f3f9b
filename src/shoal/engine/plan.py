"""Plan: what one cycle decided, with a verdict for every workload that it looked at."""

from typing import Literal

import msgspec

from shoal.engine.workload import Reason, Task, Workload

State = Literal["Unscheduled", "ScheduledPartly", "ScheduledSucceed", "ScheduledFailed"]
EvictionReason = Literal["Preempted", "Reclaimed", "Shrunk", "Moved", "GangLost"]


class Placement(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A task gets a node."""

    workload: Workload
    task: Task
    column: int


class Eviction(msgspec.Struct, frozen=True, eq=False):
    """A task loses its node, for the benefit of a workload if `beneficiary` is set."""

    workload: Workload
    task: Task
    reason: EvictionReason
    beneficiary: Workload | None = None


class Resize(msgspec.Struct, frozen=True, eq=False):
    """An elastic workload changes its number of varying tasks, finished ones included."""

    workload: Workload
    before: int
    after: int


class Verdict(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The state of a workload after the plan, and the reasons why it is not better.

    `waiting`: its minimum is unmet and would fit its home pool if that were empty. `broken`: since when a
    workload that has nodes has had less than its minimum.
    """

    state: State
    reasons: tuple[Reason, ...] = ()
    waiting: bool = False
    broken: float | None = None


class Plan(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one cycle decided.

    `verdicts` contains the workloads that the cycle looked at; the state of all others is unchanged.
    `nominations` are all reservations that hold after the plan, those of earlier cycles included. `resizes`
    sum up what placements and evictions mean for the sizes of elastic workloads.
    """

    placements: tuple[Placement, ...]
    evictions: tuple[Eviction, ...]
    nominations: tuple[Placement, ...]
    resizes: tuple[Resize, ...]
    verdicts: dict[Workload, Verdict]

    def verdict(self, workload: Workload) -> Verdict:
        """The state of a workload after the plan; a workload that the cycle did not look at is scheduled."""
        known = self.verdicts.get(workload)
        return known or Verdict(state="ScheduledSucceed", reasons=workload.remarks)

    def has_changes(self) -> bool:
        """Whether the plan changes anything: a placement, an eviction or a new nomination."""
        new_nominations = any(
            nomination.task.nominated != nomination.column for nomination in self.nominations
        )
        return bool(self.placements or self.evictions or new_nominations)
