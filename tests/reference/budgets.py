"""PodDisruptionBudgets: how many evictions are left of them, and whom one more would violate."""

import math
from dataclasses import dataclass
from typing import Any

from tests.reference.model import Standing, Task
from tests.reference.objects import Input, namespace
from tests.reference.selectors import selects

Object = dict[str, Any]


@dataclass
class Budget:
    """A PodDisruptionBudget, and how many evictions are left of it."""

    namespace: str
    selector: Object | None
    left: int

    def guards(self, pod: Task | Standing) -> bool:
        return pod.namespace == self.namespace and selects(self.selector, pod.labels)


def budgets(world: Input, standing: list[Standing]) -> list[Budget]:
    found = []
    for one in world.of_kind("PodDisruptionBudget"):
        budget = Budget(namespace(one), one["spec"].get("selector"), 0)
        healthy = sum(budget.guards(pod) and not pod.terminating for pod in standing)
        said = (one.get("status") or {}).get("disruptionsAllowed")
        budget.left = max(0, _computed(one["spec"], healthy) if said is None else int(said))
        found.append(budget)
    return found


def _computed(spec: Object, healthy: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return _count(spec["maxUnavailable"], healthy)
    return healthy - _count(spec.get("minAvailable", 1), healthy)


def _count(written: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    text = str(written)
    return math.ceil(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)


def violating(guards: list[Budget], tasks: list[Task]) -> set[Task]:
    """Those for which a budget has nothing left, when they go in this order."""
    left = [one.left for one in guards]
    found = set()
    for task in tasks:
        for number, one in enumerate(guards):
            if one.guards(task):
                if left[number] <= 0:
                    found.add(task)
                left[number] -= 1
    return found


def spend(guards: list[Budget], task: Task) -> None:
    for one in guards:
        if one.guards(task):
            one.left -= 1
