"""Nodes as array columns: names, amounts, labels, taints.

Columns are ordered by pool, then by name. So the nodes of a pool are one slice of every array, and the first
of several equally good columns is the node whose name comes first.
"""

import bisect
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.api.selectors import (
    NodeRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
    compare_integers,
)
from shoal.engine.layout import Amounts, ResourceLayout
from shoal.engine.resources import PODS, UNLIMITED
from shoal.engine.workload import NodeRules

T = TypeVar("T")
A = TypeVar("A", np.int64, np.bool_)

Mask = npt.NDArray[np.bool_]
"""One bool per node."""

_ABSENT = -1


class NodeSpan(msgspec.Struct, frozen=True):
    """A contiguous range of columns: the nodes of a pool, or a single node."""

    start: int
    stop: int

    @property
    def columns(self) -> slice:
        """The slice that selects these columns from an array."""
        return slice(self.start, self.stop)

    def __len__(self) -> int:
        return self.stop - self.start

    def __contains__(self, column: int) -> bool:
        return self.start <= column < self.stop

    def has_all(self, columns: Collection[int]) -> bool:
        """Whether the span contains every one of these columns."""
        return not columns or (self.start <= min(columns) and max(columns) < self.stop)


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One node as given to the engine; amounts are in units (see `resources`)."""

    name: str
    pool: str
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unschedulable: bool = False


class Nodes:
    """All nodes of a cluster as arrays, one column per node.

    `alloc` is what pods may request (allocatable); a node without a pod limit takes UNLIMITED pods. `ready`
    and `schedulable` (not cordoned) are masks.
    """

    def __init__(self, records: Sequence[NodeRecord], layout: ResourceLayout) -> None:
        """Build the arrays; `records` may be in any order."""
        ordered = sorted(records, key=lambda node: (node.pool, node.name))
        self.layout = layout
        self.names = tuple(node.name for node in ordered)
        self.columns = {name: column for column, name in enumerate(self.names)}
        self.pools = tuple(node.pool for node in ordered)
        self.alloc = self._amounts([_allocatable(node) for node in ordered])
        self.capacity = self._amounts([node.capacity for node in ordered])
        self.ready = np.array([node.ready for node in ordered], dtype=bool)
        self.schedulable = np.array([not node.unschedulable for node in ordered], dtype=bool)
        self.labels = tuple(node.labels for node in ordered)
        self._taints = tuple(_blocking(node.taints) for node in ordered)
        self._codes: dict[str, tuple[npt.NDArray[np.int32], dict[str, int]]] = {}

    def with_changes(self, records: Mapping[int, NodeRecord]) -> "Nodes":
        """A copy in which some columns are replaced; node names, pools and resources must stay the same.

        Arrays and tuples without differences are shared with the original, so the cost is that of the changed
        ones.
        """
        nodes = copy(self)
        nodes._update(records)  # noqa: SLF001 - a copy of this object
        return nodes

    def _update(self, records: Mapping[int, NodeRecord]) -> None:
        columns, changed = list(records), list(records.values())
        self.alloc = _replaced(self.alloc, columns, self._amounts([_allocatable(node) for node in changed]))
        self.capacity = _replaced(self.capacity, columns, self._amounts([node.capacity for node in changed]))
        self.ready = _replaced(self.ready, columns, np.array([node.ready for node in changed]))
        self.schedulable = _replaced(
            self.schedulable, columns, np.array([not node.unschedulable for node in changed])
        )
        labels, taints = self.labels, self._taints
        self.labels = _with(labels, {column: node.labels for column, node in records.items()})
        self._taints = _with(taints, {column: _blocking(node.taints) for column, node in records.items()})
        if self.labels is not labels:
            self._codes = {}
        if self._taints is not taints:
            vars(self).pop("_taint_sets", None)

    def span(self, pool: str) -> NodeSpan:
        """The columns of a pool's nodes; empty if it has none."""
        return NodeSpan(bisect.bisect_left(self.pools, pool), bisect.bisect_right(self.pools, pool))

    def domains(self, key: str) -> tuple[npt.NDArray[np.int32], dict[str, int]]:
        """The topology domain of each node for a label key, as a code, and the code of each label value.

        The code is -1 for a node without the label.
        """
        if key not in self._codes:
            values = [labels.get(key) for labels in self.labels]
            code_of = {value: code for code, value in enumerate(sorted({v for v in values if v is not None}))}
            codes = [_ABSENT if value is None else code_of[value] for value in values]
            self._codes[key] = np.array(codes, dtype=np.int32), code_of
        return self._codes[key]

    def selected(self, rules: NodeRules) -> Mask:
        """Nodes that match the node selector and the required node affinity."""
        mask = np.ones(len(self.names), dtype=bool)
        for key, value in rules.selector.items():
            mask &= self._requirement(key, "In", (value,))
        return mask & self._affinity(rules.affinity) if rules.affinity else mask

    def tolerated(self, rules: NodeRules, *, ignore_transient: bool = False) -> Mask:
        """Nodes whose NoSchedule and NoExecute taints are all tolerated.

        With `ignore_transient`, taints that Kubernetes sets by node condition (`node.kubernetes.io/…`) are
        ignored.
        """
        kinds, numbers = self._taint_sets
        good = [tolerates(rules, taints, ignore_transient=ignore_transient) for taints in kinds]
        return np.array(good, dtype=bool)[numbers]

    @functools.cached_property
    def _taint_sets(self) -> tuple[list[tuple[Taint, ...]], npt.NDArray[np.intp]]:
        kinds = list(dict.fromkeys(self._taints))
        numbers = {taints: number for number, taints in enumerate(kinds)}
        return kinds, np.array([numbers[taints] for taints in self._taints], dtype=np.intp)

    def _amounts(self, amounts: Sequence[Mapping[str, int]]) -> Amounts:
        table = np.zeros((len(self.layout.names), len(amounts)), dtype=np.int64)
        for column, node in enumerate(amounts):
            for name, amount in node.items():
                table[self.layout.rows[name], column] = amount
        return table

    def _affinity(self, selector: NodeSelector) -> Mask:
        mask = np.zeros(len(self.names), dtype=bool)
        for term in selector.node_selector_terms:
            mask |= self._term(term)
        return mask

    def _term(self, term: NodeSelectorTerm) -> Mask:
        if not term.match_expressions and not term.match_fields:
            return np.zeros(len(self.names), dtype=bool)
        mask = np.ones(len(self.names), dtype=bool)
        for requirement in term.match_expressions:
            mask &= self._requirement(requirement.key, requirement.operator, requirement.values)
        for requirement in term.match_fields:
            mask &= self._named(requirement)
        return mask

    def _named(self, requirement: NodeRequirement) -> Mask:
        mask = np.zeros(len(self.names), dtype=bool)
        mask[[self.columns[name] for name in requirement.values if name in self.columns]] = True
        return mask if requirement.operator == "In" else ~mask

    def _requirement(self, key: str, operator: str, values: tuple[str, ...]) -> Mask:
        codes, code_of = self.domains(key)
        if operator in ("Exists", "DoesNotExist"):
            present: Mask = codes != _ABSENT
            return present if operator == "Exists" else ~present
        if operator in ("Gt", "Lt"):
            matching = [
                code for value, code in code_of.items() if compare_integers(value, operator, values[0])
            ]
        else:
            matching = [code_of[value] for value in values if value in code_of]
        mask: Mask = codes == matching[0] if len(matching) == 1 else np.isin(codes, matching)
        return ~mask if operator == "NotIn" else mask


def tolerates(rules: NodeRules, taints: Iterable[Taint], *, ignore_transient: bool = False) -> bool:
    """Whether all taints that keep pods away are tolerated."""
    return all(
        _covered(taint, rules.tolerations, ignore_transient=ignore_transient) for taint in _blocking(taints)
    )


def _allocatable(node: NodeRecord) -> Mapping[str, int]:
    return {PODS: UNLIMITED, **node.allocatable}


def _blocking(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that keep pods away: all but PreferNoSchedule."""
    return tuple(taint for taint in taints if taint.effect != "PreferNoSchedule")


def _replaced(table: npt.NDArray[A], columns: list[int], values: npt.NDArray[A]) -> npt.NDArray[A]:
    """A copy of an array with some columns replaced; the same array if no value differs."""
    if np.array_equal(table[..., columns], values):
        return table
    changed = table.copy()
    changed[..., columns] = values
    return changed


def _with(values: tuple[T, ...], changes: Mapping[int, T]) -> tuple[T, ...]:
    """A tuple with some items replaced; the same tuple if no item differs."""
    if all(values[column] == value for column, value in changes.items()):
        return values
    changed = list(values)
    for column, value in changes.items():
        changed[column] = value
    return tuple(changed)


def _covered(taint: Taint, tolerations: tuple[Toleration, ...], *, ignore_transient: bool) -> bool:
    if ignore_transient and taint.key.startswith("node.kubernetes.io/"):
        return True
    return any(toleration.tolerates(taint) for toleration in tolerations)
