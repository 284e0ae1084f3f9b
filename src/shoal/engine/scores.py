"""Node scores of the placement policies.

Each score is available as floats for all nodes at once, and exactly, as a fraction, for one node: floats find
the candidates, fractions decide between them (see `ranking`). A new placement policy is a row of the table at
the end, and a name in `workload.PlacementPolicy`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np

from shoal.api.podspec import is_gpu
from shoal.engine.layout import ResourceLayout
from shoal.engine.ledger import Demand, Ledger, Scores
from shoal.engine.nodes import NodeSpan
from shoal.engine.resources import CPU, MEMORY
from shoal.engine.workload import PlacementPolicy, Task


class Score(ABC):
    """Scores nodes for a task; a higher score is better.

    `stays_best`: the best node stays the best while more equal tasks are put on it, as long as they fit.
    """

    stays_best: bool

    @abstractmethod
    def score_nodes(self, ledger: Ledger, demand: Demand, span: NodeSpan) -> Scores:
        """The scores of a span's nodes, with the task on them."""

    @abstractmethod
    def rows(self, layout: ResourceLayout) -> list[int]:
        """The rows of the resources that count."""

    @abstractmethod
    def exact_score(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """The exact score of one node, with the task on it."""


class AllocationScore(Score):
    """The weighted mean utilisation of a node's resources: the most allocated node first, or the least."""

    def __init__(
        self, heavy: Callable[[str], bool] = lambda _: False, weight: int = 1, *, most: bool = True
    ) -> None:
        """Prefer the most allocated node, or the least; resources that are `heavy` have this weight."""
        self._heavy, self._weight = heavy, weight
        self._sign = 1 if most else -1
        self.stays_best = most

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
    """Balanced allocation: the smaller the difference between CPU and memory utilisation, the better.

    Balanced nodes leave fewer fragments that no pod fits.
    """

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


class PolicyScores(msgspec.Struct, frozen=True, eq=False):
    """How a placement policy scores nodes.

    `leader` applies to the task that leads, `worker` to all others. `siblings`: nodes with more pods of the
    same job come first (1), last (-1), or their number does not count (0); it precedes the score.
    """

    leader: Score
    worker: Score
    siblings: int = 0


_MOST_ALLOCATED: Final = AllocationScore()
_LEAST_ALLOCATED: Final = AllocationScore(most=False)
_BALANCED: Final = BalancedAllocationScore()
_BIN_PACK: Final = PolicyScores(_MOST_ALLOCATED, _MOST_ALLOCATED)

_POLICIES: Final[Mapping[PlacementPolicy, PolicyScores]] = {
    "Gang": _BIN_PACK,
    "BinPack": _BIN_PACK,
    "LeaderFirst": PolicyScores(
        leader=AllocationScore(is_gpu, 4, most=False),
        worker=AllocationScore(lambda name: name == CPU, 4),
    ),
    "MinFragment": PolicyScores(_BALANCED, _BALANCED),
    "JobAffinity": PolicyScores(_MOST_ALLOCATED, _MOST_ALLOCATED, siblings=1),
    "JobAntiAffinity": PolicyScores(_LEAST_ALLOCATED, _LEAST_ALLOCATED, siblings=-1),
}
"""The scores of every placement policy: a new policy is a row here, and a Score if it needs a new one."""


def score_for(policy: PlacementPolicy, task: Task) -> Score:
    """The score by which a policy rates nodes for a task, among nodes with equally many siblings."""
    scores = _POLICIES[policy]
    return scores.leader if task.leads else scores.worker


def sibling_sign(policy: PlacementPolicy) -> int:
    """Whether nodes with more pods of the job come first (1), last (-1), or it does not matter (0)."""
    return _POLICIES[policy].siblings
