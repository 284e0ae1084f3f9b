"""The contract between Shoal and a policy: what a policy is told, and what it answers.

Amounts are whole numbers: CPU in thousandths of a core, memory and storage in bytes, everything else in ones.
An allocation is a list of node names, one for each rank, rank 0 first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

Allocation = Sequence[str]
"""The node of each rank."""


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node: what it has for pods, and how much of that nobody uses now."""

    name: str
    labels: Mapping[str, str]
    pool: str
    allocatable: Mapping[str, int]
    free: Mapping[str, int]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job: the bounds of its size, what one replica asks for, and what its workers reported.

    `requested` is the size that was asked for through the server, if any. `node_filter` has the names of the
    nodes that it may use, in their order: those of its home pool that its selectors, affinity and tolerations
    leave open.
    """

    key: str
    min: int
    max: int
    requested: int | None
    preemptible: bool
    resources: Mapping[str, int]
    priority: int
    created: float
    profilings: Mapping[str, Any]
    node_filter: tuple[str, ...]

    @property
    def wanted(self) -> int | None:
        """The size that was asked for, within its bounds; None if none was."""
        return None if self.requested is None else min(max(self.requested, self.min), self.max)


class Policy(Protocol):
    """Decides where a new job starts, and how large the others are.

    Answers are checked before anything is done. One that is impossible is refused, with a reason that the
    job's owner sees, and the job stays as it is.
    """

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """The nodes of a job that has none: at least `min` of them, at most `max`; or none for no opinion."""

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """The nodes of all jobs that run, given those they have.

        "" stands for a rank that lost its node; in an answer, for one that is not to have any yet.
        """
