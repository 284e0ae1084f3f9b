"""Proof that a minimum can never run in a pool, in whatever order and on whatever nodes its tasks are placed.

That the placer finds no arrangement proves nothing: it tries few. There is proof if the tasks of the minimum
that only some nodes can take request more of a resource than these nodes have; or if there are more tasks at
least as large as some task than the nodes, counted one by one, can take of that task. A task that no node can
take is the simplest case of the latter. All nodes count as empty.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from shoal.engine.filters import Filters
from shoal.engine.layout import Amounts, exact_sums
from shoal.engine.nodes import Mask, NodeSpan
from shoal.engine.resources import PODS, STANDARD_RESOURCES
from shoal.engine.workload import Identity, Shape, Task

_PODS_ROW: Final = STANDARD_RESOURCES.index(PODS)
"""The row of the number of pods: each task requests one."""


class _TaskKind(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Equal tasks of a minimum: how many of them, what each requests, and the nodes that could take one.

    `fixed` counts those that do not vary. `counts` is the number of them that fit each node alone, and
    `counts_apart` the same number if no two of them that exclude each other share a node.
    """

    fixed: int
    varying: int
    requests: Amounts
    nodes: Mask
    counts: Amounts
    counts_apart: Amounts


def is_impossible(tasks: Sequence[Task], least: int, filters: Filters, span: NodeSpan) -> bool:
    """Whether there is proof that a span cannot take all fixed tasks and `least` varying ones.

    The span must be empty in the ledger of the filters.
    """
    kinds = _task_kinds(tasks, filters, span)
    return _too_many(kinds, least) or _too_much(kinds, least, filters.ledger.nodes.alloc[:, span.columns])


def _task_kinds(tasks: Sequence[Task], filters: Filters, span: NodeSpan) -> list[_TaskKind]:
    first: dict[tuple[Shape, Identity], Task] = {}
    numbers: Counter[tuple[Shape, Identity, bool]] = Counter()
    for task in tasks:
        first.setdefault((task.shape, task.identity), task)
        numbers[task.shape, task.identity, task.varying] += 1
    kinds = []
    for (shape, identity), task in first.items():
        demand = filters.ledger.demand(shape)
        room = np.maximum(filters.ledger.room[demand.rows, span.columns], 0)
        counts = np.minimum((room // np.array(demand.amounts)[:, None]).min(axis=0), len(tasks))
        nodes = filters.fitting(task, span)
        apart = np.where(_nodes_for_one(task, filters, span), np.minimum(counts, 1), counts)
        kinds.append(
            _TaskKind(
                fixed=numbers[shape, identity, False],
                varying=numbers[shape, identity, True],
                requests=demand.vector,
                nodes=nodes,
                counts=counts * nodes,
                counts_apart=apart * nodes,
            )
        )
    return kinds


def _nodes_for_one(task: Task, filters: Filters, span: NodeSpan) -> Mask:
    """The nodes that cannot take two tasks equal to this one, because of host ports or anti-affinity."""
    if task.shape.ports:
        return np.ones(len(span), dtype=bool)
    nodes = np.zeros(len(span), dtype=bool)
    for term in task.shape.pod_anti_affinity:
        if term.matches(task.identity):
            domains, _ = filters.ledger.nodes.domains(term.topology_key)
            nodes |= domains[span.columns] >= 0
    return nodes


def _too_many(kinds: list[_TaskKind], least: int) -> bool:
    """Whether there are more tasks at least as large as some task than fit the nodes, counted one by one."""
    for kind in kinds:
        larger = [other for other in kinds if _is_as_large(other, kind)]
        if _needed(kinds, larger, least, _PODS_ROW) > int(kind.counts.sum()):
            return True
        if _needed(kinds, [kind], least, _PODS_ROW) > int(kind.counts_apart.sum()):
            return True
    return False


def _is_as_large(other: _TaskKind, kind: _TaskKind) -> bool:
    """Whether each node that could take a task of `other` could take one of `kind` in its place."""
    return bool((other.requests >= kind.requests).all() and (other.nodes <= kind.nodes).all())


def _too_much(kinds: list[_TaskKind], least: int, alloc: Amounts) -> bool:
    """Whether tasks that only some nodes can take request more of a resource than these nodes have."""
    return any(
        _needed(kinds, inside, least, row) > total
        for nodes, inside in _node_sets(kinds)
        for row, total in enumerate(exact_sums(alloc[:, nodes]))
    )


def _node_sets(kinds: list[_TaskKind]) -> Iterator[tuple[Mask, list[_TaskKind]]]:
    """All nodes, and the nodes of each kind; with the kinds that can go to no others."""
    masks = [np.ones_like(kinds[0].nodes), *(kind.nodes for kind in kinds)] if kinds else []
    for nodes in {mask.tobytes(): mask for mask in masks}.values():
        yield nodes, [kind for kind in kinds if (kind.nodes <= nodes).all()]


def _needed(kinds: list[_TaskKind], some: list[_TaskKind], least: int, row: int) -> int:
    """The least amount of a resource that tasks of some kinds request in any choice of the minimum."""
    amounts = sorted((int(kind.requests[row]), kind.varying) for kind in some)
    needed = sum(kind.fixed * int(kind.requests[row]) for kind in some)
    left = least - sum(kind.varying for kind in kinds) + sum(kind.varying for kind in some)
    for amount, varying in amounts:
        chosen = min(max(left, 0), varying)
        needed += chosen * amount
        left -= chosen
    return needed
