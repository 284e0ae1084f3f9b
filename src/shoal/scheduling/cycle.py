"""One cycle: a Snapshot goes in, a Plan comes out."""

from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.feasibility import Feasibility
from shoal.scheduling.filters import Filters
from shoal.scheduling.ledger import Ledger
from shoal.scheduling.neighbours import Neighbours
from shoal.scheduling.plan import Eviction, Placement, Plan, Verdict
from shoal.scheduling.queues import by_pool, queue_key
from shoal.scheduling.service import Service, Turn
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.verdicts import verdict_of


def cycle(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
    """Decide what happens now.

    1. Room that earlier cycles reserved is kept.
    2. Every pool serves its home queue, in order.
    3. What got nothing is judged: could it ever run?
    4. Gangs that lost a part and did not get it back in time give up the rest.
    """
    ledger = Ledger(snapshot.nodes, snapshot.used, _neighbours(snapshot))
    key = queue_key(snapshot, config.queue_policy)
    queues = {pool: sorted(queue, key=key) for pool, queue in sorted(by_pool(snapshot.unsettled).items())}
    queue = [workload for pool in queues.values() for workload in pool]

    service = Service(snapshot, Filters(ledger))
    service.keep_reservations(queue)
    turns = [service.serve(workload) for workload in queue]
    unmet = [turn.workload for turn in turns if turn.unmet and not turn.workload.held]
    feasibility = Feasibility(snapshot, Filters(ledger, ever=True), unmet)
    return _plan(snapshot, config, turns, feasibility)


def _neighbours(snapshot: Snapshot) -> Neighbours | None:
    """Who is where, if anybody minds."""
    shapes = {task.shape for workload in snapshot.unsettled for task in workload.missing}
    minded = bool(shapes) and (snapshot.guarded or any(shape.minds_neighbours for shape in shapes))
    return Neighbours(snapshot.nodes, snapshot.occupants) if minded else None


def _plan(snapshot: Snapshot, config: SchedulerConfig, turns: list[Turn], feasibility: Feasibility) -> Plan:
    verdicts = {turn.workload: verdict_of(turn, snapshot, feasibility) for turn in turns}
    return Plan(
        placements=tuple(Placement(turn.workload, *put) for turn in turns for put in turn.placed),
        nominations=tuple(Placement(turn.workload, *put) for turn in turns for put in turn.nominated),
        evictions=tuple(
            Eviction(turn.workload, task, "GangLost")
            for turn in turns
            if not turn.nominated and _is_given_up(verdicts[turn.workload], snapshot.now, config)
            for task in turn.workload.placed
        ),
        verdicts=verdicts,
    )


def _is_given_up(verdict: Verdict, now: float, config: SchedulerConfig) -> bool:
    """Whether a gang that lost a part has waited long enough for it."""
    if verdict.broken is None or config.disable_preemption:
        return False
    return now - verdict.broken >= config.gang_recovery_seconds
