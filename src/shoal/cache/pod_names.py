"""Names of pods that are still to be created: which workload may use which, and which numbers are taken."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from shoal.api.names import parse_small_int
from shoal.cache.changes import Key
from shoal.kinds.workload_spec import Seniority, WorkloadKey

NumberedPrefix = tuple[str, str]
"""A namespace and the common prefix of the names of numbered pods."""


class NumberIndex:
    """Numbers at the end of names, by namespace and prefix."""

    def __init__(self) -> None:
        """Start empty."""
        self._numbers: defaultdict[NumberedPrefix, set[int]] = defaultdict(set)

    def add(self, key: Key) -> None:
        """Add a name."""
        for row, number in numbered_prefixes(key):
            self._numbers[row].add(number)

    def discard(self, key: Key) -> None:
        """Remove a name."""
        for row, number in numbered_prefixes(key):
            self._numbers[row].discard(number)
            if not self._numbers[row]:
                del self._numbers[row]

    def __getitem__(self, row: NumberedPrefix) -> Iterable[int]:
        return self._numbers.get(row, ())


def numbered_prefixes(key: Key) -> Iterator[tuple[NumberedPrefix, int]]:
    """The prefix and the number of a name that ends in a number: `job-trainer-` and 3."""
    namespace, name = key
    prefix, dash, text = name.rpartition("-")
    number = parse_small_int(text)
    if dash and number is not None and str(number) == text:
        yield (namespace, f"{prefix}-"), number


class NameClaims:
    """Assigns claimed pod names: to no workload if a pod has the name, else to the oldest claimant.

    A workload gets its names in order, up to the first that is refused.
    """

    def __init__(self, is_taken: Callable[[Key], bool]) -> None:
        """`is_taken` returns whether a pod of a name exists."""
        self._is_taken = is_taken
        self._claims: dict[WorkloadKey, tuple[Seniority, tuple[Key, ...]]] = {}
        self._claimants: dict[Key, tuple[WorkloadKey, ...]] = {}
        self._contested: set[Key] = set()
        self._affected: set[WorkloadKey] = set()
        self._holders: dict[Key, WorkloadKey] = {}
        self._held: dict[WorkloadKey, list[Key]] = {}
        self._refused: dict[WorkloadKey, Key] = {}
        self.rows = NumberIndex()

    def claim(self, workload: WorkloadKey, seniority: Seniority, names: Iterable[Key]) -> None:
        """Replace the names that a workload claims."""
        self.release(workload)
        claimed = tuple(dict.fromkeys(names))
        if claimed:
            self._claims[workload] = seniority, claimed
        for key in claimed:
            self._set_claimants(key, [*self._claimants.get(key, ()), workload])

    def release(self, workload: WorkloadKey) -> None:
        """Remove all claims of a workload; its names are free after the next `settle`."""
        _, names = self._claims.pop(workload, (None, ()))
        for key in names:
            others = [other for other in self._claimants[key] if other != workload]
            self._affected.update(others)
            self._set_claimants(key, others)

    def claimants_of(self, key: Key) -> tuple[WorkloadKey, ...]:
        """The workloads that claim a name."""
        return self._claimants.get(key, ())

    def refused(self, workload: WorkloadKey) -> Key | None:
        """The first name that a workload is refused."""
        return self._refused.get(workload)

    def holds(self, workload: WorkloadKey, key: Key) -> bool:
        """Whether a workload may use a name."""
        return self._holders.get(key) == workload

    def settle(self, workloads: Iterable[WorkloadKey]) -> tuple[set[WorkloadKey], set[Key]]:
        """Assign names again to workloads, and to all that compete for a name, or did.

        Return the workloads whose first refused name changed, and the names whose holder changed.
        """
        rivals = {workload for key in self._contested for workload in self._claimants[key]}
        claimants, self._affected = {*workloads, *rivals, *self._affected}, set()
        refused = {workload: self._refused.pop(workload, None) for workload in claimants}
        held = self._take_back(claimants)
        ordered = sorted(
            (self._claims[workload][0], workload) for workload in claimants if workload in self._claims
        )
        for _, workload in ordered:
            self._assign(workload)
        given = {key for _, workload in ordered for key in self._held[workload]}
        changed = {key for key in held.keys() | given if held.get(key) != self._holders.get(key)}
        return {workload for workload, key in refused.items() if key != self._refused.get(workload)}, changed

    def _assign(self, workload: WorkloadKey) -> None:
        held = self._held[workload] = []
        for key in self._claims[workload][1]:
            if self._is_taken(key) or key in self._holders:
                self._refused[workload] = key
                return
            held.append(key)
            self._holders[key] = workload
            self.rows.add(key)

    def _take_back(self, workloads: set[WorkloadKey]) -> dict[Key, WorkloadKey]:
        """Take the assigned names of workloads back; return the old holder of each."""
        released = {}
        for workload in workloads:
            for key in self._held.pop(workload, ()):
                released[key] = workload
                del self._holders[key]
                self.rows.discard(key)
        return released

    def _set_claimants(self, key: Key, workloads: list[WorkloadKey]) -> None:
        if workloads:
            self._claimants[key] = tuple(workloads)
        else:
            del self._claimants[key]
        if len(workloads) > 1:
            self._contested.add(key)
        else:
            self._contested.discard(key)
