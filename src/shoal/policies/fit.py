"""FitPolicy: every job has the size it was asked to have, or its minimum; nodes by BinPack."""

from collections.abc import Mapping

from shoal.policies.contract import Allocation, JobInfo, NodeInfo


class FitPolicy:
    """No job grows by itself."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """As many as were asked for, as long as they fit; nothing if the minimum does not."""
        room = _Room(nodes)
        found = room.more(job, _size(job))
        return found if len(found) >= job.min else []

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """Ranks stay where they are; the highest go first, new ones come where they fit."""
        room = _Room(nodes)
        answer: dict[str, Allocation] = {}
        for job in sorted(jobs.values(), key=lambda job: (-job.priority, job.created, job.key)):
            answer[job.key] = _resized(job, previous[job.key], room)
        return answer


def _size(job: JobInfo) -> int:
    return job.min if job.wanted is None else job.wanted


def _resized(job: JobInfo, present: Allocation, room: "_Room") -> list[str]:
    """An allocation as far as it fits: a rank that finds no node ends it."""
    nodes = list(present[: _size(job)])
    nodes += [""] * (_size(job) - len(nodes))
    for rank, node in enumerate(nodes):
        found = [node] if node else room.more(job, 1)
        if not found:
            return nodes[:rank]
        nodes[rank] = found[0]
    return nodes


class _Room:
    """What is left of each node as replicas are put on them."""

    def __init__(self, nodes: Mapping[str, NodeInfo]) -> None:
        self._nodes = nodes
        self._free = {name: dict(node.free) for name, node in nodes.items()}

    def more(self, job: JobInfo, count: int) -> list[str]:
        """Nodes for so many replicas of a job, or for fewer, each the fullest that takes one."""
        found: list[str] = []
        while len(found) < count:
            fitting = [name for name in sorted(job.node_filter) if self._fits(job, name)]
            if not fitting:
                break
            best = max(fitting, key=self._fullness)
            for resource, amount in job.resources.items():
                self._free[best][resource] -= amount
            found.append(best)
        return found

    def _fits(self, job: JobInfo, name: str) -> bool:
        free = self._free[name]
        return all(free.get(resource, 0) >= amount for resource, amount in job.resources.items())

    def _fullness(self, name: str) -> float:
        """The mean use of what a node has."""
        there = {r: n for r, n in self._nodes[name].allocatable.items() if n > 0}
        return sum(1 - self._free[name].get(r, 0) / n for r, n in there.items()) / max(len(there), 1)
