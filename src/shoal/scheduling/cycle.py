"""One cycle: a Snapshot goes in, a Plan comes out."""

from shoal.scheduling.borrowing import Borrowing
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.feasibility import Feasibility
from shoal.scheduling.filters import Filters
from shoal.scheduling.ledger import Ledger
from shoal.scheduling.neighbours import Neighbours
from shoal.scheduling.plan import Eviction, Placement, Plan, Verdict
from shoal.scheduling.queues import by_pool, queue_key
from shoal.scheduling.service import Service, Turn
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.verdicts import evicted_verdicts, verdict_of
from shoal.scheduling.workload import Workload


def cycle(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
    """Decide what happens now.

    1. Room that earlier cycles reserved is kept.
    2. Every pool serves its home queue, in order; what does not fit makes room.
    3. What got nothing is judged: could it ever run?
    4. All that still lacks room asks to borrow, in one order.
    5. Gangs that lost a part and did not get it back in time give up the rest.
    """
    ledger = Ledger(snapshot.nodes, snapshot.used, _neighbours(snapshot))
    key = queue_key(snapshot, config.queue_policy)
    queues = {pool: sorted(queue, key=key) for pool, queue in sorted(by_pool(snapshot.unsettled).items())}
    queue = [workload for pool in queues.values() for workload in pool]

    service = Service(snapshot, Filters(ledger), config)
    service.keep_reservations(queue)
    turns = {workload: service.serve(workload) for workload in queue}
    feasibility = Feasibility(snapshot, Filters(ledger, ever=True))
    feasibility.judge([w for w in queue if turns[w].unmet and not w.held])
    _borrow(snapshot, service, feasibility, turns, sorted(queue, key=key))
    verdicts = {workload: verdict_of(turns[workload], snapshot, feasibility) for workload in queue}
    return _plan(
        snapshot, config, service, turns, verdicts | evicted_verdicts(service.evictions, feasibility)
    )


def _borrow(
    snapshot: Snapshot,
    service: Service,
    feasibility: Feasibility,
    turns: dict[Workload, Turn],
    queue: list[Workload],
) -> None:
    """Let those who lack room at home ask others; where borrowing comes first, make room if that fails."""
    asking = [workload for workload in queue if _asks(turns[workload], service)]
    if asking:
        waiting = [w for w in queue if turns[w].unmet and not w.held and feasibility.fits_home(w)]
        borrowing = Borrowing(snapshot, service, feasibility, waiting)
        for workload in asking:
            if workload in service.evicted:
                continue
            got = borrowing.serve(workload) or service.make_room_late(workload)
            if got is not None:
                del turns[workload]
                turns[workload] = got
    feasibility.judge(service.evicted)


def _asks(turn: Turn, service: Service) -> bool:
    """Whether a workload got nothing at home, or has its place elsewhere and lacks something there."""
    workload = turn.workload
    if workload.held or turn.nominated or turn.placed:
        return False
    return service.is_astray(workload) and bool(workload.missing) if workload.placed else turn.unmet


def _neighbours(snapshot: Snapshot) -> Neighbours | None:
    """Who is where, if anybody minds."""
    shapes = {task.shape for workload in snapshot.unsettled for task in workload.missing}
    minded = bool(shapes) and (snapshot.guarded or any(shape.minds_neighbours for shape in shapes))
    return Neighbours(snapshot.nodes, snapshot.occupants) if minded else None


def _plan(
    snapshot: Snapshot,
    config: SchedulerConfig,
    service: Service,
    turns: dict[Workload, Turn],
    verdicts: dict[Workload, Verdict],
) -> Plan:
    lost = [
        Eviction(workload, task, "GangLost")
        for workload, verdict in verdicts.items()
        if workload not in service.evicted and not turns[workload].nominated
        if _is_given_up(verdict, snapshot.now, config)
        for task in workload.placed
    ]
    return Plan(
        placements=tuple(Placement(turn.workload, *put) for turn in turns.values() for put in turn.placed),
        nominations=tuple(
            Placement(turn.workload, *put) for turn in turns.values() for put in turn.nominated
        ),
        evictions=(*service.evictions, *lost),
        verdicts=verdicts,
    )


def _is_given_up(verdict: Verdict, now: float, config: SchedulerConfig) -> bool:
    """Whether a gang that lost a part has waited long enough for it."""
    if verdict.broken is None or config.disable_preemption:
        return False
    return now - verdict.broken >= config.gang_recovery_seconds
