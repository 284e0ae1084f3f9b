"""Ladders: how a job could be asked for with fewer pods, field by field."""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heapreplace
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.dijob import DIJob
from shoal.api.trainingjob import TrainingJob
from shoal.api.tyjob import TYJob
from shoal.cache.pod_classes import GANG_MIN
from shoal.cache.world import World
from shoal.engine.workload import Workload
from shoal.explain.edits import LoosePods, job_of, with_gang_min, with_job

Fields = dict[str, int]
"""What to write where: field paths and numbers."""

_FEW_SETS: Final = 3


class Ladder(msgspec.Struct, frozen=True, eq=False):
    """One way to make a job smaller: from `size` instances of a role down to `least`."""

    role: str
    size: int
    least: int
    fields: Callable[[int], Fields]
    world: Callable[[int], World]


def ladders(world: World, loose: LoosePods, workload: Workload) -> list[Ladder]:
    """All ways to make a workload smaller that there are."""
    found = _job(world, workload) if workload.kind in world.jobs else _gang(world, loose, workload)
    return [ladder for ladder in found if ladder.least < ladder.size]


def _gang(world: World, loose: LoosePods, workload: Workload) -> Iterator[Ladder]:
    if workload.kind == "Gang":
        yield Ladder(
            "pod",
            workload.minimum,
            1,
            lambda n: {f"metadata.annotations[{GANG_MIN}]": n},
            lambda n: with_gang_min(world, loose, workload, n),
        )


def _job(world: World, workload: Workload) -> Iterator[Ladder]:
    job = job_of(world, workload)
    match job:
        case TrainingJob():
            yield _trainers(world, job)
        case TYJob() if job.spec.scheduler_policy.basic_policy == "Gang":
            yield from _worker_sets(world, job)
        case TYJob():
            yield _workers(world, job)
        case DIJob() if job.spec.tasks:
            yield from _tasks(world, job)
        case DIJob():
            yield _replicas(world, job)


def _trainers(world: World, job: TrainingJob) -> Ladder:
    def made(count: int) -> World:
        trainer = replace(job.spec.trainer, min_instance=count)
        return with_job(world, replace(job, spec=replace(job.spec, trainer=trainer)))

    return Ladder(
        "trainer", job.spec.trainer.min_instance, 1, lambda n: {"spec.trainer.min-instance": n}, made
    )


def _workers(world: World, job: TYJob) -> Ladder:
    def made(count: int) -> World:
        return with_job(world, replace(job, spec=replace(job.spec, min_workers_num=count)))

    return Ladder("worker", job.spec.min_workers_num, 1, lambda n: {"spec.minWorkersNum": n}, made)


def _replicas(world: World, job: DIJob) -> Ladder:
    def made(count: int) -> World:
        return with_job(world, replace(job, spec=replace(job.spec, min_replicas=count)))

    return Ladder("replica", job.spec.min_replicas, 1, lambda n: {"spec.minReplicas": n}, made)


def _worker_sets(world: World, job: TYJob) -> Iterator[Ladder]:
    """All workers of a Gang start together, so there must be fewer of them; a minimum may not exceed that."""
    spec = job.spec
    before = [one.counts for one in spec.worker_sets]

    def made(counts: list[int]) -> World:
        sets = tuple(replace(s, counts=n) for s, n in zip(spec.worker_sets, counts, strict=True))
        least = min(spec.min_workers_num, sum(counts))
        return with_job(world, replace(job, spec=replace(spec, worker_sets=sets, min_workers_num=least)))

    def fields(counts: list[int]) -> Fields:
        found = _changed(before, counts, "spec.workerSets[{}].counts")
        return found | ({"spec.minWorkersNum": sum(counts)} if sum(counts) < spec.min_workers_num else {})

    for ladder in _over_sets(before):
        yield Ladder("worker", sum(before), *_bound(*ladder, sum(before), fields, made))


def _tasks(world: World, job: DIJob) -> Iterator[Ladder]:
    spec = job.spec
    before = [one.replicas for one in spec.tasks]

    def made(counts: list[int]) -> World:
        tasks = tuple(replace(one, replicas=n) for one, n in zip(spec.tasks, counts, strict=True))
        return with_job(world, replace(job, spec=replace(spec, tasks=tasks)))

    def fields(counts: list[int]) -> Fields:
        return _changed(before, counts, "spec.tasks[{}].replicas")

    for ladder in _over_sets(before):
        yield Ladder("pod", sum(before), *_bound(*ladder, sum(before), fields, made))


Rungs = Callable[[int], list[int]]
"""How many of each set are left when so many pods are taken away."""


def _bound(
    most: int,
    rungs: Rungs,
    total: int,
    fields: Callable[[list[int]], Fields],
    made: Callable[[list[int]], World],
) -> tuple[int, Callable[[int], Fields], Callable[[int], World]]:
    """What a Ladder needs: how low it goes, and what stands on each of its rungs."""
    return total - most, lambda n: fields(rungs(total - n)), lambda n: made(rungs(total - n))


def _over_sets(counts: list[int]) -> Iterator[tuple[int, Rungs]]:
    """Fewer of one set alone, largest set first; then fewer of all. Of each set one is left."""
    for index in sorted(range(len(counts)), key=lambda index: -counts[index])[:_FEW_SETS]:
        yield counts[index] - 1, partial(_less_of_one, counts, index)
    if sum(count > 1 for count in counts) > 1:
        yield sum(counts) - len(counts), partial(_less_of_all, counts)


def _less_of_one(counts: list[int], index: int, fewer: int) -> list[int]:
    return [*counts[:index], counts[index] - fewer, *counts[index + 1 :]]


def _less_of_all(counts: list[int], fewer: int) -> list[int]:
    """Always one less of the largest set, of equals the last."""
    heap = [(-count, -index) for index, count in enumerate(counts)]
    heapify(heap)
    for _ in range(fewer):
        count, index = heap[0]
        heapreplace(heap, (count + 1, index))
    return [-count for count, _ in sorted(heap, key=lambda pair: -pair[1])]


def _changed(before: list[int], after: list[int], path: str) -> Fields:
    pairs = enumerate(zip(before, after, strict=True))
    return {path.format(index): new for index, (old, new) in pairs if old != new}
