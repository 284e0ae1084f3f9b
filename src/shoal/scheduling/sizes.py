"""Sizes: how fulfilled elastic workloads are, and in which order they grow and give.

A score is 0 at the minimum and 1 at the ceiling. Sizes are whole numbers below a hundred thousand, so floats
tell any two different scores apart and never two equal ones: they order exactly as the fractions would.
"""

from collections.abc import Iterable
from fractions import Fraction
from operator import attrgetter

from shoal.api.podspec import is_gpu
from shoal.scheduling.resources import CPU, MEMORY
from shoal.scheduling.shape import Shape
from shoal.scheduling.workload import Task, Workload


def score(workload: Workload, size: int) -> float:
    """How fulfilled a workload is at a size."""
    most = workload.ceiling - workload.minimum
    return (size - workload.minimum) / most if most > 0 else 1.0


def ranks(workloads: Iterable[Workload]) -> dict[Workload, int]:
    """Whose turn it is to grow among equally fulfilled ones: the place of each workload in that order.

    Who asks for little goes first: fewer GPUs an instance, less CPU, less memory; then the older.
    """
    amounts: dict[Shape, tuple[int, int, int]] = {}

    def key(workload: Workload) -> tuple[int, int, int, float, str, str, str]:
        shape = workload.growth.series.shape if workload.growth else None
        if shape and shape not in amounts:
            amounts[shape] = _amounts(shape)
        asked = amounts[shape] if shape else (0, 0, 0)
        return (*asked, workload.created, workload.namespace, workload.name, workload.kind)

    return {workload: place for place, workload in enumerate(sorted(workloads, key=key))}


def followers(workload: Workload, size: int) -> int:
    """How many tasks are to follow those that vary, at a size."""
    following = workload.growth.following if workload.growth else None
    if following is None:
        return 0
    most = workload.ceiling - workload.minimum
    fulfilled = Fraction(min(max(size - workload.minimum, 0), most), most) if most > 0 else Fraction(1)
    return round(following.least + fulfilled * (following.most - following.least))


def varying(tasks: Iterable[Task]) -> list[Task]:
    """Those of the role whose number may vary, the highest number last."""
    return sorted([task for task in tasks if task.varying], key=attrgetter("number"))


def _amounts(shape: Shape) -> tuple[int, int, int]:
    asked = shape.requests
    gpus = sum(amount for name, amount in asked.items() if is_gpu(name))
    return gpus, asked.get(CPU, 0), asked.get(MEMORY, 0)
