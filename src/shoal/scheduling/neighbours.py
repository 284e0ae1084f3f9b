"""Neighbours: rules about who may share a node, or a part of the cluster, with whom.

Host ports, required pod affinity and anti-affinity (both ways: a newcomer may not mind a neighbour that
minds the newcomer), and topology spread. Only clusters in which some task has such rules pay for them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from shoal.api.podspec import HostPort
from shoal.scheduling.census import Census, Columns, TermIndex, Terms, speaks
from shoal.scheduling.nodes import Mask, Nodes, Span
from shoal.scheduling.resources import UNLIMITED, Amounts
from shoal.scheduling.shape import Identity, Shape, SpreadTerm

Ports = tuple[HostPort, ...]
"""Ports that a pod takes of its node."""


class Occupant(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod that has a node, whoever put it there."""

    column: int
    shape: Shape
    identity: Identity
    leaving: bool = False


def amounts_of(occupants: Sequence[Occupant], nodes: Nodes) -> Amounts:
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


class Neighbours:
    """Who is where, as far as somebody minds."""

    def __init__(self, nodes: Nodes, occupants: Iterable[Occupant] = (), *, hopeful: bool = False) -> None:
        """Begin with those who are there; `hopeful`: who is wanted near and is not there may still come."""
        self._nodes = nodes
        self._hopeful = hopeful
        self._everybody = Census()
        self._staying = Census()
        self._ports: defaultdict[Ports, Columns] = defaultdict(Counter)
        self._clashes: dict[tuple[Ports, Ports], bool] = {}
        self._guards: defaultdict[Terms, Columns] = defaultdict(Counter)
        self._guard_index = TermIndex()
        for occupant in occupants:
            self.count(occupant, 1)

    def emptied(self) -> "Neighbours":
        """The same nodes with nobody there."""
        return Neighbours(self._nodes, hopeful=True)

    def count(self, occupant: Occupant, change: int) -> None:
        """Note pods that come to a node, or leave it."""
        column, shape, identity = occupant.column, occupant.shape, occupant.identity
        self._everybody.count(column, identity, change)
        if not occupant.leaving:
            self._staying.count(column, identity, change)
        if shape.ports:
            self._ports[shape.ports][column] += change
        for term in shape.apart:
            self._guard_index.add((term,))
            self._guards[(term,)][column] += change

    def concerns(self, shape: Shape, identity: Identity) -> bool:
        """Whether any rule could keep a task off a node."""
        return shape.minds_neighbours or any(True for _ in self._guard_index.about(identity))

    def rules(self, shape: Shape, identity: Identity, span: Span) -> Iterator[tuple[str, Mask]]:
        """Each rule that may keep a task off nodes of a span, and the nodes that it leaves open."""
        yield from self.barriers(shape, identity, span)
        if shape.near and not self._hopeful:
            yield "without the pods it wants near", self._near(shape.near, identity, span)
        for spread in shape.spread:
            yield "too full for its topology spread", self._even(spread, shape, identity, span)

    def barriers(self, shape: Shape, identity: Identity, span: Span) -> Iterator[tuple[str, Mask]]:
        """Those of the rules by which somebody who is there keeps a task away."""
        if shape.ports:
            yield "with the host port taken", self._free_ports(shape, span)
        yield "with pods that it or they keep apart from", self._unwanted(shape, identity, span)

    def _free_ports(self, shape: Shape, span: Span) -> Mask:
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

    def _near(self, terms: Terms, identity: Identity, span: Span) -> Mask:
        """Domains with a pod that all terms speak of; the first of its kind may go anywhere."""
        friends = self._everybody.where(terms)
        first = not friends and speaks(terms, identity)
        mask = np.ones(len(span), dtype=bool)
        for term in terms:
            codes, _ = self._nodes.domains(term.topology_key)
            mask &= (codes[span.columns] >= 0) & (first | self._in_domains(term.topology_key, friends, span))
        return mask

    def _unwanted(self, shape: Shape, identity: Identity, span: Span) -> Mask:
        mask = np.ones(len(span), dtype=bool)
        for term in shape.apart:
            mask &= ~self._in_domains(term.topology_key, self._everybody.where((term,)), span)
        for terms in self._guard_index.about(identity):
            mask &= ~self._in_domains(terms[0].topology_key, +self._guards[terms], span)
        return mask

    def _even(self, spread: SpreadTerm, shape: Shape, identity: Identity, span: Span) -> Mask:
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

    def _counted(self, spread: SpreadTerm, shape: Shape, span: Span) -> Mask:
        """Nodes whose pods and domains count in a spread."""
        counted = np.ones(len(span), dtype=bool)
        for other in shape.spread:
            counted &= self._nodes.domains(other.term.topology_key)[0][span.columns] >= 0
        if spread.honour_affinity:
            counted &= self._nodes.selected(shape.nodes)[span.columns]
        if spread.honour_taints:
            counted &= self._nodes.tolerated(shape.nodes)[span.columns]
        return counted

    def _in_domains(self, key: str, columns: Columns, span: Span) -> Mask:
        """Nodes of a span that share a domain with one of these columns."""
        codes, _ = self._nodes.domains(key)
        taken = codes[list(columns)]
        return np.isin(codes[span.columns], taken[taken >= 0])
