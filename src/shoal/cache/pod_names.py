"""Names of pods that are still to be made: who may have which, and which numbers of a row are taken."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from shoal.api.names import small_number
from shoal.cache.changes import Key
from shoal.kinds.workload_spec import Seniority, WorkloadKey

NumberedPrefix = tuple[str, str]
"""A namespace, and what the names of numbered pods begin with."""


class NumberIndex:
    """Names that end in numbers, by what comes before those."""

    def __init__(self) -> None:
        """Begin without names."""
        self._numbers: defaultdict[NumberedPrefix, set[int]] = defaultdict(set)

    def add(self, key: Key) -> None:
        """Take a name in."""
        for row, number in numbered_prefixes(key):
            self._numbers[row].add(number)

    def discard(self, key: Key) -> None:
        """Let go of a name."""
        for row, number in numbered_prefixes(key):
            self._numbers[row].discard(number)
            if not self._numbers[row]:
                del self._numbers[row]

    def __getitem__(self, row: NumberedPrefix) -> Iterable[int]:
        return self._numbers.get(row, ())


def numbered_prefixes(key: Key) -> Iterator[tuple[NumberedPrefix, int]]:
    """The row and the number of a name, if it has such: `job-trainer-` and 3."""
    namespace, name = key
    prefix, dash, text = name.rpartition("-")
    number = small_number(text)
    if dash and number is not None and str(number) == text:
        yield (namespace, f"{prefix}-"), number


class NameClaims:
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
        self.rows = NumberIndex()

    def wish(self, entry: WorkloadKey, seniority: Seniority, names: Iterable[Key]) -> None:
        """A party wants these names, and no others any more."""
        self.withdraw(entry)
        wanted = tuple(dict.fromkeys(names))
        if wanted:
            self._wishes[entry] = seniority, wanted
        for key in wanted:
            self._want(key, [*self._wanting.get(key, ()), entry])

    def withdraw(self, entry: WorkloadKey) -> None:
        """A party wants nothing any more; what it has is free when all is settled."""
        _, names = self._wishes.pop(entry, (None, ()))
        for key in names:
            others = [other for other in self._wanting[key] if other != entry]
            self._relieved.update(others)
            self._want(key, others)

    def wanting(self, key: Key) -> tuple[WorkloadKey, ...]:
        """Who wants a name."""
        return self._wanting.get(key, ())

    def refused(self, entry: WorkloadKey) -> Key | None:
        """The first name that a party may not have."""
        return self._refused.get(entry)

    def holds(self, entry: WorkloadKey, key: Key) -> bool:
        """Whether a name is a party's to give."""
        return self._holders.get(key) == entry

    def settle(self, entries: Iterable[WorkloadKey]) -> tuple[set[WorkloadKey], set[Key]]:
        """Let parties claim again, with all who want what another wants too, or no longer does.

        Tells whose first refusal is another now, and which names have another holder.
        """
        rivals = {entry for key in self._contested for entry in self._wanting[key]}
        claimants, self._relieved = {*entries, *rivals, *self._relieved}, set()
        refused = {entry: self._refused.pop(entry, None) for entry in claimants}
        held = self._release(claimants)
        ordered = sorted((self._wishes[entry][0], entry) for entry in claimants if entry in self._wishes)
        for _, entry in ordered:
            self._claim(entry)
        given = {key for _, entry in ordered for key in self._held[entry]}
        changed = {key for key in held.keys() | given if held.get(key) != self._holders.get(key)}
        return {entry for entry, key in refused.items() if key != self._refused.get(entry)}, changed

    def _claim(self, entry: WorkloadKey) -> None:
        held = self._held[entry] = []
        for key in self._wishes[entry][1]:
            if self._is_taken(key) or key in self._holders:
                self._refused[entry] = key
                return
            held.append(key)
            self._holders[key] = entry
            self.rows.add(key)

    def _release(self, entries: set[WorkloadKey]) -> dict[Key, WorkloadKey]:
        """Take back what parties hold; it is told by name."""
        released = {}
        for entry in entries:
            for key in self._held.pop(entry, ()):
                released[key] = entry
                del self._holders[key]
                self.rows.discard(key)
        return released

    def _want(self, key: Key, entries: list[WorkloadKey]) -> None:
        if entries:
            self._wanting[key] = tuple(entries)
        else:
            del self._wanting[key]
        if len(entries) > 1:
            self._contested.add(key)
        else:
            self._contested.discard(key)
