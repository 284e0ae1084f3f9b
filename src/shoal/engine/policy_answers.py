"""Advice: what a policy of the user's wants for elastic workloads, and whether it can be followed.

The policy has been asked outside, and its answers are plain data. Here they are held against the nodes, and
what cannot be is refused: the workload then stays as it is.

Following advice: workloads get the nodes that a policy wants for them, as far as there is room.

What all advice comes to together is tried first. If a workload does not find its room in that, its part of
the advice is refused, and the rest is tried again without it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from shoal.api.fields import shown
from shoal.engine.nodes import Nodes
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NO_NODE, Workload


class PolicyAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Node names by rank for workloads, by their keys; and why there are none for others."""

    allocations: Mapping[str, tuple[str, ...]] = {}
    refusals: Mapping[str, str] = {}


NO_ANSWERS: Final = PolicyAnswers()


class CheckedAnswers:
    """Advice for the workloads of a snapshot: the columns of each rank, as far as it is sound."""

    def __init__(self, snapshot: Snapshot, answers: PolicyAnswers) -> None:
        """Check what can be checked without knowing what is free."""
        self._columns: dict[Workload, list[int]] = {}
        self.refusals: dict[Workload, str] = {}
        for workload in _advised(snapshot):
            if workload.key in answers.refusals:
                self.refusals[workload] = answers.refusals[workload.key]
            elif workload.key in answers.allocations:
                self._take(workload, answers.allocations[workload.key], snapshot)

    def of(self, workload: Workload) -> list[int] | None:
        """The column of each rank, NOWHERE for one that is to have none; None without advice to follow."""
        return self._columns.get(workload) if workload not in self.refusals else None

    def refuse(self, workload: Workload, why: str) -> None:
        """Follow the advice for a workload no further."""
        self.refusals[workload] = why

    def _take(self, workload: Workload, names: tuple[str, ...], snapshot: Snapshot) -> None:
        problem = _problem(workload, names, snapshot)
        if problem:
            self.refuse(workload, problem)
        else:
            columns = snapshot.nodes.columns
            self._columns[workload] = [columns.get(name, NO_NODE) for name in names[: workload.ceiling]]


def _advised(snapshot: Snapshot) -> Iterable[Workload]:
    return (w for w in snapshot.elastic if w.growth and w.growth.sized_by_policy)


def _problem(workload: Workload, names: tuple[str, ...], snapshot: Snapshot) -> str:
    """What is wrong with an allocation, whatever is free; nothing, if all is well."""
    least, most, pool = workload.minimum, workload.maximum, snapshot.pools[workload.pool]
    if not least <= len(names) <= most:
        return f"it asks for {len(names)} replicas, and there must be {least} to {most}"
    bound = {task.number for task in workload.placed}
    emptied = [rank for rank, name in enumerate(names) if not name and (rank in bound or not bound)]
    if emptied:
        return f"it leaves rank {emptied[0]} without a node"
    strange = sorted({name for name in names if name and not _is_in(name, snapshot.nodes, pool.name)})
    return f"it names {shown(strange[0])}, which is no node of pool {pool.name}" if strange else ""


def _is_in(name: str, nodes: Nodes, pool: str) -> bool:
    return name in nodes.columns and nodes.pools[nodes.columns[name]] == pool
