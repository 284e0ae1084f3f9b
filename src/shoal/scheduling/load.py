"""Load: how far workloads without GPUs may grow, by what all pods may come to use together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from shoal.api.podspec import is_gpu
from shoal.scheduling.nodes import Nodes
from shoal.scheduling.resources import UNLIMITED, exact_sums
from shoal.scheduling.shape import Shape
from shoal.scheduling.snapshot import Snapshot


class Load:
    """The limits of all pods on ready nodes, held against a part of what those nodes have."""

    def __init__(self, snapshot: Snapshot, most: float, shapes: Iterable[Shape]) -> None:
        """Begin with the pods there are and `shapes` that got room since; `most` is the part of it all."""
        self._caps = _caps(snapshot.nodes, most)
        self._sums = Counter(snapshot.limits)
        for shape in shapes:
            self.add(shape)

    def add(self, shape: Shape, count: int = 1) -> None:
        """Count a pod in, or out."""
        for name, amount in shape.limits.items():
            self._sums[name] += amount * count

    def times(self, shape: Shape) -> int:
        """How many more such pods stay within bounds; those that ask for GPUs are not held to any."""
        if any(map(is_gpu, shape.requests)):
            return UNLIMITED
        left = ((self._caps.get(name, 0) - self._sums[name]) // n for name, n in shape.limits.items())
        return max(min(left, default=UNLIMITED), 0)

    def bears(self, shapes: Sequence[Shape]) -> bool:
        """Whether a pod and those that must follow it stay within bounds together."""
        added: Counter[str] = Counter()
        for shape in shapes:
            added.update(shape.limits)
        free = any(map(is_gpu, shapes[0].requests))
        return free or all(self._sums[name] + n <= self._caps.get(name, 0) for name, n in added.items())


def _caps(nodes: Nodes, most: float) -> Mapping[str, int]:
    """How much of each resource may be in use; `most` is meant as it is written, in decimals."""
    part = Fraction(str(most))
    there = exact_sums(nodes.alloc[:, nodes.ready])
    return {name: int(part * amount) for name, amount in zip(nodes.layout.names, there, strict=True)}
