"""Scores: how good each node is for a task, by the job's placement policy.

Every score can be had twice: as floats for all nodes at once, and exactly for one node.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from shoal.api.podspec import is_gpu
from shoal.engine.ledger import Demand, Ledger, Scores
from shoal.engine.nodes import NodeSpan
from shoal.engine.resources import CPU, MEMORY, ResourceLayout
from shoal.engine.workload import PlacementPolicy, Task


class Score(ABC):
    """A way to rate nodes for a task; higher is better.

    `settles`: a node that was best stays best while more of the same is put on it.
    """

    stays_best: bool

    @abstractmethod
    def score_nodes(self, ledger: Ledger, demand: Demand, span: NodeSpan) -> Scores:
        """Rate the nodes of a span with the task on them."""

    @abstractmethod
    def rows(self, layout: ResourceLayout) -> list[int]:
        """The resources that count."""

    @abstractmethod
    def exact_score(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """Rate one node without error."""


class AllocationScore(Score):
    """Weighted mean use of a node's resources; fuller is better, or emptier."""

    def __init__(
        self, heavy: Callable[[str], bool] = lambda _: False, weight: int = 1, *, fuller: bool = True
    ) -> None:
        """`heavy` resources count `weight` times."""
        self._heavy, self._weight = heavy, weight
        self._sign = 1 if fuller else -1
        self.stays_best = fuller

    def score_nodes(self, ledger: Ledger, demand: Demand, span: NodeSpan) -> Scores:
        """See `Score`."""
        load, share = ledger.loads(self._weights(ledger.nodes.layout))
        rates: Scores = load[span.columns] + demand.floats @ share[:, span.columns]
        return rates if self._sign > 0 else -rates

    def rows(self, layout: ResourceLayout) -> list[int]:
        """See `Score`."""
        return [row for row, weight in enumerate(self._weights(layout)) if weight]

    def exact_score(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """See `Score`."""
        total, sum_of_uses = 0, Fraction(0)
        for row, weight in enumerate(self._weights(ledger.nodes.layout)):
            if weight and ledger.nodes.alloc[row, column]:
                total += weight
                sum_of_uses += weight * ledger.exact_use(column, row, int(demand.vector[row]))
        return self._sign * sum_of_uses / max(total, 1)

    def _weights(self, layout: ResourceLayout) -> tuple[int, ...]:
        return layout.weights(self._heavy, self._weight)


class BalancedAllocationScore(Score):
    """How alike the use of CPU and of memory is: little difference leaves few fragments."""

    stays_best = False

    def rows(self, layout: ResourceLayout) -> list[int]:
        """See `Score`."""
        return [layout.rows[CPU], layout.rows[MEMORY]]

    def score_nodes(self, ledger: Ledger, demand: Demand, span: NodeSpan) -> Scores:
        """See `Score`."""
        cpu, memory = (self._use(ledger, demand, row, span) for row in self.rows(ledger.nodes.layout))
        rates: Scores = 1.0 - np.abs(cpu - memory)
        return rates

    def exact_score(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """See `Score`."""
        cpu, memory = (
            ledger.exact_use(column, row, int(demand.vector[row])) for row in self.rows(ledger.nodes.layout)
        )
        return 1 - abs(cpu - memory)

    @staticmethod
    def _use(ledger: Ledger, demand: Demand, row: int, span: NodeSpan) -> Scores:
        alloc = ledger.nodes.alloc[row, span.columns]
        use = ledger.used[row, span.columns] + demand.vector[row]
        fractions: Scores = np.divide(use, alloc, out=np.zeros(len(alloc)), where=alloc > 0)
        return fractions


_FULLEST: Final = AllocationScore()
_EMPTIEST: Final = AllocationScore(fuller=False)
_LEADERS: Final = AllocationScore(is_gpu, 4, fuller=False)
_WORKERS: Final = AllocationScore(lambda name: name == CPU, 4)
_BALANCE: Final = BalancedAllocationScore()


def score_for(policy: PlacementPolicy, task: Task) -> Score:
    """How a policy rates nodes for a task; if it counts the job's pods, among nodes with equally many."""
    match policy:
        case "LeaderFirst":
            return _LEADERS if task.leads else _WORKERS
        case "MinFragment":
            return _BALANCE
        case "JobAntiAffinity":
            return _EMPTIEST
        case _:
            return _FULLEST


def sibling_sign(policy: PlacementPolicy) -> int:
    """Whether nodes with more of the job's pods come first (1), last (-1), or it does not matter (0)."""
    return {"JobAffinity": 1, "JobAntiAffinity": -1}.get(policy, 0)
