"""Filters: which nodes can take a task, and why the others cannot."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from shoal.scheduling.ledger import Ledger
from shoal.scheduling.nodes import Mask
from shoal.scheduling.resources import shown
from shoal.scheduling.shape import NodeRules
from shoal.scheduling.workload import Task


class Filters:
    """Every filter over one ledger; what depends on labels and taints alone is worked out once.

    With `ever`, what passes is overlooked (readiness, cordons, taints of a node's state): so it is asked
    whether a node could take a task at all.
    """

    def __init__(self, ledger: Ledger, *, ever: bool = False) -> None:
        """Filter what the ledger leaves."""
        self.ledger = ledger
        self._ever = ever
        self._known: dict[NodeRules, Mask] = {}

    def fitting(self, task: Task, span: slice) -> Mask:
        """Nodes of a span that can take a task now."""
        fits = self.ledger.fitting(self.ledger.demand(task.shape), span) & self._suitable(task)[span]
        if self.ledger.neighbours is not None:
            fits &= self.ledger.neighbours.allowed(task.shape, task.identity, span)
        return fits

    def complaint(self, task: Task, span: slice) -> str:
        """Why no node of a span can take a task, in one line: how many nodes want for what, and the nearest."""
        nodes = span.stop - span.start
        if not nodes:
            return "the pool has no nodes"
        left = np.ones(nodes, dtype=bool)
        counts: Counter[str] = Counter()
        for reason, mask in self._rules(task, span):
            counts[reason] = int((left & ~mask).sum())
            left &= mask
        nearest = self._count_shortages(task, span, left, counts)
        parts = ", ".join(f"{number} {reason}" for reason, number in counts.items() if number)
        return f"0/{nodes} nodes fit: {parts}{nearest}"

    def _suitable(self, task: Task) -> Mask:
        rules = task.shape.nodes
        if rules not in self._known:
            mask = np.ones(len(self.ledger.nodes.names), dtype=bool)
            for _, rule in self._node_rules(rules):
                mask &= rule
            self._known[rules] = mask
        return self._known[rules]

    def _node_rules(self, rules: NodeRules) -> Iterator[tuple[str, Mask]]:
        nodes = self.ledger.nodes
        if not self._ever:
            yield "not ready", nodes.ready
            yield "cordoned", nodes.open
        yield "outside its node selector or affinity", nodes.selected(rules)
        yield "with a taint it does not tolerate", nodes.tolerated(rules, ever=self._ever)

    def _rules(self, task: Task, span: slice) -> Iterator[tuple[str, Mask]]:
        for reason, mask in self._node_rules(task.shape.nodes):
            yield reason, mask[span]
        if self.ledger.neighbours is not None:
            yield from self.ledger.neighbours.rules(task.shape, task.identity, span)

    def _count_shortages(self, task: Task, span: slice, left: Mask, counts: Counter[str]) -> str:
        """Count the nodes short of each resource; tell which node lacks the least."""
        demand, layout = self.ledger.demand(task.shape), self.ledger.nodes.layout
        columns = np.flatnonzero(left) + span.start
        lacking = np.zeros(len(columns))
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            lack = np.maximum(amount - self.ledger.room[row, columns], 0)
            counts[f"short of {layout.names[row]}"] = int((lack > 0).sum())
            lacking += lack / amount
        if not len(columns):
            return ""
        column = int(columns[np.argmin(lacking)])
        lacks = [
            f"{shown(layout.names[row], amount - room)} {layout.names[row]}"
            for row, amount in zip(demand.rows, demand.amounts, strict=True)
            if (room := int(self.ledger.room[row, column])) < amount
        ]
        return f"; nearest is {self.ledger.nodes.names[column]}, which lacks {' and '.join(lacks)}"
