"""Census: which pods are where, by what terms say of them.

A cluster has thousands of pods and thousands of terms, and hardly any term speaks of any pod. So both are
indexed by one label that they must share (the pivot), and each answer, once given, is kept up to date.

Neighbours: rules about who may share a node, or a part of the cluster, with whom.

Host ports, required pod affinity and anti-affinity (both ways: a newcomer may not mind a neighbour that
minds the newcomer), and topology spread. Only clusters in which some task has such rules pay for them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from shoal.api.podspec import HostPort
from shoal.engine.nodes import Mask, Nodes, NodeSpan
from shoal.engine.resources import UNLIMITED, Amounts
from shoal.engine.workload import AffinityTerm, Identity, Shape, SpreadConstraint

Columns = Counter[int]
"""How many pods are on each node."""

Label = tuple[str, str]
Terms = tuple[AffinityTerm, ...]


class TermIndex:
    """Groups of terms, found by a pod that all terms of the group may speak of."""

    def __init__(self) -> None:
        """Begin empty."""
        self._by_pivot: defaultdict[Label | None, dict[Terms, None]] = defaultdict(dict)

    def add(self, terms: Terms) -> None:
        """Take a group in; a second time changes nothing."""
        self._by_pivot[required_label(terms)][terms] = None

    def matching(self, identity: Identity) -> Iterator[Terms]:
        """The groups that speak of a pod."""
        for key in (None, *identity.labels.items()):
            for terms in self._by_pivot.get(key, ()):
                if all_match(terms, identity):
                    yield terms


class PodCounts:
    """Pods by identity, and where those are that a group of terms speaks of."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._where: defaultdict[Identity, Columns] = defaultdict(Counter)
        self._by_label: defaultdict[Label, dict[Identity, None]] = defaultdict(dict)
        self._index = TermIndex()
        self._answers: dict[Terms, Columns] = {}

    def count(self, column: int, identity: Identity, change: int) -> None:
        """Note pods that come to a node, or leave it."""
        if identity not in self._where:
            for label in identity.labels.items():
                self._by_label[label][identity] = None
        self._where[identity][column] += change
        for terms in self._index.matching(identity):
            self._answers[terms][column] += change

    def where(self, terms: Terms) -> Columns:
        """Where the pods are that all these terms speak of."""
        if terms not in self._answers:
            found: Columns = Counter()
            for identity in self._candidates(terms):
                if all_match(terms, identity):
                    found.update(self._where[identity])
            self._answers[terms] = found
            self._index.add(terms)
        return +self._answers[terms]

    def _candidates(self, terms: Terms) -> Iterable[Identity]:
        key = required_label(terms)
        return self._where if key is None else self._by_label.get(key, ())


def all_match(terms: Terms, identity: Identity) -> bool:
    """Whether all terms speak of a pod."""
    return all(term.matches(identity) for term in terms)


def required_label(terms: Terms) -> Label | None:
    """A label that every pod has of which all these terms speak; None where they name none."""
    for term in terms:
        for requirement in term.selector.requirements() if term.selector else ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
    return None


Ports = tuple[HostPort, ...]
"""Ports that a pod takes of its node."""


class Occupant(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod that has a node, whoever put it there."""

    column: int
    shape: Shape
    identity: Identity
    terminating: bool = False


def usage_of(occupants: Sequence[Occupant], nodes: Nodes) -> Amounts:
    """What occupants take of each node; where that is more than numbers hold, it is just very much."""
    used = np.zeros_like(nodes.alloc)
    if not occupants:
        return used
    shapes = {shape: number for number, shape in enumerate(dict.fromkeys(o.shape for o in occupants))}
    vectors = np.array([nodes.layout.vector(shape.amounts) for shape in shapes])
    taken = vectors[[shapes[occupant.shape] for occupant in occupants]]
    where = [occupant.column for occupant in occupants]
    np.add.at(used.T, where, taken)
    if int(vectors.max()) * len(occupants) > UNLIMITED:
        rough = np.zeros(used.shape)
        np.add.at(rough.T, where, taken.astype(float))
        used[rough > UNLIMITED] = 4 * UNLIMITED
    return used


class InterPodRules:
    """Who is where, as far as somebody minds."""

    def __init__(
        self, nodes: Nodes, occupants: Iterable[Occupant] = (), *, affinity_met: bool = False
    ) -> None:
        """Begin with those who are there; `hopeful`: who is wanted near and is not there may still come."""
        self._nodes = nodes
        self._hopeful = affinity_met
        self._everybody = PodCounts()
        self._staying = PodCounts()
        self._ports: defaultdict[Ports, Columns] = defaultdict(Counter)
        self._clashes: dict[tuple[Ports, Ports], bool] = {}
        self._guards: defaultdict[Terms, Columns] = defaultdict(Counter)
        self._guard_index = TermIndex()
        for occupant in occupants:
            self.count(occupant, 1)

    def emptied(self) -> "InterPodRules":
        """The same nodes with nobody there."""
        return InterPodRules(self._nodes, affinity_met=True)

    def count(self, occupant: Occupant, change: int) -> None:
        """Note pods that come to a node, or leave it."""
        column, shape, identity = occupant.column, occupant.shape, occupant.identity
        self._everybody.count(column, identity, change)
        if not occupant.terminating:
            self._staying.count(column, identity, change)
        if shape.ports:
            self._ports[shape.ports][column] += change
        for term in shape.pod_anti_affinity:
            self._guard_index.add((term,))
            self._guards[(term,)][column] += change

    def apply_to(self, shape: Shape, identity: Identity) -> bool:
        """Whether any rule could keep a task off a node."""
        return shape.has_inter_pod_rules or any(True for _ in self._guard_index.matching(identity))

    def rules(self, shape: Shape, identity: Identity, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """Each rule that may keep a task off nodes of a span, and the nodes that it leaves open."""
        yield from self.exclusions(shape, identity, span)
        if shape.pod_affinity and not self._hopeful:
            yield "without the pods it wants near", self._near(shape.pod_affinity, identity, span)
        for spread in shape.spread:
            yield "too full for its topology spread", self._even(spread, shape, identity, span)

    def exclusions(self, shape: Shape, identity: Identity, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """Those of the rules by which somebody who is there keeps a task away."""
        if shape.ports:
            yield "with the host port taken", self._free_ports(shape, span)
        yield "with pods that it or they keep apart from", self._unwanted(shape, identity, span)

    def _free_ports(self, shape: Shape, span: NodeSpan) -> Mask:
        mask = np.ones(len(self._nodes.names), dtype=bool)
        for taken, columns in self._ports.items():
            if self._clash(taken, shape.ports):
                mask[list(+columns)] = False
        return mask[span.columns]

    def _clash(self, taken: Ports, wanted: Ports) -> bool:
        """Whether two pods cannot share a node for their ports."""
        key = (taken, wanted)
        if key not in self._clashes:
            numbers = {(port.port, port.protocol) for port in taken}
            possible = [port for port in wanted if (port.port, port.protocol) in numbers]
            self._clashes[key] = any(port.conflicts(other) for port in possible for other in taken)
        return self._clashes[key]

    def _near(self, terms: Terms, identity: Identity, span: NodeSpan) -> Mask:
        """Domains with a pod that all terms speak of; the first of its kind may go anywhere."""
        friends = self._everybody.where(terms)
        first = not friends and all_match(terms, identity)
        mask = np.ones(len(span), dtype=bool)
        for term in terms:
            codes, _ = self._nodes.domains(term.topology_key)
            mask &= (codes[span.columns] >= 0) & (first | self._in_domains(term.topology_key, friends, span))
        return mask

    def _unwanted(self, shape: Shape, identity: Identity, span: NodeSpan) -> Mask:
        mask = np.ones(len(span), dtype=bool)
        for term in shape.pod_anti_affinity:
            mask &= ~self._in_domains(term.topology_key, self._everybody.where((term,)), span)
        for terms in self._guard_index.matching(identity):
            mask &= ~self._in_domains(terms[0].topology_key, +self._guards[terms], span)
        return mask

    def _even(self, spread: SpreadConstraint, shape: Shape, identity: Identity, span: NodeSpan) -> Mask:
        """Nodes in whose domain one more leaves the skew within bounds, counted over the span."""
        codes = self._nodes.domains(spread.term.topology_key)[0][span.columns]
        counted = self._counted(spread, shape, span)
        if not counted.any():
            return counted
        pods = np.zeros(len(self._nodes.names))
        for column, number in self._staying.where((spread.term,)).items():
            pods[column] = number
        totals = np.bincount(
            codes[counted], weights=pods[span.columns][counted], minlength=int(codes.max()) + 1
        )
        domains = np.unique(codes[counted])
        least = totals[domains].min() if len(domains) >= spread.min_domains else 0
        own = spread.term.matches(identity)
        within: Mask = totals[np.maximum(codes, 0)] + own - least <= spread.max_skew
        return counted & within

    def _counted(self, spread: SpreadConstraint, shape: Shape, span: NodeSpan) -> Mask:
        """Nodes whose pods and domains count in a spread."""
        counted = np.ones(len(span), dtype=bool)
        for other in shape.spread:
            counted &= self._nodes.domains(other.term.topology_key)[0][span.columns] >= 0
        if spread.honour_affinity:
            counted &= self._nodes.selected(shape.nodes)[span.columns]
        if spread.honour_taints:
            counted &= self._nodes.tolerated(shape.nodes)[span.columns]
        return counted

    def _in_domains(self, key: str, columns: Columns, span: NodeSpan) -> Mask:
        """Nodes of a span that share a domain with one of these columns."""
        codes, _ = self._nodes.domains(key)
        taken = codes[list(columns)]
        return np.isin(codes[span.columns], taken[taken >= 0])
