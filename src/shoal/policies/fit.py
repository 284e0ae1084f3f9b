"""FitPolicy: every job has its requested size, or its minimum; nodes are chosen by bin packing."""

from collections.abc import Mapping

from shoal.policies.contract import Allocation, JobInfo, NodeInfo


class FitPolicy:
    """The policy `fit`: jobs grow and shrink only on request."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """As many replicas of the wanted size as fit; none if the minimum does not fit."""
        found = _Room(nodes).more(job, _size(job))
        return found if len(found) >= job.min else []

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """Ranks keep their nodes, those without a node get one if it fits; the highest are removed first."""
        room = _Room(nodes)
        ordered = sorted(jobs.values(), key=lambda job: (-job.priority, job.created, job.key))
        return {job.key: _resize(job, previous[job.key], room) for job in ordered}


def _size(job: JobInfo) -> int:
    return job.min if job.wanted is None else job.wanted


def _resize(job: JobInfo, present: Allocation, room: "_Room") -> list[str]:
    """The allocation at the wanted size; the lowest ranks without a node get one, as far as there is room."""
    nodes = [*present[: _size(job)], *[""] * (_size(job) - len(present))]
    empty = [rank for rank, node in enumerate(nodes) if not node]
    for rank, node in zip(empty, room.more(job, len(empty)), strict=False):
        nodes[rank] = node
    while nodes and not nodes[-1] and len(nodes) > len(present):
        nodes.pop()
    return nodes


class _Room:
    """The free amounts of each node, as replicas are placed."""

    def __init__(self, nodes: Mapping[str, NodeInfo]) -> None:
        self._nodes = nodes
        self._free = {name: dict(node.free) for name, node in nodes.items()}

    def more(self, job: JobInfo, count: int) -> list[str]:
        """Nodes for up to `count` replicas: the fullest node takes as many as it can, then the next."""
        found: list[str] = []
        for name in sorted(job.node_filter, key=self._idle) if count else ():
            while len(found) < count and self._fits(job, name):
                for resource, amount in job.resources.items():
                    self._free[name][resource] -= amount
                found.append(name)
        return found

    def _fits(self, job: JobInfo, name: str) -> bool:
        free = self._free[name]
        return all(free.get(resource, 0) >= amount for resource, amount in job.resources.items())

    def _idle(self, name: str) -> float:
        """The mean idle fraction of a node's resources."""
        allocatable = {r: n for r, n in self._nodes[name].allocatable.items() if n > 0}
        return sum(self._free[name].get(r, 0) / n for r, n in allocatable.items()) / max(len(allocatable), 1)
