"""Rosters: parties in the order of their seniority, kept up to date.

Parties: jobs, gangs and loose pods as workloads, each made anew when something it depends on changes.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from shoal.api.pool import POOL_ANNOTATION
from shoal.cache import dijobs, trainingjobs, tyjobs
from shoal.cache.changes import Key
from shoal.cache.loose import gang_sketch, pod_sketch
from shoal.cache.node_table import Floor, Rebuilt
from shoal.cache.pod_index import Movement, Population
from shoal.cache.pod_names import Claims, Row, place_of
from shoal.cache.pods import PodRecord
from shoal.cache.workload_builder import Desk, Draft, Party
from shoal.cache.workload_spec import PartyKey, Sketch
from shoal.cache.world import JOB_KINDS, World
from shoal.engine.workload import NOWHERE, Shape, Workload

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


T = TypeVar("T", bound=Hashable)

_SKETCHERS: Final[dict[str, Callable[..., Sketch | None]]] = {
    "DIJob": dijobs.sketch,
    "TYJob": tyjobs.sketch,
    "TrainingJob": trainingjobs.sketch,
}


class Parties:
    """All parties, and where each wants to be, how it grows, and which pool batch Jobs name."""

    def __init__(
        self, world: World, population: Population, floor: Floor, desk: Desk, claims: Claims
    ) -> None:
        """Begin with nobody."""
        self._world, self._population, self._floor = world, population, floor
        self._desk, self._claims = desk, claims
        self.rosters = Rosters()
        self._sketches: dict[PartyKey, Sketch] = {}
        self._made: dict[PartyKey, Party] = {}
        self._hoping: dict[str, set[PartyKey]] = {}
        self._growing: dict[Row, set[PartyKey]] = {}
        self._pools: dict[Key, str] = {}

    def on(self, node: str) -> Iterator[Party]:
        """Parties some of whose tasks are given a node, or promised one, although they have no pods there."""
        yield from (self._made[key] for key in sorted(self._hoping.get(node, ())) if key in self._made)

    def resketch(self, changes: Mapping[str, set[Key]], movement: Movement) -> set[PartyKey]:
        """Let jobs say again what they want where they, or their pods, have changed; who they are."""
        keys = {(kind, *key) for kind in JOB_KINDS for key in changes[kind]}
        for before, after in movement.pods.values():
            keys.update(_possible(before), _possible(after))
        for owner in movement.jobs:
            keys.update(key for pod in self._population.claiming(owner) for key in _possible(pod))
        for party in keys:
            self._redraw(party, self._sketch(*party))
        return keys

    def concerned(
        self, changes: Mapping[str, set[Key]], movement: Movement, rebuilt: Rebuilt
    ) -> Iterator[PartyKey]:
        """Whose workload depends on something that has changed, though its sketch does not."""
        if changes["PriorityClass"] or rebuilt.pools:
            yield from self._sketches
        spaces = {name for _, name in changes["Namespace"]}
        yield from (key for key in self._sketches if key[1] in spaces) if spaces else ()
        for node in movement.nodes | rebuilt.nodes:
            yield from self._hoping.get(node, ())
        for key in movement.pods:
            yield from self._claims.wanting(key)
            yield from self._growers(key)
        for job in self._rehouse(changes["Job"]):
            yield from (key for pod in self._population.claiming(("Job", *job)) for key in _possible(pod))

    def move(self, columns: Sequence[int], stale: Collection[PartyKey]) -> None:
        """Follow nodes to other columns, with all parties but those that are made anew in any case."""
        gone, come = [], []
        for key, party in self._made.items():
            moved = party if key in stale else party.moved(columns)
            if moved is not party:
                gone.append(party)
                come.append(moved)
        self._made.update((party.sketch.key, party) for party in come)
        self.rosters.change(gone, come)

    def remake(self, keys: Iterable[PartyKey]) -> set[str]:
        """Make workloads anew; the nodes on which tasks without pods have room now, or no longer."""
        drafts = {key: self._draft(key) for key in keys}
        for key, draft in drafts.items():
            if draft:
                self._claims.wish(key, draft.sketch.seniority, draft.names)
            else:
                self._claims.withdraw(key)
        others, names = self._claims.settle(drafts)
        others.update(party for key in names for party in self._growers(key))
        drafts |= {key: self._draft(key) for key in others - drafts.keys()}
        gone = [self._made.pop(key) for key in drafts if key in self._made]
        made = {key: self._desk.party(draft) for key, draft in drafts.items() if draft}
        self._made |= made
        self.rosters.change(gone, made.values())
        return {node for party in (*gone, *made.values()) for node, _ in party.guests}

    def _sketch(self, kind: str, namespace: str, name: str) -> Sketch | None:
        """What a job wants; None when it wants nothing, or is no more."""
        population, key = self._population, (namespace, name)
        if kind in JOB_KINDS:
            job = self._world.jobs[kind].get(key)
            if job is None or job.metadata.deletion_timestamp is not None:
                return None
            return _SKETCHERS[kind](job, self._world.book, population.of(kind, job.metadata), self._world.now)
        if kind == "Gang":
            pods = [pod for pod in population.gang(key) if pod.phase != "Failed"]
            return None if all(pod.finished for pod in pods) else gang_sketch(name, pods)
        pod = population.get(key)
        alone = pod and not pod.blueprint.gang and not pod.finished and population.is_loose(pod)
        return pod_sketch(pod) if pod and alone else None

    def _redraw(self, key: PartyKey, sketch: Sketch | None) -> None:
        """Replace a sketch, and note where its party wants to be, how it may grow and what it asks for."""
        before = self._sketches.pop(key, None)
        if before:
            self._index(before, come=False)
        if sketch:
            self._sketches[key] = sketch
            self._index(sketch, come=True)

    def _index(self, sketch: Sketch, *, come: bool) -> None:
        for node in {*sketch.allocations.values(), *sketch.nominations.values()}:
            _mark(self._hoping, node, sketch.key, there=come)
        for prefix in sketch.elastic.prefixes if sketch.elastic else ():
            _mark(self._growing, (sketch.metadata.namespace, prefix), sketch.key, there=come)
        if sketch.kind in JOB_KINDS:
            self._floor.want(_shapes(sketch), 1 if come else -1)

    def _draft(self, key: PartyKey) -> Draft | None:
        sketch = self._sketches.get(key)
        return self._desk.draft(sketch) if sketch else None

    def _growers(self, key: Key) -> Iterator[PartyKey]:
        """Who could have given a name to a new pod."""
        for row, _ in place_of(key):
            yield from self._growing.get(row, ())

    def _rehouse(self, jobs: Iterable[Key]) -> list[Key]:
        """Note which pools batch Jobs name for their pods; those that name another than before."""
        rehoused = []
        for job in jobs:
            known = self._world.batch_jobs.get(job)
            pool = known.metadata.annotations.get(POOL_ANNOTATION, "") if known else ""
            if self._pools.pop(job, "") != pool:
                rehoused.append(job)
            if pool:
                self._pools[job] = pool
        return rehoused


def _possible(pod: PodRecord | None) -> Iterator[PartyKey]:
    """Parties that a pod may be of: which, depends on the jobs that there are."""
    if pod is None:
        return
    yield "Pod", pod.namespace, pod.name
    if pod.blueprint.gang:
        yield "Gang", pod.namespace, pod.blueprint.gang
    if pod.owner and pod.owner.kind in JOB_KINDS:
        yield pod.owner.kind, pod.namespace, pod.owner.name


def _shapes(sketch: Sketch) -> set[Shape]:
    return {blueprint.shape for blueprint in sketch.blueprints}


def _mark(index: dict[T, set[PartyKey]], place: T, key: PartyKey, *, there: bool) -> None:
    """Put a key into an index, or take it out and what is left empty."""
    if there:
        index.setdefault(place, set()).add(key)
        return
    index[place].discard(key)
    if not index[place]:
        del index[place]
