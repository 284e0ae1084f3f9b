"""PodDisruptionBudgets: the evictions they still allow, and which pods would violate them."""

import math
from dataclasses import dataclass
from typing import Any

from tests.reference.model import PodOnNode, Task
from tests.reference.objects import Input, namespace
from tests.reference.selectors import selects

Object = dict[str, Any]


@dataclass
class Budget:
    """A PodDisruptionBudget, and the number of evictions that it still allows."""

    namespace: str
    selector: Object | None
    left: int

    def matches(self, pod: Task | PodOnNode) -> bool:
        return pod.namespace == self.namespace and selects(self.selector, pod.labels)


def budgets(world: Input, pods_on_nodes: list[PodOnNode]) -> list[Budget]:
    found = []
    for one in world.of_kind("PodDisruptionBudget"):
        budget = Budget(namespace(one), one["spec"].get("selector"), 0)
        healthy = sum(budget.matches(pod) and not pod.terminating for pod in pods_on_nodes)
        written = (one.get("status") or {}).get("disruptionsAllowed")
        budget.left = max(0, _computed(one["spec"], healthy) if written is None else int(written))
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


def violating(limits: list[Budget], tasks: list[Task]) -> set[Task]:
    """The tasks whose eviction violates a budget, if they are evicted in this order."""
    left = [one.left for one in limits]
    found = set()
    for task in tasks:
        for number, one in enumerate(limits):
            if one.matches(task):
                if left[number] <= 0:
                    found.add(task)
                left[number] -= 1
    return found


def spend(limits: list[Budget], task: Task) -> None:
    for one in limits:
        if one.matches(task):
            one.left -= 1
