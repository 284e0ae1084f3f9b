"""PodDisruptionBudgets as budgets: how many pods of each may go now."""

from collections.abc import Iterable, Sequence

from shoal.api.core import PodDisruptionBudget
from shoal.scheduling.budgets import Budget
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.shape import NeighbourTerm


def budgets(found: Iterable[PodDisruptionBudget], occupants: Sequence[Occupant]) -> tuple[Budget, ...]:
    """What every budget allows: what its status says, else what its pods that are there allow."""
    return tuple(_budget(budget, occupants) for budget in found)


def _budget(budget: PodDisruptionBudget, occupants: Sequence[Occupant]) -> Budget:
    term = NeighbourTerm("", budget.spec.selector, frozenset([budget.metadata.namespace]))
    said = budget.status.disruptions_allowed
    return Budget(term, _allowed(budget, term, occupants) if said is None else said)


def _allowed(budget: PodDisruptionBudget, term: NeighbourTerm, occupants: Sequence[Occupant]) -> int:
    healthy = sum(not occupant.leaving and term.matches(occupant.identity) for occupant in occupants)
    spec = budget.spec
    if spec.max_unavailable is not None:
        return _amount(spec.max_unavailable, healthy)
    return max(healthy - _amount(spec.min_available or 0, healthy), 0)


def _amount(amount: int | str, of: int) -> int:
    """A number, or a percentage of pods, rounded up."""
    return -(-int(amount[:-1]) * of // 100) if isinstance(amount, str) else amount
