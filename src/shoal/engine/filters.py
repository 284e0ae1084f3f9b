"""Filters: the nodes that can take a task, and why the others cannot."""

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
"""The number of rankings kept at most: each takes a few bytes per node."""


class Filters:
    """All filters over one ledger; results that depend only on labels and taints are computed once.

    With `ignore_transient`, conditions that may pass are ignored (readiness, cordons, taints by node
    condition): the question is then whether a node could ever take a task.
    """

    def __init__(self, ledger: Ledger, *, ignore_transient: bool = False) -> None:
        """Filter by the room that the ledger has left."""
        self.ledger = ledger
        self._ignore_transient = ignore_transient
        self._suitable_nodes: dict[NodeRules, tuple[Mask, list[tuple[str, Mask]]]] = {}
        self._rankings: dict[tuple[Shape, NodeSpan, Score], NodeRanking] = {}

    def fitting(self, task: Task, span: NodeSpan) -> Mask:
        """Nodes of a span that can take a task now."""
        return self.ledger.fitting(self.ledger.demand(task.shape), span) & self.allowed(task, span)

    def allowed(self, task: Task, span: NodeSpan) -> Mask:
        """Nodes of a span that could take a task now if they had enough room."""
        allowed = self._suitable(task.shape.nodes)[0][span.columns]
        for _, mask in self._inter_pod_rules(task, span):
            allowed = allowed & mask
        return allowed

    def ranking(self, task: Task, span: NodeSpan, score: Score) -> NodeRanking:
        """The ranking of a span's nodes by a score, shared by all tasks of a shape.

        No inter-pod rules may apply to these tasks. The most recently used rankings are kept.
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
        """Whether inter-pod rules apply to a task: its own, or those of pods on nodes or nominated pods."""
        return bool(self._applicable_rules(task))

    def fits_on(self, task: Task, column: int, span: NodeSpan) -> bool:
        """Whether one node of a span can take a task now."""
        if task.shape.spread:
            return bool(self.fitting(task, span)[column - span.start])
        return bool(self.fitting(task, NodeSpan(column, column + 1))[0])

    def suitable(self, task: Task) -> Mask:
        """All nodes that labels, taints and node conditions leave open to a task, whatever room they have."""
        return self._suitable(task.shape.nodes)[0]

    def describe_misfit(self, task: Task, span: NodeSpan) -> str:
        """Why no node of a span can take a task, in one line: how many lack what, and the nearest node."""
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
        """Each rule except room: its description, and the nodes of a span that it leaves open to a task."""
        for reason, mask in self._suitable(task.shape.nodes)[1]:
            yield reason, mask[span.columns]
        yield from self._inter_pod_rules(task, span)

    def _inter_pod_rules(self, task: Task, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """The inter-pod rules that apply to a task; of nominated pods only those that keep others away."""
        for inter_pod in self._applicable_rules(task):
            rules = inter_pod.rules if inter_pod is self.ledger.inter_pod else inter_pod.exclusions
            yield from rules(task.shape, task.identity, span)

    def _applicable_rules(self, task: Task) -> list[InterPodRules]:
        """The rules of pods on nodes and of nominated pods, as far as they apply to a task."""
        ledger = self.ledger
        return [
            rules
            for rules in (ledger.inter_pod, ledger.inter_pod_nominated)
            if rules and rules.apply_to(task.shape, task.identity)
        ]

    def _suitable(self, rules: NodeRules) -> tuple[Mask, list[tuple[str, Mask]]]:
        """Nodes that all node rules leave open, and each rule with its mask."""
        if rules not in self._suitable_nodes:
            parts = list(self._node_rules(rules))
            self._suitable_nodes[rules] = np.logical_and.reduce([mask for _, mask in parts]), parts
        return self._suitable_nodes[rules]

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
        """Count the nodes short of each resource; returns the text about the node that lacks the least."""
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
