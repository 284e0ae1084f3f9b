"""Answers of the user's elastic policy: the nodes that it wants for workloads, checked.

The policy is asked outside the engine, and its answers are plain data. Here they are checked against the
snapshot; an impossible answer is refused, and the workload keeps its size and nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from shoal.api.fields import shown
from shoal.engine.nodes import Nodes
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Workload


class PolicyAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Node names by rank for workload keys, and the reason why there is no answer for others."""

    allocations: Mapping[str, tuple[str, ...]] = {}
    refusals: Mapping[str, str] = {}


NO_ANSWERS: Final = PolicyAnswers()


class CheckedAnswers:
    """The valid answers for the workloads of a snapshot, as one column per rank."""

    def __init__(self, snapshot: Snapshot, answers: PolicyAnswers) -> None:
        """Check what does not depend on free room."""
        self._columns: dict[Workload, list[int]] = {}
        self.refusals: dict[Workload, str] = {}
        for workload in _sized_by_policy(snapshot):
            if workload.key in answers.refusals:
                self.refusals[workload] = answers.refusals[workload.key]
            elif workload.key in answers.allocations:
                self._check(workload, answers.allocations[workload.key], snapshot)

    def columns_of(self, workload: Workload) -> list[int] | None:
        """The column of each rank, NO_NODE for a rank without a node; None if there is no valid answer."""
        return self._columns.get(workload) if workload not in self.refusals else None

    def refuse(self, workload: Workload, why: str) -> None:
        """Ignore the answer for a workload, for a reason that its owner sees."""
        self.refusals[workload] = why

    def _check(self, workload: Workload, names: tuple[str, ...], snapshot: Snapshot) -> None:
        problem = _problem(workload, names, snapshot)
        if problem:
            self.refuse(workload, problem)
        else:
            columns = snapshot.nodes.columns
            self._columns[workload] = [columns.get(name, NO_NODE) for name in names[: workload.ceiling]]


def _sized_by_policy(snapshot: Snapshot) -> Iterable[Workload]:
    return (w for w in snapshot.elastic if w.growth and w.growth.sized_by_policy)


def _problem(workload: Workload, names: tuple[str, ...], snapshot: Snapshot) -> str:
    """What is wrong with an allocation, regardless of free room; empty if nothing is."""
    least, most, pool = workload.minimum, workload.maximum, snapshot.pools[workload.pool]
    if not least <= len(names) <= most:
        return f"it has {len(names)} replicas; the job allows {least} to {most}"
    running = {task.number for task in workload.placed}
    unassigned = [rank for rank, name in enumerate(names) if not name and (rank in running or not running)]
    if unassigned:
        return f"it leaves rank {unassigned[0]} without a node"
    unknown = sorted({name for name in names if name and not _is_node_of(name, snapshot.nodes, pool.name)})
    return f"it names {shown(unknown[0])}, which is no node of pool {pool.name}" if unknown else ""


def _is_node_of(name: str, nodes: Nodes, pool: str) -> bool:
    return name in nodes.columns and nodes.pools[nodes.columns[name]] == pool
