"""PodDisruptionBudgets for the engine: how many pods of each may be evicted now."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from shoal.api.core import PodDisruptionBudget
from shoal.cache.changes import Key
from shoal.engine.affinity import Occupant
from shoal.engine.snapshot import Budget
from shoal.engine.workload import AffinityTerm


class _Count(msgspec.Struct, eq=False):
    """A budget without `status.disruptionsAllowed`, and the number of its pods on nodes."""

    budget: PodDisruptionBudget
    term: AffinityTerm
    healthy: int = 0

    def count(self, occupants: Iterable[Occupant], change: int) -> None:
        there = sum(not one.terminating and self.term.matches(one.identity) for one in occupants)
        self.healthy += there * change


class DisruptionBudgets:
    """What every budget allows: by its status, else computed from its pods on nodes."""

    def __init__(self) -> None:
        """Start without budgets."""
        self._from_status: dict[Key, Budget] = {}
        self._counts: dict[Key, _Count] = {}

    def update(
        self,
        keys: Iterable[Key],
        budgets: Mapping[Key, PodDisruptionBudget],
        occupants: Callable[[], Iterable[Occupant]],
    ) -> None:
        """Apply changed budgets; `occupants` returns all pods on nodes."""
        for key in keys:
            self._from_status.pop(key, None)
            self._counts.pop(key, None)
            if key in budgets:
                self._add(key, budgets[key], occupants)

    def count(self, occupants: Iterable[Occupant], change: int) -> None:
        """Count pods that were added to nodes (`change` 1) or removed (-1)."""
        for counted in self._counts.values():
            counted.count(occupants, change)

    def budgets(self) -> tuple[Budget, ...]:
        """All budgets, ordered by namespace and name."""
        found = self._from_status | {
            key: Budget(one.term, _allowed(one)) for key, one in self._counts.items()
        }
        return tuple(found[key] for key in sorted(found))

    def _add(
        self, key: Key, budget: PodDisruptionBudget, occupants: Callable[[], Iterable[Occupant]]
    ) -> None:
        term = AffinityTerm("", budget.spec.selector, frozenset([key[0]]))
        allowed = budget.status.disruptions_allowed
        if allowed is not None:
            self._from_status[key] = Budget(term, allowed)
            return
        self._counts[key] = _Count(budget, term)
        self._counts[key].count(occupants(), 1)


def _allowed(counted: _Count) -> int:
    spec, healthy = counted.budget.spec, counted.healthy
    if spec.max_unavailable is not None:
        return _amount(spec.max_unavailable, healthy)
    return max(healthy - _amount(spec.min_available or 0, healthy), 0)


def _amount(amount: int | str, of: int) -> int:
    """A number, or a percentage of pods, rounded up."""
    return -(-int(amount[:-1]) * of // 100) if isinstance(amount, str) else amount
