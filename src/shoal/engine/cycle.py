"""One cycle: a Snapshot goes in, a Plan comes out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from shoal.engine.affinity import InterPodRules
from shoal.engine.allocator import Allocator, ServeResult, distinct_results
from shoal.engine.borrowing import Borrowing
from shoal.engine.config import SchedulerConfig
from shoal.engine.feasibility import Feasibility
from shoal.engine.filters import Filters
from shoal.engine.ledger import Ledger
from shoal.engine.plan import Eviction, Placement, Plan, Resize, Verdict
from shoal.engine.policy_answers import NO_ANSWERS, CheckedAnswers, PolicyAnswers
from shoal.engine.queues import queue_key
from shoal.engine.releasing import Releasing
from shoal.engine.resizing import Resizing
from shoal.engine.snapshot import Snapshot
from shoal.engine.verdicts import verdicts_of
from shoal.engine.workload import Workload


def cycle(snapshot: Snapshot, config: SchedulerConfig, answers: PolicyAnswers = NO_ANSWERS) -> Plan:
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

    checked = CheckedAnswers(snapshot, answers)
    allocator = Allocator(snapshot, filters, config, checked)
    resizing = Resizing(snapshot, filters, allocator, config, checked)
    resizing.cut(elastic)
    allocator.restore_reservations(queue)
    results = {workload: allocator.serve(workload) for workload in queue}
    feasibility = Feasibility(snapshot, Filters(filters.ledger, ignore_transient=True))
    feasibility.evaluate(_unmet(results))
    _borrow(snapshot, allocator, feasibility, results, in_order)
    resizing.resize(results, elastic, _crowded(results, allocator, feasibility))
    verdicts = verdicts_of(results, snapshot, feasibility, allocator.releasing, resizing)
    if not config.disable_preemption:
        late = snapshot.now - config.gang_recovery_seconds
        _give_up(verdicts, results, allocator.releasing, late)
    return _plan(results, resizing, verdicts, allocator.releasing.evictions)


def _unmet(results: Mapping[Workload, ServeResult]) -> list[Workload]:
    """Those whose minimum could be served and is not whole; one for all who share a turn."""
    return [
        result.workload for result in distinct_results(results) if result.unmet and not result.workload.held
    ]


def _crowded(
    results: Mapping[Workload, ServeResult], allocator: Allocator, feasibility: Feasibility
) -> set[int]:
    """Pools in which somebody waits for a minimum that could be had there."""
    gone = allocator.releasing.fully_evicted()
    return {workload.pool for workload in (*_unmet(results), *gone) if feasibility.fits_home(workload)}


def _borrow(
    snapshot: Snapshot,
    allocator: Allocator,
    feasibility: Feasibility,
    results: dict[Workload, ServeResult],
    queue: list[Workload],
) -> None:
    """Let those who lack room at home ask others; where borrowing comes first, make room if that fails."""
    asking = {result for result in distinct_results(results) if _asks(result, allocator)}
    if asking:
        hopeful = {results[workload] for workload in _unmet(results) if feasibility.fits_home(workload)}
        borrowing = Borrowing(snapshot, allocator, feasibility, [w for w in queue if results[w] in hopeful])
        in_vain: set[ServeResult] = set()
        for workload, result in [(w, results[w]) for w in queue if results[w] in asking]:
            if result in in_vain or allocator.releasing.is_victim(workload):
                continue
            got = borrowing.serve(workload) or allocator.preempt_after_borrowing(workload)
            if got is None:
                in_vain.add(result)
            else:
                in_vain.clear()
                del results[workload]
                results[workload] = got
    feasibility.evaluate(allocator.releasing.fully_evicted())


def _asks(result: ServeResult, allocator: Allocator) -> bool:
    """Whether a workload got nothing at home, or has its place elsewhere and lacks something there."""
    workload = result.workload
    if workload.held or result.nominated or result.placed:
        return False
    return allocator.is_borrowing(workload) and bool(workload.missing) if workload.placed else result.unmet


def _home(workload: Workload) -> int:
    return workload.pool


def _neighbours(snapshot: Snapshot) -> InterPodRules | None:
    """Who is where, if anybody minds."""
    shapes = {task.shape for workload in snapshot.unsettled for task in workload.missing}
    shapes |= {shape for workload in snapshot.elastic if workload.growth for shape in workload.growth.shapes}
    minded = bool(shapes) and (
        snapshot.has_anti_affinity or any(shape.has_inter_pod_rules for shape in shapes)
    )
    return InterPodRules(snapshot.nodes, snapshot.occupants) if minded else None


def _give_up(
    verdicts: Mapping[Workload, Verdict],
    results: Mapping[Workload, ServeResult],
    releasing: Releasing,
    late: float,
) -> None:
    """Send away what is left of gangs that lost a part at a time so long ago, and did not get it back."""
    for workload, verdict in verdicts.items():
        if verdict.broken is not None and verdict.broken <= late and not results[workload].nominated:
            releasing.evict(workload, releasing.remaining(workload), "GangLost")


def _plan(
    results: Mapping[Workload, ServeResult],
    resizing: Resizing,
    verdicts: dict[Workload, Verdict],
    evictions: list[Eviction],
) -> Plan:
    got = [Placement(result.workload, *put) for result in results.values() for put in result.placed]
    kept = [(result.workload, result.nominated) for result in results.values()]
    kept += [(state.workload, state.nominated) for state in resizing.states.values()]
    return Plan(
        placements=(*got, *resizing.placements),
        nominations=tuple(Placement(workload, *put) for workload, placed in kept for put in placed),
        evictions=tuple(evictions),
        resizes=tuple(_resizes(results, resizing, evictions)),
        verdicts=verdicts,
    )


def _resizes(
    results: Mapping[Workload, ServeResult], resizing: Resizing, evictions: Iterable[Eviction]
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
            fresh = results[workload].placed if workload in results else []
            tasks = [*workload.placed, *(task for task, _ in fresh)]
            before = workload.done + sum(task.varying for task in tasks)
            yield Resize(workload, before, before + more)
