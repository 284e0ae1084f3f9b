"""Workload: the engine's view of one job, one loose pod or one gang of loose pods."""

from typing import Literal

import msgspec

from shoal.scheduling.reasons import Reason
from shoal.scheduling.shape import Identity, Shape

PlacementPolicy = Literal["Gang", "BinPack", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity"]
QueuePolicy = Literal["Priority", "DRF"]
NOWHERE = -1


class Task(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One pod that has or needs a node.

    `varying` tells the role whose number may vary (workers, trainers, replicas) from what must always be
    there (a leader, a master, parameter servers). `column` is the node it has, `nominated` the one whose
    room is kept for it.
    """

    name: str
    role: str
    shape: Shape
    identity: Identity
    varying: bool = True
    leads: bool = False
    column: int = NOWHERE
    nominated: int = NOWHERE


class Workload(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One job as the engine plans it.

    `tasks` are all that it wants now, in the order in which they are placed; those that are done are left
    out and counted in `done`. `minimum` and `maximum` count varying tasks, done ones included. An elastic
    workload takes its minimum at its turn; any other takes all that fits. `optimistic`: its pods are made
    even before there is room for them. `evictable`: it may have to leave for others; `makes_room`: others may
    have to leave for it.
    """

    kind: str
    namespace: str
    name: str
    pool: int
    created: float
    tasks: tuple[Task, ...]
    minimum: int
    maximum: int
    done: int = 0
    elastic: bool = False
    optimistic: bool = False
    priority: int = 0
    own_priority: int | None = None
    queue_policy: QueuePolicy = "Priority"
    placement: PlacementPolicy = "BinPack"
    may_borrow: bool = True
    evictable: bool = True
    makes_room: bool = True
    held: Reason | None = None
    remarks: tuple[Reason, ...] = ()
    broken_since: float | None = None

    @property
    def key(self) -> str:
        """What the workload is called in a plan: `TYJob/default/job-a`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def placed(self) -> list[Task]:
        """Tasks that have a node."""
        return [task for task in self.tasks if task.column != NOWHERE]

    @property
    def missing(self) -> list[Task]:
        """Tasks that need a node."""
        return [task for task in self.tasks if task.column == NOWHERE]

    @property
    def lacking(self) -> int:
        """How many varying tasks its minimum lacks."""
        return max(self.minimum - self.done - sum(task.varying for task in self.placed), 0)

    @property
    def unmet(self) -> bool:
        """Whether its minimum is not whole."""
        return self.lacking > 0 or any(not task.varying for task in self.missing)

    @property
    def minimum_tasks(self) -> list[Task]:
        """The tasks that its minimum lacks: all that do not vary, and the first of those that do."""
        varying = [task for task in self.missing if task.varying][: self.lacking]
        return [task for task in self.missing if not task.varying or task in varying]

    @property
    def nominated(self) -> list[Task]:
        """Tasks for which room is kept."""
        return [task for task in self.tasks if task.nominated != NOWHERE and task.column == NOWHERE]
