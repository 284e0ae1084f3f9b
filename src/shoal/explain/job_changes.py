"""Changes of the job itself that would let it run: fewer pods, another home pool, a higher priority."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from shoal.api.core import PriorityClass
from shoal.api.fields import pluralize
from shoal.cache.pool_membership import PoolMembership
from shoal.cache.world import World
from shoal.engine.workload import Workload
from shoal.explain import edits
from shoal.explain.edits import LoosePods
from shoal.explain.trials import (
    Change,
    ChangeSearch,
    TrialResult,
    describe_effects,
    find_smallest,
    result_fields,
)
from shoal.kinds.base import FieldValues, Relaxation, job_kinds
from shoal.kinds.pod_classes import GANG_MIN

_MAX_PRIORITY: Final = 10**9
"""The highest priority of classes that users may create."""

_MAX_CANDIDATES: Final = 4
"""Pools, or PriorityClasses, that are tried at most."""


class Reduction(msgspec.Struct, frozen=True, eq=False):
    """One way to make a workload smaller: from `size` pods of a role down to `least`.

    `fields` returns the fields to edit for a number of pods, `world` the world after that edit.
    """

    role: str
    size: int
    least: int
    fields: Callable[[int], FieldValues]
    world: Callable[[int], World]


def find_fewer_pods(search: ChangeSearch) -> Change | None:
    """The largest number of pods with which the job would run."""
    if search.whole:
        return None
    unplaced = len(search.estimator.unplaced(search.workload.pool))
    tried = _reductions(search.world, search.loose_pods, search.workload)
    searched = [(reduction, _smallest_reduction(search, reduction, unplaced)) for reduction in tried]
    found = [(reduction, *result) for reduction, result in searched if result]
    return _fewer_pods(*min(found, key=lambda one: one[1])) if found else None


def _smallest_reduction(
    search: ChangeSearch, reduction: Reduction, guess: int
) -> tuple[int, TrialResult] | None:
    """By how many pods the job has to be reduced at least."""
    return find_smallest(
        lambda fewer: search.planner.run(reduction.world(reduction.size - fewer)),
        1,
        reduction.size - reduction.least,
        guess,
    )


def _fewer_pods(reduction: Reduction, fewer: int, result: TrialResult) -> Change:
    count = reduction.size - fewer
    fields = reduction.fields(count)
    written = ", ".join(f"{path}: {number}" for path, number in fields.items())
    pods = f"{count} of {pluralize(reduction.size, reduction.role)}"
    return Change(
        dimension="fewer",
        text=f"with {pods} ({written}){describe_effects(result)}",
        role=reduction.role,
        count=count,
        of=reduction.size,
        set=fields,
        **result_fields(result),
    )


def _reductions(world: World, loose_pods: LoosePods, workload: Workload) -> list[Reduction]:
    """All ways to make a workload smaller."""
    if workload.kind in world.jobs:
        found = _job_reductions(world, workload)
    else:
        found = _gang_reductions(world, loose_pods, workload)
    return [reduction for reduction in found if reduction.least < reduction.size]


def _job_reductions(world: World, workload: Workload) -> Iterator[Reduction]:
    for one in job_kinds()[workload.kind].relaxations(edits.job_of(world, workload)):
        yield Reduction(one.role, one.size, one.least, one.fields, partial(_relax, world, one))


def _relax(world: World, relaxation: Relaxation[Any], count: int) -> World:
    return edits.with_job(world, relaxation.job(count))


def _gang_reductions(world: World, loose_pods: LoosePods, workload: Workload) -> Iterator[Reduction]:
    if workload.kind == "Gang":
        yield Reduction(
            "pod",
            workload.minimum,
            1,
            lambda n: {f"metadata.annotations[{GANG_MIN}]": n},
            lambda n: edits.with_gang_min(world, loose_pods, workload, n),
        )


def find_pool(search: ChangeSearch) -> Change | None:
    """Another home pool in which the job would run: placed at once, then fewest evictions, then by name."""
    found: list[tuple[bool, int, str, TrialResult]] = []
    for name in _other_pools(search)[:_MAX_CANDIDATES]:
        world = edits.with_pool(search.world, search.loose_pods, search.workload, name)
        result = search.planner.run(world)
        if result:
            found.append((not result.placed, len(result.evicts), name, result))
            if result.placed and not result.evicts:
                break
    if not found:
        return None
    _, _, name, result = min(found, key=lambda one: one[:3])
    return Change(
        dimension="pool",
        text=f"in pool {name}, if that were its home{describe_effects(result)}",
        pool=name,
        **result_fields(result),
    )


def _other_pools(search: ChangeSearch) -> list[str]:
    """Pools with nodes that the job's namespace may use, those with room for the job first."""
    membership, workload = PoolMembership(search.world.pools), search.workload
    namespace = search.world.namespaces.get(workload.namespace)
    labels = namespace.metadata.labels if namespace else {}
    allowed = [
        number
        for number, pool in enumerate(search.snapshot.pools)
        if number != workload.pool and len(pool.span)
        if not membership.home(pool.name, workload.namespace, labels)[1]
    ]
    ordered = sorted(allowed, key=lambda number: not search.estimator.fits(number))
    return [search.snapshot.pools[number].name for number in ordered]


def find_priority(search: ChangeSearch) -> Change | None:
    """The lowest priority with which the job would run, and an existing PriorityClass that is sufficient."""
    values = _priority_thresholds(search)
    found = find_smallest(lambda index: _run_at_priority(search, values[index]), 0, len(values) - 1, 0)
    if found is None:
        return None
    value, result = values[found[0]], found[1]
    existing = next(_sufficient_classes(search, value), None)
    hint = f" (PriorityClass {existing.metadata.name} has {existing.value})" if existing else ""
    return Change(
        dimension="priority",
        text=f"at priority {value}{hint}{describe_effects(result)}",
        priority=value,
        priority_class=existing.metadata.name if existing else None,
        priority_class_value=existing.value if existing else None,
        **result_fields(result),
    )


def _priority_thresholds(search: ChangeSearch) -> list[int]:
    """Priorities that make a difference, ascending.

    At the priority of another workload the job may be served before it; at one more it may evict it.
    """
    others = {workload.priority for workload in search.snapshot.workloads if workload is not search.workload}
    values = {value for other in others for value in (other, other + 1)}
    return sorted(value for value in values if search.workload.priority < value <= _MAX_PRIORITY)


def _run_at_priority(search: ChangeSearch, value: int) -> TrialResult | None:
    """Try a priority by means of a new PriorityClass."""
    name, world = edits.with_new_priority_class(search.world, value)
    return search.planner.run(edits.with_priority_class(world, search.loose_pods, search.workload, name))


def _sufficient_classes(search: ChangeSearch, least: int) -> Iterator[PriorityClass]:
    """Existing classes with which the job would run, the lowest first."""
    classes = [one for one in search.world.priority_classes.values() if least <= one.value <= _MAX_PRIORITY]
    for one in sorted(classes, key=lambda one: (one.value, one.metadata.name))[:_MAX_CANDIDATES]:
        name = one.metadata.name
        if search.planner.run(
            edits.with_priority_class(search.world, search.loose_pods, search.workload, name)
        ):
            yield one
