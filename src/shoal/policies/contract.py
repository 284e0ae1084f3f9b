"""The interface of elastic policies: what a policy is given, and what it answers.

Amounts are whole numbers: CPU in millicores, memory and storage in bytes, everything else in ones. An
allocation is a list of node names, one for each rank, rank 0 first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

Allocation = Sequence[str]
"""The node name of each rank."""


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its allocatable amounts, and how much of them is free now."""

    name: str
    labels: Mapping[str, str]
    pool: str
    allocatable: Mapping[str, int]
    free: Mapping[str, int]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job: the bounds of its size, the requests of one replica, and what its workers reported.

    `requested` is the size requested through the API, if any. `created` is in seconds since the epoch.
    `profilings` is what its workers posted. `node_filter` has the names of the nodes that it may use, in
    order: those of its home pool that its selectors, affinity and tolerations allow.
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
        """The requested size, limited to the bounds; None if none was requested."""
        return None if self.requested is None else min(max(self.requested, self.min), self.max)


class Policy(Protocol):
    """Decides where a new job starts, and which size and nodes running jobs have.

    Answers are checked before anything is done. An impossible one is refused, with a reason that the owner of
    the job sees, and the job stays as it is.
    """

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """The nodes of a job that has none: at least `min` and at most `max`; empty to let Shoal choose."""

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """The nodes of all running jobs, given those they have.

        "" stands for a rank that has lost its node; in an answer, for a rank that gets no node yet.
        """
