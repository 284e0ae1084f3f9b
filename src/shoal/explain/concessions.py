"""Concessions: what a job itself could ask for differently: fewer pods, another pool, a higher priority."""

from collections.abc import Iterator
from typing import Final

from shoal.api.core import PriorityClass
from shoal.api.fields import pluralize
from shoal.cache.pool_membership import PoolMembership
from shoal.explain import edits
from shoal.explain.reductions import Reduction, reductions
from shoal.explain.trials import Case, Change, Success, consequences, outcome, smallest

_HIGHEST: Final = 10**9
"""The highest priority that users may give."""

_FEW: Final = 4
"""How many candidates are planned before a search gives up."""


def fewer(case: Case) -> Change | None:
    """The most instances with which it would run."""
    if case.whole:
        return None
    unplaced = len(case.whatif.rest(case.workload.pool))
    tried = reductions(case.world, case.loose, case.workload)
    searched = [(reduction, _fewest_less(case, reduction, unplaced)) for reduction in tried]
    found = [(reduction, *result) for reduction, result in searched if result]
    return _smaller(*min(found, key=lambda one: one[1])) if found else None


def _smaller(reduction: Reduction, less: int, success: Success) -> Change:
    count = reduction.size - less
    fields = reduction.fields(count)
    written = ", ".join(f"{path}: {number}" for path, number in fields.items())
    return Change(
        dimension="fewer",
        text=f"with {count} of {pluralize(reduction.size, reduction.role)} ({written}){consequences(success)}",
        role=reduction.role,
        count=count,
        of=reduction.size,
        set=fields,
        **outcome(success),
    )


def _fewest_less(case: Case, reduction: Reduction, guess: int) -> tuple[int, Success] | None:
    """How few instances less are enough."""
    return smallest(
        lambda less: case.trials.run(reduction.world(reduction.size - less)),
        1,
        reduction.size - reduction.least,
        guess,
    )


def pool(case: Case) -> Change | None:
    """Another pool in which it would run, if that were its home: best where nobody has to leave."""
    found: list[tuple[bool, int, str, Success]] = []
    for name in _other_pools(case)[:_FEW]:
        success = case.trials.run(edits.with_pool(case.world, case.loose, case.workload, name))
        if success:
            found.append((not success.placed, len(success.evicts), name, success))
            if success.placed and not success.evicts:
                break
    if not found:
        return None
    _, _, name, success = min(found, key=lambda one: one[:3])
    return Change(
        dimension="pool",
        text=f"in pool {name}, if that were its home{consequences(success)}",
        pool=name,
        **outcome(success),
    )


def _other_pools(case: Case) -> list[str]:
    """Pools that may be its home, those with room for it first."""
    membership, meta = PoolMembership(case.world.pools), case.workload
    namespace = case.world.namespaces.get(meta.namespace)
    labels = namespace.metadata.labels if namespace else {}
    open_ = [
        number
        for number, pool in enumerate(case.snapshot.pools)
        if number != meta.pool and len(pool.span)
        if not membership.home(pool.name, meta.namespace, labels)[1]
    ]
    ordered = sorted(open_, key=lambda number: not case.whatif.fits(number))
    return [case.snapshot.pools[number].name for number in ordered]


def priority(case: Case) -> Change | None:
    """The lowest priority with which it would run, and a PriorityClass that has it or more."""
    values = _thresholds(case)
    found = smallest(lambda index: _at(case, values[index]), 0, len(values) - 1, 0)
    if found is None:
        return None
    value, success = values[found[0]], found[1]
    named = next(_classes(case, value), None)
    hint = f" (PriorityClass {named.metadata.name} has {named.value})" if named else ""
    return Change(
        dimension="priority",
        text=f"at priority {value}{hint}{consequences(success)}",
        priority=value,
        priority_class=named.metadata.name if named else None,
        priority_class_value=named.value if named else None,
        **outcome(success),
    )


def _thresholds(case: Case) -> list[int]:
    """Priorities that make a difference: as high as somebody's, to be before them, and one more, to evict."""
    others = {workload.priority for workload in case.snapshot.workloads if workload is not case.workload}
    steps = {value for other in others for value in (other, other + 1)}
    return sorted(value for value in steps if case.workload.priority < value <= _HIGHEST)


def _at(case: Case, value: int) -> Success | None:
    """What it gets at a priority, by a class that there is or one that would be made."""
    name, world = edits.with_new_class(case.world, value)
    return case.trials.run(edits.with_class(world, case.loose, case.workload, name))


def _classes(case: Case, least: int) -> Iterator[PriorityClass]:
    """Existing classes that will do, the lowest first."""
    known = case.world.priority_classes.values()
    enough = [one for one in known if least <= one.value <= _HIGHEST]
    for one in sorted(enough, key=lambda one: (one.value, one.metadata.name))[:_FEW]:
        if case.trials.run(edits.with_class(case.world, case.loose, case.workload, one.metadata.name)):
            yield one
