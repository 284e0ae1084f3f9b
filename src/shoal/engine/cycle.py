"""One scheduling cycle: takes a Snapshot, returns a Plan."""

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
    """Decide what happens now; `answers` are those of the user's elastic policy for this snapshot.

    1. Elastic workloads above their ceilings are cut; reservations of earlier cycles are restored.
    2. Every pool serves its queue in order; a workload that does not fit may preempt.
    3. Workloads that got nothing are evaluated: could they ever run?
    4. Workloads that still lack room try to borrow it, in one order across all pools.
    5. Elastic workloads grow, and are rebalanced in pools where no workload waits.
    6. Gangs that lost a part and did not get it back in time are evicted.
    """
    filters = Filters(Ledger(snapshot.nodes, snapshot.used, _inter_pod_rules(snapshot)))
    key = queue_key(snapshot, config.queue_policy)
    in_order = sorted(snapshot.unsettled, key=key)
    queue = sorted(in_order, key=_home_pool)
    elastic = sorted(sorted(snapshot.elastic, key=key), key=_home_pool)

    checked = CheckedAnswers(snapshot, answers)
    allocator = Allocator(snapshot, filters, config, checked)
    resizing = Resizing(snapshot, filters, allocator, config, checked)
    resizing.cut(elastic)
    allocator.restore_reservations(queue)
    results = {workload: allocator.serve(workload) for workload in queue}
    feasibility = Feasibility(snapshot, Filters(filters.ledger, ignore_transient=True))
    feasibility.evaluate(_unmet_minimums(results))
    _borrow(snapshot, allocator, feasibility, results, in_order)
    resizing.resize(results, elastic, _contended_pools(results, allocator, feasibility))
    verdicts = verdicts_of(results, snapshot, feasibility, allocator.releasing, resizing)
    if not config.disable_preemption:
        deadline = snapshot.now - config.gang_recovery_seconds
        _evict_broken_gangs(verdicts, results, allocator.releasing, deadline)
    return _plan(results, resizing, verdicts, allocator.releasing.evictions)


def _unmet_minimums(results: Mapping[Workload, ServeResult]) -> list[Workload]:
    """Workloads that are not held and whose minimum is not whole; one of each shared result."""
    return [
        result.workload for result in distinct_results(results) if result.unmet and not result.workload.held
    ]


def _contended_pools(
    results: Mapping[Workload, ServeResult], allocator: Allocator, feasibility: Feasibility
) -> set[int]:
    """Pools in which a workload waits for a minimum that would fit there."""
    evicted = allocator.releasing.fully_evicted()
    return {
        workload.pool for workload in (*_unmet_minimums(results), *evicted) if feasibility.fits_home(workload)
    }


def _borrow(
    snapshot: Snapshot,
    allocator: Allocator,
    feasibility: Feasibility,
    results: dict[Workload, ServeResult],
    queue: list[Workload],
) -> None:
    """Let workloads that lack room at home borrow; if they fail, preempt where borrowing comes first."""
    candidates = {result for result in distinct_results(results) if _may_borrow(result, allocator)}
    if candidates:
        waiting = {
            results[workload] for workload in _unmet_minimums(results) if feasibility.fits_home(workload)
        }
        borrowing = Borrowing(snapshot, allocator, feasibility, [w for w in queue if results[w] in waiting])
        failed: set[ServeResult] = set()
        for workload, result in [(w, results[w]) for w in queue if results[w] in candidates]:
            if result in failed or allocator.releasing.is_victim(workload):
                continue
            served = borrowing.serve(workload) or allocator.preempt_after_borrowing(workload)
            if served is None:
                failed.add(result)
            else:
                failed.clear()
                del results[workload]
                results[workload] = served
    feasibility.evaluate(allocator.releasing.fully_evicted())


def _may_borrow(result: ServeResult, allocator: Allocator) -> bool:
    """Whether a workload got nothing at home, or runs in another pool and lacks tasks there."""
    workload = result.workload
    if workload.held or result.nominated or result.placed:
        return False
    return allocator.is_borrowing(workload) and bool(workload.missing) if workload.placed else result.unmet


def _home_pool(workload: Workload) -> int:
    return workload.pool


def _inter_pod_rules(snapshot: Snapshot) -> InterPodRules | None:
    """The inter-pod rules of the snapshot; None if no rule can matter in this cycle."""
    shapes = {task.shape for workload in snapshot.unsettled for task in workload.missing}
    shapes |= {shape for workload in snapshot.elastic if workload.growth for shape in workload.growth.shapes}
    needed = bool(shapes) and (
        snapshot.has_anti_affinity or any(shape.has_inter_pod_rules for shape in shapes)
    )
    return InterPodRules(snapshot.nodes, snapshot.occupants) if needed else None


def _evict_broken_gangs(
    verdicts: Mapping[Workload, Verdict],
    results: Mapping[Workload, ServeResult],
    releasing: Releasing,
    deadline: float,
) -> None:
    """Evict the rest of gangs that lost a part before `deadline` and did not get it back."""
    for workload, verdict in verdicts.items():
        if verdict.broken is not None and verdict.broken <= deadline and not results[workload].nominated:
            releasing.evict(workload, releasing.remaining(workload), "GangLost")


def _plan(
    results: Mapping[Workload, ServeResult],
    resizing: Resizing,
    verdicts: dict[Workload, Verdict],
    evictions: list[Eviction],
) -> Plan:
    placed = [
        Placement(result.workload, *assignment) for result in results.values() for assignment in result.placed
    ]
    nominated = [(result.workload, result.nominated) for result in results.values()]
    nominated += [(state.workload, state.nominated) for state in resizing.states.values()]
    return Plan(
        placements=(*placed, *resizing.placements),
        nominations=tuple(
            Placement(workload, *assignment) for workload, tasks in nominated for assignment in tasks
        ),
        evictions=tuple(evictions),
        resizes=tuple(_resizes(results, resizing, evictions)),
        verdicts=verdicts,
    )


def _resizes(
    results: Mapping[Workload, ServeResult], resizing: Resizing, evictions: Iterable[Eviction]
) -> Iterator[Resize]:
    """The change of size of each elastic workload that grew or shrank; a start is neither."""
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
