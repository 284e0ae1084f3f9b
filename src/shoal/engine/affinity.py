"""Inter-pod rules: host ports, required pod affinity and anti-affinity, topology spread.

Anti-affinity works both ways: a pod on a node also keeps away the pods that its own terms match. Only
snapshots in which some pod has such rules pay for them (`cycle` builds no InterPodRules otherwise).

A cluster has thousands of pods and thousands of terms, and hardly any term matches any pod. So pods and terms
are indexed by one label that they must share, and each result is kept up to date once it was computed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from shoal.api.podspec import HostPort
from shoal.engine.layout import Amounts
from shoal.engine.nodes import Mask, Nodes, NodeSpan
from shoal.engine.resources import UNLIMITED
from shoal.engine.workload import AffinityTerm, Identity, Shape, SpreadConstraint

Columns = Counter[int]
"""The number of pods on each node."""

Label = tuple[str, str]
Terms = tuple[AffinityTerm, ...]


class TermIndex:
    """Groups of terms, found by a pod that all terms of the group match."""

    def __init__(self) -> None:
        """Start without terms."""
        self._by_required_label: defaultdict[Label | None, dict[Terms, None]] = defaultdict(dict)

    def add(self, terms: Terms) -> None:
        """Add a group of terms; adding it again has no effect."""
        self._by_required_label[required_label(terms)][terms] = None

    def matching(self, identity: Identity) -> Iterator[Terms]:
        """The groups all of whose terms match a pod."""
        for key in (None, *identity.labels.items()):
            for terms in self._by_required_label.get(key, ()):
                if all_match(terms, identity):
                    yield terms


class PodCounts:
    """Counts pods per node, by identity, and for each group of terms the pods that all of them match."""

    def __init__(self) -> None:
        """Start without pods."""
        self._columns_of: defaultdict[Identity, Columns] = defaultdict(Counter)
        self._by_label: defaultdict[Label, dict[Identity, None]] = defaultdict(dict)
        self._terms = TermIndex()
        self._matches: dict[Terms, Columns] = {}

    def count(self, column: int, identity: Identity, change: int) -> None:
        """Add `change` pods of one identity to a node, or remove them (negative)."""
        if identity not in self._columns_of:
            for label in identity.labels.items():
                self._by_label[label][identity] = None
        self._columns_of[identity][column] += change
        for terms in self._terms.matching(identity):
            self._matches[terms][column] += change

    def columns_of(self, terms: Terms) -> Columns:
        """The number of pods on each node that all these terms match; nodes without any are left out."""
        if terms not in self._matches:
            found: Columns = Counter()
            for identity in self._candidates(terms):
                if all_match(terms, identity):
                    found.update(self._columns_of[identity])
            self._matches[terms] = found
            self._terms.add(terms)
        return +self._matches[terms]

    def _candidates(self, terms: Terms) -> Iterable[Identity]:
        key = required_label(terms)
        return self._columns_of if key is None else self._by_label.get(key, ())


def all_match(terms: Terms, identity: Identity) -> bool:
    """Whether all terms match a pod."""
    return all(term.matches(identity) for term in terms)


def required_label(terms: Terms) -> Label | None:
    """A label that every pod matched by all these terms has; None if they require none."""
    for term in terms:
        for requirement in term.selector.requirements() if term.selector else ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
    return None


Ports = tuple[HostPort, ...]
"""Host ports of a pod."""


class Occupant(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod that takes up room on a node, whichever scheduler placed it."""

    column: int
    shape: Shape
    identity: Identity
    terminating: bool = False


def usage_of(occupants: Sequence[Occupant], nodes: Nodes) -> Amounts:
    """What occupants request of each node.

    A sum that would overflow an int64 is replaced by a value above any capacity (4 × UNLIMITED).
    """
    used = np.zeros_like(nodes.alloc)
    if not occupants:
        return used
    shapes = {shape: number for number, shape in enumerate(dict.fromkeys(o.shape for o in occupants))}
    vectors = np.array([nodes.layout.vector(shape.amounts) for shape in shapes])
    taken = vectors[[shapes[occupant.shape] for occupant in occupants]]
    columns = [occupant.column for occupant in occupants]
    np.add.at(used.T, columns, taken)
    if int(vectors.max()) * len(occupants) > UNLIMITED:
        rough = np.zeros(used.shape)
        np.add.at(rough.T, columns, taken.astype(float))
        used[rough > UNLIMITED] = 4 * UNLIMITED
    return used


class InterPodRules:
    """Pods on nodes as far as inter-pod rules concern them, and the nodes that these rules leave open."""

    def __init__(
        self, nodes: Nodes, occupants: Iterable[Occupant] = (), *, affinity_met: bool = False
    ) -> None:
        """Start with `occupants`; with `affinity_met`, required pod affinity always counts as satisfied."""
        self._nodes = nodes
        self._affinity_met = affinity_met
        self._pods = PodCounts()
        self._staying_pods = PodCounts()
        self._ports: defaultdict[Ports, Columns] = defaultdict(Counter)
        self._conflicts: dict[tuple[Ports, Ports], bool] = {}
        self._anti_affinity: defaultdict[Terms, Columns] = defaultdict(Counter)
        self._anti_affinity_index = TermIndex()
        for occupant in occupants:
            self.count(occupant, 1)

    def emptied(self) -> "InterPodRules":
        """The same nodes without pods; pods that affinity requires are assumed to arrive."""
        return InterPodRules(self._nodes, affinity_met=True)

    def count(self, occupant: Occupant, change: int) -> None:
        """Add `change` pods to a node, or remove them (negative)."""
        column, shape, identity = occupant.column, occupant.shape, occupant.identity
        self._pods.count(column, identity, change)
        if not occupant.terminating:
            self._staying_pods.count(column, identity, change)
        if shape.ports:
            self._ports[shape.ports][column] += change
        for term in shape.pod_anti_affinity:
            self._anti_affinity_index.add((term,))
            self._anti_affinity[(term,)][column] += change

    def apply_to(self, shape: Shape, identity: Identity) -> bool:
        """Whether any rule, of the task or of a pod on a node, could keep a task off a node."""
        return shape.has_inter_pod_rules or any(True for _ in self._anti_affinity_index.matching(identity))

    def rules(self, shape: Shape, identity: Identity, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """Each rule that may keep a task off nodes of a span: description and the nodes it leaves open."""
        yield from self.exclusions(shape, identity, span)
        if shape.pod_affinity and not self._affinity_met:
            yield "without pods that match its pod affinity", self._affine(shape.pod_affinity, identity, span)
        for spread in shape.spread:
            yield "too full for its topology spread", self._evenly_spread(spread, shape, identity, span)

    def exclusions(self, shape: Shape, identity: Identity, span: NodeSpan) -> Iterator[tuple[str, Mask]]:
        """The rules by which existing pods keep a task away: host ports and anti-affinity."""
        if shape.ports:
            yield "with the host port taken", self._free_ports(shape, span)
        yield "with pods excluded by its anti-affinity or theirs", self._anti_affine(shape, identity, span)

    def _free_ports(self, shape: Shape, span: NodeSpan) -> Mask:
        mask = np.ones(len(self._nodes.names), dtype=bool)
        for taken, columns in self._ports.items():
            if self._conflict(taken, shape.ports):
                mask[list(+columns)] = False
        return mask[span.columns]

    def _conflict(self, taken: Ports, wanted: Ports) -> bool:
        """Whether two pods cannot share a node because of their host ports."""
        key = (taken, wanted)
        if key not in self._conflicts:
            numbers = {(port.port, port.protocol) for port in taken}
            possible = [port for port in wanted if (port.port, port.protocol) in numbers]
            self._conflicts[key] = any(port.conflicts(other) for port in possible for other in taken)
        return self._conflicts[key]

    def _affine(self, terms: Terms, identity: Identity, span: NodeSpan) -> Mask:
        """Domains with a pod that all terms match.

        If there is none, a pod that matches its own terms may go to any node with the topology labels, as in
        Kubernetes.
        """
        matching = self._pods.columns_of(terms)
        first = not matching and all_match(terms, identity)
        mask = np.ones(len(span), dtype=bool)
        for term in terms:
            codes, _ = self._nodes.domains(term.topology_key)
            mask &= (codes[span.columns] >= 0) & (first | self._in_domains(term.topology_key, matching, span))
        return mask

    def _anti_affine(self, shape: Shape, identity: Identity, span: NodeSpan) -> Mask:
        """Nodes outside the domains of pods that the task's anti-affinity, or theirs, keeps apart."""
        mask = np.ones(len(span), dtype=bool)
        for term in shape.pod_anti_affinity:
            mask &= ~self._in_domains(term.topology_key, self._pods.columns_of((term,)), span)
        for terms in self._anti_affinity_index.matching(identity):
            mask &= ~self._in_domains(terms[0].topology_key, +self._anti_affinity[terms], span)
        return mask

    def _evenly_spread(
        self, spread: SpreadConstraint, shape: Shape, identity: Identity, span: NodeSpan
    ) -> Mask:
        """Nodes in whose domain one more pod keeps the skew within bounds, counted over the span."""
        codes = self._nodes.domains(spread.term.topology_key)[0][span.columns]
        counted = self._counted(spread, shape, span)
        if not counted.any():
            return counted
        pods = np.zeros(len(self._nodes.names))
        for column, number in self._staying_pods.columns_of((spread.term,)).items():
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
        """Nodes whose pods and domains count for a spread constraint."""
        counted = np.ones(len(span), dtype=bool)
        for other in shape.spread:
            counted &= self._nodes.domains(other.term.topology_key)[0][span.columns] >= 0
        if spread.honour_affinity:
            counted &= self._nodes.selected(shape.nodes)[span.columns]
        if spread.honour_taints:
            counted &= self._nodes.tolerated(shape.nodes)[span.columns]
        return counted

    def _in_domains(self, key: str, columns: Columns, span: NodeSpan) -> Mask:
        """Nodes of a span that share a topology domain with one of these columns."""
        codes, _ = self._nodes.domains(key)
        taken = codes[list(columns)]
        return np.isin(codes[span.columns], taken[taken >= 0])
