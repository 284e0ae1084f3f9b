"""Reasons: why a workload waits.

Plan: what one cycle decided, with a verdict for every workload it looked at.
"""

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
    """A task loses its node, in favour of a workload or of nobody."""

    workload: Workload
    task: Task
    reason: EvictionReason
    beneficiary: Workload | None = None


class Resize(msgspec.Struct, frozen=True, eq=False):
    """An elastic workload changes its size."""

    workload: Workload
    before: int
    after: int


class Verdict(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How a workload stands after the plan, and why it does not stand better.

    `waiting`: its minimum is unmet and would fit its pool if that were empty. `broken` says since when a
    workload that was whole has had less than its minimum.
    """

    state: State
    reasons: tuple[Reason, ...] = ()
    waiting: bool = False
    broken: float | None = None


class Plan(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one cycle decided.

    `verdicts` has the workloads that were unsettled; all others stand where they stood. `nominations` are
    all that hold after the plan, kept ones too. `resizes` tell of elastic workloads what placements and
    evictions come to.
    """

    placements: tuple[Placement, ...]
    evictions: tuple[Eviction, ...]
    nominations: tuple[Placement, ...]
    resizes: tuple[Resize, ...]
    verdicts: dict[Workload, Verdict]

    def verdict(self, workload: Workload) -> Verdict:
        """How a workload stands after the plan."""
        known = self.verdicts.get(workload)
        return known or Verdict(state="ScheduledSucceed", reasons=workload.remarks)

    def changes(self) -> bool:
        """Whether the plan does anything that was not so before."""
        fresh = any(nomination.task.nominated != nomination.column for nomination in self.nominations)
        return bool(self.placements or self.evictions or fresh)
