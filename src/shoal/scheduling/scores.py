"""Scores: which of the nodes that fit is best, by the job's placement policy.

Scores are floats, for speed; where the best ones lie too close together for floats to tell, they are
worked out again as exact fractions. So the choice is that of exact arithmetic, ties going to the node
whose name comes first.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.api.podspec import is_gpu
from shoal.scheduling.filters import Filters
from shoal.scheduling.ledger import Demand, Ledger, Scores
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.resources import CPU, MEMORY
from shoal.scheduling.workload import NOWHERE, PlacementPolicy, Task

Company = npt.NDArray[np.int64]
"""How many pods of a job each node has."""

_CLOSE: Final = 1e-9


class Score(ABC):
    """A way to rate nodes for a task; higher is better.

    `settles`: a node that was best stays best while more of the same is put on it.
    """

    settles: bool

    @abstractmethod
    def rate(self, ledger: Ledger, demand: Demand, span: Span) -> Scores:
        """Rate the nodes of a span with the task on them."""

    @abstractmethod
    def exactly(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """Rate one node without error."""


class Fullness(Score):
    """Weighted mean use of a node's resources; fuller is better, or emptier."""

    def __init__(
        self, heavy: Callable[[str], bool] = lambda _: False, weight: int = 1, *, fuller: bool = True
    ) -> None:
        """`heavy` resources count `weight` times."""
        self._weights = functools.lru_cache(maxsize=8)(lambda layout: layout.weights(heavy, weight))
        self._sign = 1 if fuller else -1
        self.settles = fuller

    def rate(self, ledger: Ledger, demand: Demand, span: Span) -> Scores:
        """See `Score`."""
        load, share = ledger.loads(self._weights(ledger.nodes.layout))
        rates: Scores = load[span.columns] + demand.floats @ share[:, span.columns]
        return rates if self._sign > 0 else -rates

    def exactly(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """See `Score`."""
        total, sum_of_uses = 0, Fraction(0)
        for row, weight in enumerate(self._weights(ledger.nodes.layout)):
            if weight and ledger.nodes.alloc[row, column]:
                total += weight
                sum_of_uses += weight * ledger.exact_use(column, row, int(demand.vector[row]))
        return self._sign * sum_of_uses / max(total, 1)


class Balance(Score):
    """How alike the use of CPU and of memory is: little difference leaves few fragments."""

    settles = False

    def rate(self, ledger: Ledger, demand: Demand, span: Span) -> Scores:
        """See `Score`."""
        cpu, memory = (
            self._use(ledger, demand, ledger.nodes.layout.rows[name], span) for name in (CPU, MEMORY)
        )
        rates: Scores = 1.0 - np.abs(cpu - memory)
        return rates

    def exactly(self, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        """See `Score`."""
        cpu, memory = (
            ledger.exact_use(column, row, int(demand.vector[row]))
            for row in (ledger.nodes.layout.rows[name] for name in (CPU, MEMORY))
        )
        return 1 - abs(cpu - memory)

    @staticmethod
    def _use(ledger: Ledger, demand: Demand, row: int, span: Span) -> Scores:
        alloc = ledger.nodes.alloc[row, span.columns]
        use = ledger.used[row, span.columns] + demand.vector[row]
        fractions: Scores = np.divide(use, alloc, out=np.zeros(len(alloc)), where=alloc > 0)
        return fractions


_FULLEST: Final = Fullness()
_EMPTIEST: Final = Fullness(fuller=False)
_LEADERS: Final = Fullness(is_gpu, 4, fuller=False)
_WORKERS: Final = Fullness(CPU.__eq__, 4)
_BALANCE: Final = Balance()


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


def company_sign(policy: PlacementPolicy) -> int:
    """Whether nodes with more of the job's pods come first (1), last (-1), or it does not matter (0)."""
    return {"JobAffinity": 1, "JobAntiAffinity": -1}.get(policy, 0)


class Chooser:
    """Chooses nodes for tasks that are alike, one after another.

    `company` has the number of the job's pods on each node of the span, and is kept up to date.
    """

    def __init__(
        self, filters: Filters, span: Span, task: Task, policy: PlacementPolicy, company: Company
    ) -> None:
        """Rate every node of the span once."""
        self._filters, self._ledger, self._span, self._task = filters, filters.ledger, span, task
        self._demand = self._ledger.demand(task.shape)
        self._score = score_for(policy, task)
        self._company, self._sign = company, company_sign(policy)
        self._rates = self._rate_all()
        self._stale = NOWHERE

    def choose(self) -> int:
        """The column of the best node, or NOWHERE."""
        self._refresh()
        rates = self._preferred()
        index = int(rates.argmax()) if len(rates) else 0
        if not len(rates) or rates[index] == -np.inf:
            return NOWHERE
        close = np.flatnonzero(rates >= rates[index] - _CLOSE * max(1.0, abs(rates[index])))
        return self._span.start + (index if len(close) == 1 else self._first_best(close))

    def put(self, column: int, most: int) -> int:
        """Put as many of the tasks on a node as would go there one after another; how many."""
        settles = self._score.settles and self._ledger.neighbours is None
        count = min(most, self._ledger.times(self._demand, column)) if settles else 1
        self._ledger.add(Occupant(column, self._task.shape, self._task.identity), count)
        self._company[column - self._span.start] += count
        self._stale = column
        return count

    def _rate_all(self) -> Scores:
        fits = self._filters.fitting(self._task, self._span)
        if not fits.any():
            return np.full(len(fits), -np.inf)
        return np.where(fits, self._score.rate(self._ledger, self._demand, self._span), -np.inf)

    def _refresh(self) -> None:
        """Rate again what has changed: the node that took a task; all, if tasks mind each other."""
        column, self._stale = self._stale, NOWHERE
        if column == NOWHERE:
            return
        if self._ledger.neighbours is not None:
            self._rates = self._rate_all()
            return
        fits = self._ledger.times(self._demand, column) > 0
        rate = self._score.rate(self._ledger, self._demand, Span(column, column + 1))[0]
        self._rates[column - self._span.start] = rate if fits else -np.inf

    def _preferred(self) -> Scores:
        """The rates of the nodes with the most, or the fewest, of the job's pods, where that matters."""
        if not self._sign:
            return self._rates
        fits = self._rates > -np.inf
        if not fits.any():
            return self._rates
        company = self._sign * self._company
        return np.where(fits & (company == company[fits].max()), self._rates, -np.inf)

    def _first_best(self, close: npt.NDArray[np.intp]) -> int:
        """The first of the exactly best; nodes alike in every amount are rated once."""
        winner, top = 0, None
        alloc, used = (
            self._ledger.nodes.alloc[:, self._span.columns],
            self._ledger.used[:, self._span.columns],
        )
        while len(close):
            index = int(close[0])
            rate = self._score.exactly(self._ledger, self._demand, self._span.start + index)
            if top is None or rate > top:
                winner, top = index, rate
            alike = (alloc[:, close] == alloc[:, [index]]) & (used[:, close] == used[:, [index]])
            close = close[~alike.all(axis=0)]
        return winner
