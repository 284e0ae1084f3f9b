"""One cycle: a Snapshot goes in, a Plan comes out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from shoal.engine.affinity import Neighbours
from shoal.engine.allocator import Service, Turn, distinct
from shoal.engine.borrowing import Borrowing
from shoal.engine.config import SchedulerConfig
from shoal.engine.feasibility import Feasibility
from shoal.engine.filters import Filters
from shoal.engine.ledger import Ledger
from shoal.engine.plan import Eviction, Placement, Plan, Resize, Verdict
from shoal.engine.policy_answers import NO_ADVICE, Advice, Counsel
from shoal.engine.queues import queue_key
from shoal.engine.releasing import Departures
from shoal.engine.resizing import Resizing
from shoal.engine.snapshot import Snapshot
from shoal.engine.verdicts import verdicts_of
from shoal.engine.workload import Workload


def cycle(snapshot: Snapshot, config: SchedulerConfig, advice: Advice = NO_ADVICE) -> Plan:
    """Decide what happens now; `advice` is what a policy of the user's answered for this snapshot.

    1. Elastic workloads above their ceilings are cut. Room that earlier cycles reserved is kept.
    2. Every pool serves its home queue, in order; what does not fit makes room.
    3. What got nothing is judged: could it ever run?
    4. All that still lacks room asks to borrow, in one order.
    5. Elastic workloads grow, and are made equal where nobody waits.
    6. Gangs that lost a part and did not get it back in time give up the rest.
    """
    filters = Filters(Ledger(snapshot.nodes, snapshot.used, _neighbours(snapshot)))
    key = queue_key(snapshot, config.queue_policy)
    in_order = sorted(snapshot.unsettled, key=key)
    queue = sorted(in_order, key=_home)
    elastic = sorted(sorted(snapshot.elastic, key=key), key=_home)

    counsel = Counsel(snapshot, advice)
    service = Service(snapshot, filters, config, counsel)
    resizing = Resizing(snapshot, filters, service, config, counsel)
    resizing.cut(elastic)
    service.keep_reservations(queue)
    turns = {workload: service.serve(workload) for workload in queue}
    feasibility = Feasibility(snapshot, Filters(filters.ledger, ever=True))
    feasibility.judge(_unmet(turns))
    _borrow(snapshot, service, feasibility, turns, in_order)
    resizing.resize(turns, elastic, _crowded(turns, service, feasibility))
    verdicts = verdicts_of(turns, snapshot, feasibility, service.departures, resizing)
    if not config.disable_preemption:
        late = snapshot.now - config.gang_recovery_seconds
        _give_up(verdicts, turns, service.departures, late)
    return _plan(turns, resizing, verdicts, service.departures.evictions)


def _unmet(turns: Mapping[Workload, Turn]) -> list[Workload]:
    """Those whose minimum could be served and is not whole; one for all who share a turn."""
    return [turn.workload for turn in distinct(turns) if turn.unmet and not turn.workload.held]


def _crowded(turns: Mapping[Workload, Turn], service: Service, feasibility: Feasibility) -> set[int]:
    """Pools in which somebody waits for a minimum that could be had there."""
    gone = service.departures.gone()
    return {workload.pool for workload in (*_unmet(turns), *gone) if feasibility.fits_home(workload)}


def _borrow(
    snapshot: Snapshot,
    service: Service,
    feasibility: Feasibility,
    turns: dict[Workload, Turn],
    queue: list[Workload],
) -> None:
    """Let those who lack room at home ask others; where borrowing comes first, make room if that fails."""
    asking = {turn for turn in distinct(turns) if _asks(turn, service)}
    if asking:
        hopeful = {turns[workload] for workload in _unmet(turns) if feasibility.fits_home(workload)}
        borrowing = Borrowing(snapshot, service, feasibility, [w for w in queue if turns[w] in hopeful])
        in_vain: set[Turn] = set()
        for workload, turn in [(w, turns[w]) for w in queue if turns[w] in asking]:
            if turn in in_vain or service.departures.is_victim(workload):
                continue
            got = borrowing.serve(workload) or service.make_room_late(workload)
            if got is None:
                in_vain.add(turn)
            else:
                in_vain.clear()
                del turns[workload]
                turns[workload] = got
    feasibility.judge(service.departures.gone())


def _asks(turn: Turn, service: Service) -> bool:
    """Whether a workload got nothing at home, or has its place elsewhere and lacks something there."""
    workload = turn.workload
    if workload.held or turn.nominated or turn.placed:
        return False
    return service.is_astray(workload) and bool(workload.missing) if workload.placed else turn.unmet


def _home(workload: Workload) -> int:
    return workload.pool


def _neighbours(snapshot: Snapshot) -> Neighbours | None:
    """Who is where, if anybody minds."""
    shapes = {task.shape for workload in snapshot.unsettled for task in workload.missing}
    shapes |= {shape for workload in snapshot.elastic if workload.growth for shape in workload.growth.shapes}
    minded = bool(shapes) and (snapshot.guarded or any(shape.minds_neighbours for shape in shapes))
    return Neighbours(snapshot.nodes, snapshot.occupants) if minded else None


def _give_up(
    verdicts: Mapping[Workload, Verdict], turns: Mapping[Workload, Turn], departures: Departures, late: float
) -> None:
    """Send away what is left of gangs that lost a part at a time so long ago, and did not get it back."""
    for workload, verdict in verdicts.items():
        if verdict.broken is not None and verdict.broken <= late and not turns[workload].nominated:
            departures.send(workload, departures.left(workload), "GangLost")


def _plan(
    turns: Mapping[Workload, Turn],
    resizing: Resizing,
    verdicts: dict[Workload, Verdict],
    evictions: list[Eviction],
) -> Plan:
    got = [Placement(turn.workload, *put) for turn in turns.values() for put in turn.placed]
    kept = [(turn.workload, turn.nominated) for turn in turns.values()]
    kept += [(grower.workload, grower.nominated) for grower in resizing.growers.values()]
    return Plan(
        placements=(*got, *resizing.placements),
        nominations=tuple(Placement(workload, *put) for workload, placed in kept for put in placed),
        evictions=tuple(evictions),
        resizes=tuple(_resizes(turns, resizing, evictions)),
        verdicts=verdicts,
    )


def _resizes(
    turns: Mapping[Workload, Turn], resizing: Resizing, evictions: Iterable[Eviction]
) -> Iterator[Resize]:
    """What growing and shrinking come to, for each workload that did; starting is neither."""
    change: Counter[Workload] = Counter()
    for placement in resizing.placements:
        change[placement.workload] += placement.task.varying
    for eviction in evictions:
        change[eviction.workload] -= eviction.reason == "Shrunk" and eviction.task.varying
    moved = {eviction.workload for eviction in evictions if eviction.reason == "Moved"}
    for workload, more in change.items():
        if more or workload in moved:
            fresh = turns[workload].placed if workload in turns else []
            tasks = [*workload.placed, *(task for task, _ in fresh)]
            before = workload.done + sum(task.varying for task in tasks)
            yield Resize(workload, before, before + more)
