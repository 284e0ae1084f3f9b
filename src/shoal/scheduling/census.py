"""Census: which pods are where, by what terms say of them.

A cluster has thousands of pods and thousands of terms, and hardly any term speaks of any pod. So both are
indexed by one label that they must share (the pivot), and each answer, once given, is kept up to date.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from shoal.scheduling.shape import Identity, NeighbourTerm

Columns = Counter[int]
"""How many pods are on each node."""

Label = tuple[str, str]
Terms = tuple[NeighbourTerm, ...]


class TermIndex:
    """Groups of terms, found by a pod that all terms of the group may speak of."""

    def __init__(self) -> None:
        """Begin empty."""
        self._by_pivot: defaultdict[Label | None, dict[Terms, None]] = defaultdict(dict)

    def add(self, terms: Terms) -> None:
        """Take a group in; a second time changes nothing."""
        self._by_pivot[pivot(terms)][terms] = None

    def about(self, identity: Identity) -> Iterator[Terms]:
        """The groups that speak of a pod."""
        for key in (None, *identity.labels.items()):
            for terms in self._by_pivot.get(key, ()):
                if speaks(terms, identity):
                    yield terms


class Census:
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
        for terms in self._index.about(identity):
            self._answers[terms][column] += change

    def where(self, terms: Terms) -> Columns:
        """Where the pods are that all these terms speak of."""
        if terms not in self._answers:
            found: Columns = Counter()
            for identity in self._candidates(terms):
                if speaks(terms, identity):
                    found.update(self._where[identity])
            self._answers[terms] = found
            self._index.add(terms)
        return +self._answers[terms]

    def _candidates(self, terms: Terms) -> Iterable[Identity]:
        key = pivot(terms)
        return self._where if key is None else self._by_label.get(key, ())


def speaks(terms: Terms, identity: Identity) -> bool:
    """Whether all terms speak of a pod."""
    return all(term.matches(identity) for term in terms)


def pivot(terms: Terms) -> Label | None:
    """A label that every pod has of which all these terms speak; None where they name none."""
    for term in terms:
        for requirement in term.selector.requirements() if term.selector else ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
    return None
