"""Disruption budgets: a new one allows nothing until somebody has counted."""

from shoal.cluster.resources import Object


def default(budget: Object) -> None:
    """Fill in what a user left out of a budget."""
    budget.setdefault("spec", {})


def begin(budget: Object) -> None:
    """Nothing is counted yet."""
    budget["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
