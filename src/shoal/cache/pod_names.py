"""Names of pods that are still to be made: who may have which, and which numbers of a row are taken."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from shoal.api.names import small_number
from shoal.cache.changes import Key
from shoal.kinds.workload_spec import Seniority, WorkloadKey

Row = tuple[str, str]
"""A namespace, and what the names of numbered pods begin with."""


class Rows:
    """Names that end in numbers, by what comes before those."""

    def __init__(self) -> None:
        """Begin without names."""
        self._numbers: defaultdict[Row, set[int]] = defaultdict(set)

    def add(self, key: Key) -> None:
        """Take a name in."""
        for row, number in place_of(key):
            self._numbers[row].add(number)

    def discard(self, key: Key) -> None:
        """Let go of a name."""
        for row, number in place_of(key):
            self._numbers[row].discard(number)
            if not self._numbers[row]:
                del self._numbers[row]

    def __getitem__(self, row: Row) -> Iterable[int]:
        return self._numbers.get(row, ())


def place_of(key: Key) -> Iterator[tuple[Row, int]]:
    """The row and the number of a name, if it has such: `job-trainer-` and 3."""
    namespace, name = key
    prefix, dash, text = name.rpartition("-")
    number = small_number(text)
    if dash and number is not None and str(number) == text:
        yield (namespace, f"{prefix}-"), number


class Claims:
    """Who may have a name that several want: nobody if there is such a pod, else the one who is senior.

    A party claims its names in order, and no more of them once one is refused.
    """

    def __init__(self, is_taken: Callable[[Key], bool]) -> None:
        """`is_taken` knows the pods that there are."""
        self._is_taken = is_taken
        self._wishes: dict[WorkloadKey, tuple[Seniority, tuple[Key, ...]]] = {}
        self._wanting: dict[Key, tuple[WorkloadKey, ...]] = {}
        self._contested: set[Key] = set()
        self._relieved: set[WorkloadKey] = set()
        self._holders: dict[Key, WorkloadKey] = {}
        self._held: dict[WorkloadKey, list[Key]] = {}
        self._refused: dict[WorkloadKey, Key] = {}
        self.rows = Rows()

    def wish(self, party: WorkloadKey, seniority: Seniority, names: Iterable[Key]) -> None:
        """A party wants these names, and no others any more."""
        self.withdraw(party)
        wanted = tuple(dict.fromkeys(names))
        if wanted:
            self._wishes[party] = seniority, wanted
        for key in wanted:
            self._want(key, [*self._wanting.get(key, ()), party])

    def withdraw(self, party: WorkloadKey) -> None:
        """A party wants nothing any more; what it has is free when all is settled."""
        _, names = self._wishes.pop(party, (None, ()))
        for key in names:
            others = [other for other in self._wanting[key] if other != party]
            self._relieved.update(others)
            self._want(key, others)

    def wanting(self, key: Key) -> tuple[WorkloadKey, ...]:
        """Who wants a name."""
        return self._wanting.get(key, ())

    def refused(self, party: WorkloadKey) -> Key | None:
        """The first name that a party may not have."""
        return self._refused.get(party)

    def holds(self, party: WorkloadKey, key: Key) -> bool:
        """Whether a name is a party's to give."""
        return self._holders.get(key) == party

    def settle(self, parties: Iterable[WorkloadKey]) -> tuple[set[WorkloadKey], set[Key]]:
        """Let parties claim again, with all who want what another wants too, or no longer does.

        Tells whose first refusal is another now, and which names have another holder.
        """
        rivals = {party for key in self._contested for party in self._wanting[key]}
        claimants, self._relieved = {*parties, *rivals, *self._relieved}, set()
        refused = {party: self._refused.pop(party, None) for party in claimants}
        held = self._release(claimants)
        ordered = sorted((self._wishes[party][0], party) for party in claimants if party in self._wishes)
        for _, party in ordered:
            self._claim(party)
        given = {key for _, party in ordered for key in self._held[party]}
        changed = {key for key in held.keys() | given if held.get(key) != self._holders.get(key)}
        return {party for party, key in refused.items() if key != self._refused.get(party)}, changed

    def _claim(self, party: WorkloadKey) -> None:
        held = self._held[party] = []
        for key in self._wishes[party][1]:
            if self._is_taken(key) or key in self._holders:
                self._refused[party] = key
                return
            held.append(key)
            self._holders[key] = party
            self.rows.add(key)

    def _release(self, parties: set[WorkloadKey]) -> dict[Key, WorkloadKey]:
        """Take back what parties hold; it is told by name."""
        released = {}
        for party in parties:
            for key in self._held.pop(party, ()):
                released[key] = party
                del self._holders[key]
                self.rows.discard(key)
        return released

    def _want(self, key: Key, parties: list[WorkloadKey]) -> None:
        if parties:
            self._wanting[key] = tuple(parties)
        else:
            del self._wanting[key]
        if len(parties) > 1:
            self._contested.add(key)
        else:
            self._contested.discard(key)
