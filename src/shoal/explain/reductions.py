"""Ways to make a workload smaller, each with the world that it would make."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from shoal.cache.world import World
from shoal.engine.workload import Workload
from shoal.explain.edits import LoosePods, job_of, with_gang_min, with_job
from shoal.kinds.base import FieldValues, Relaxation, job_kinds
from shoal.kinds.pod_classes import GANG_MIN


class Reduction(msgspec.Struct, frozen=True, eq=False):
    """One way to make a workload smaller: from `size` pods of a role down to `least`.

    `fields` returns what to edit for a number of pods, `world` the world after that edit.
    """

    role: str
    size: int
    least: int
    fields: Callable[[int], FieldValues]
    world: Callable[[int], World]


def reductions(world: World, loose: LoosePods, workload: Workload) -> list[Reduction]:
    """All ways to make a workload smaller."""
    found = _of_job(world, workload) if workload.kind in world.jobs else _of_gang(world, loose, workload)
    return [reduction for reduction in found if reduction.least < reduction.size]


def _of_gang(world: World, loose: LoosePods, workload: Workload) -> Iterator[Reduction]:
    if workload.kind == "Gang":
        yield Reduction(
            "pod",
            workload.minimum,
            1,
            lambda n: {f"metadata.annotations[{GANG_MIN}]": n},
            lambda n: with_gang_min(world, loose, workload, n),
        )


def _of_job(world: World, workload: Workload) -> Iterator[Reduction]:
    for one in job_kinds()[workload.kind].relaxations(job_of(world, workload)):
        yield Reduction(one.role, one.size, one.least, one.fields, partial(_relaxed, world, one))


def _relaxed(world: World, relaxation: Relaxation[Any], count: int) -> World:
    return with_job(world, relaxation.job(count))
