"""Rosters: parties in the order of their seniority, kept up to date."""

from bisect import bisect_left
from collections.abc import Collection
from operator import attrgetter
from typing import Final

from shoal.scheduling.workload import NOWHERE, Workload
from shoal.world.desk import Party

_FEW: Final = 8
"""With less than one change in so many, changing the order is cheaper than making it anew."""

_seniority: Final = attrgetter("seniority")


class Roster:
    """An ordered list of parties, no two of which are of the same seniority."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._parties: list[Party] = []
        self._workloads: list[Workload] = []

    def parties(self) -> tuple[Party, ...]:
        """The parties in order."""
        return tuple(self._parties)

    def workloads(self) -> tuple[Workload, ...]:
        """The workloads in order."""
        return tuple(self._workloads)

    def change(self, gone: Collection[Party], come: Collection[Party]) -> None:
        """Let parties go and others come; those that go are there."""
        if (len(gone) + len(come)) * _FEW > len(self._parties):
            left = set(gone)
            kept = [party for party in self._parties if party not in left]
            self._parties = sorted([*kept, *come], key=_seniority)
            self._workloads = [party.workload for party in self._parties]
            return
        for party in gone:
            place = bisect_left(self._parties, party.seniority, key=_seniority)
            del self._parties[place], self._workloads[place]
        for party in come:
            place = bisect_left(self._parties, party.seniority, key=_seniority)
            self._parties.insert(place, party)
            self._workloads.insert(place, party.workload)


class Rosters:
    """Everybody, those for whom a cycle has something to do, and those whose size it decides on."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.everybody, self.unsettled, self.elastic = Roster(), Roster(), Roster()

    def change(self, gone: Collection[Party], come: Collection[Party]) -> None:
        """Let parties go and others come."""
        self.everybody.change(gone, come)
        self.unsettled.change(*([one for one in some if is_unsettled(one.workload)] for some in (gone, come)))
        self.elastic.change(*([one for one in some if one.workload.elastic] for some in (gone, come)))


def find(parties: tuple[Party, ...], workload: Workload) -> Party:
    """The party of a workload, among parties in order; KeyError if there is none."""
    wanted = workload.created, workload.namespace, workload.name, workload.kind
    place = bisect_left(parties, wanted, key=_seniority)
    if place == len(parties) or parties[place].workload is not workload:
        raise KeyError(workload.key)
    return parties[place]


def is_unsettled(workload: Workload) -> bool:
    """Whether there is something to do for a workload, or something to say that may change."""
    if workload.held or workload.broken_since is not None:
        return True
    seated = [task.varying for task in workload.tasks if task.column != NOWHERE]
    return len(seated) < len(workload.tasks) or workload.done + sum(seated) < workload.minimum
