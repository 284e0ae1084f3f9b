"""Filters: which nodes can take a task, and why the others cannot."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from shoal.engine.affinity import InterPodRules
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import Mask, NodeSpan
from shoal.engine.ranking import NodeRanking
from shoal.engine.resources import format_amount
from shoal.engine.scores import Score
from shoal.engine.workload import NodeRules, Shape, Task

_MOST_RANKINGS: Final = 64
"""So many rankings are kept: each takes a few bytes a node."""


class Filters:
    """Every filter over one ledger; what depends on labels and taints alone is worked out once.

    With `ever`, what passes is overlooked (readiness, cordons, taints of a node's state): so it is asked
    whether a node could take a task at all.
    """

    def __init__(self, ledger: Ledger, *, ignore_transient: bool = False) -> None:
        """Filter what the ledger leaves."""
        self.ledger = ledger
        self._ignore_transient = ignore_transient
        self._known: dict[NodeRules, tuple[Mask, list[tuple[str, Mask]]]] = {}
        self._rankings: dict[tuple[Shape, NodeSpan, Score], NodeRanking] = {}

    def fitting(self, task: Task, span: NodeSpan) -> Mask:
        """Nodes of a span that can take a task now."""
        return self.ledger.fitting(self.ledger.demand(task.shape), span) & self.allowed(task, span)

    def allowed(self, task: Task, span: NodeSpan) -> Mask:
        """Nodes of a span that can take a task now, if only they have room."""
        allowed = self._suitable(task.shape.nodes)[0][span.columns]
        for _, mask in self._neighbour_rules(task, span):
            allowed = allowed & mask
        return allowed

    def ranking(self, task: Task, span: NodeSpan, score: Score) -> NodeRanking:
        """The nodes of a span by a score, for all tasks of a shape; none of them may mind neighbours.

        The rankings that were asked for last are kept.
        """
        key = task.shape, span, score
        known = self._rankings.pop(key, None)
        if known is None:
            allowed = self.suitable(task)[span.columns]
            known = NodeRanking(self.ledger, self.ledger.demand(task.shape), span, score, allowed)
            if len(self._rankings) >= _MOST_RANKINGS:
                del self._rankings[next(iter(self._rankings))]
        self._rankings[key] = known
        return known

    def has_inter_pod_rules(self, task: Task) -> bool:
        """Whether it matters to a task, or to those who are there, who its neighbours are."""
        return bool(self._concerned(task))

    def fits_on(self, task: Task, column: int, span: NodeSpan) -> bool:
        """Whether one node of a span can take a task now."""
        if task.shape.spread:
            return bool(self.fitting(task, span)[column - span.start])
        return bool(self.fitting(task, NodeSpan(column, column + 1))[0])

    def suitable(self, task: Task) -> Mask:
        """All nodes that labels and taints leave open to a task, whatever room they have."""
        return self._suitable(task.shape.nodes)[0]

    def describe_misfit(self, task: Task, span: NodeSpan) -> str:
        """Why no node of a span can take a task, in one line: how many lack what, and which is nearest."""
        nodes = len(span)
        if not nodes:
            return "the pool has no nodes"
        left = np.ones(nodes, dtype=bool)
        counts: Counter[str] = Counter()
        for reason, mask in self.rules(task, span):
            counts[reason] += int(np.count_nonzero(left & ~mask))
            left &= mask
        nearest = self._count_shortages(task, span, left, counts)
        parts = ", ".join(f"{number} {reason}" for reason, number in counts.items() if number)
        return f"0/{nodes} nodes fit: {parts}{nearest}"

    def rules(self, task: Task, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """Each rule but that of room, in words, with the nodes of a span that it leaves open to a task."""
        for reason, mask in self._suitable(task.shape.nodes)[1]:
            yield reason, mask[span.columns]
        yield from self._neighbour_rules(task, span)

    def _neighbour_rules(self, task: Task, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """The rules about who is there; who is still to come keeps others away, and nothing more."""
        for inter_pod in self._concerned(task):
            find = inter_pod.rules if inter_pod is self.ledger.inter_pod else inter_pod.exclusions
            yield from find(task.shape, task.identity, span)

    def _concerned(self, task: Task) -> list[InterPodRules]:
        """Those who are there, and those who are to come, if they and a task may mind each other."""
        ledger = self.ledger
        return [
            n
            for n in (ledger.inter_pod, ledger.inter_pod_nominated)
            if n and n.apply_to(task.shape, task.identity)
        ]

    def _suitable(self, rules: NodeRules) -> tuple[Mask, list[tuple[str, Mask]]]:
        """Nodes that labels and taints leave open, and each rule with those that it does."""
        if rules not in self._known:
            parts = list(self._node_rules(rules))
            self._known[rules] = np.logical_and.reduce([mask for _, mask in parts]), parts
        return self._known[rules]

    def _node_rules(self, rules: NodeRules) -> Iterator[tuple[str, Mask]]:
        nodes = self.ledger.nodes
        if not self._ignore_transient:
            yield "not ready", nodes.ready
            yield "cordoned", nodes.schedulable
        yield "outside its node selector or affinity", nodes.selected(rules)
        yield (
            "with a taint it does not tolerate",
            nodes.tolerated(rules, ignore_transient=self._ignore_transient),
        )

    def _count_shortages(self, task: Task, span: NodeSpan, left: Mask, counts: Counter[str]) -> str:
        """Count the nodes short of each resource; tell which node lacks the least."""
        demand, names = self.ledger.demand(task.shape), self.ledger.nodes.layout.names
        lacking = np.where(left, 0.0, np.inf)
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            room = self.ledger.room[row, span.columns]
            counts[f"short of {names[row]}"] = int(np.count_nonzero(left & (room < amount)))
            lacking += np.maximum(amount - room, 0) / amount
        column = span.start + int(lacking.argmin())
        if not left.any():
            return ""
        short = {
            row: n - int(self.ledger.room[row, column])
            for row, n in zip(demand.rows, demand.amounts, strict=True)
        }
        lacks = [f"{format_amount(names[row], lack)} {names[row]}" for row, lack in short.items() if lack > 0]
        return f"; nearest is {self.ledger.nodes.names[column]}, which lacks {' and '.join(lacks)}"
