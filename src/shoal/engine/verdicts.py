"""Verdicts: the state of each workload after a cycle, and the reasons, for its owner to act on.

The texts are part of the plan format (docs/plan-format.md).
"""

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from shoal.api.fields import pluralize
from shoal.engine.allocator import ServeResult, distinct_results
from shoal.engine.elastic import ElasticState
from shoal.engine.feasibility import Feasibility
from shoal.engine.placement import Misfit
from shoal.engine.plan import Eviction, State, Verdict
from shoal.engine.releasing import Releasing
from shoal.engine.resizing import Resizing
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import keeps_minimum
from shoal.engine.workload import Reason, ReasonCode, Workload


def verdicts_of(
    results: Mapping[Workload, ServeResult],
    snapshot: Snapshot,
    feasibility: Feasibility,
    releasing: Releasing,
    resizing: Resizing,
) -> dict[Workload, Verdict]:
    """Verdicts of all workloads that were served, evicted, resized or are in cooldown."""
    by_result = {result: _verdict_of(result, snapshot, feasibility) for result in distinct_results(results)}
    verdicts = {workload: by_result[result] for workload, result in results.items()}
    for workload, lost in _evictions_by_workload(releasing.evictions).items():
        if releasing.is_victim(workload):
            verdicts[workload] = _evicted_verdict(workload, lost, releasing, feasibility)
    for workload, state in resizing.states.items():
        cooling_down = workload in resizing.cooling_down and state.next_task is not None
        if state.nominated or cooling_down or state.name_taken:
            verdicts[workload] = _elastic_verdict(state, verdicts.get(workload), cooling_down=cooling_down)
    for workload, why in resizing.answers.refusals.items():
        verdict = verdicts.get(workload, Verdict(state="ScheduledSucceed", reasons=workload.remarks))
        verdicts[workload] = replace(verdict, reasons=(*verdict.reasons, Reason("PolicyRefused", why)))
    return verdicts


def _verdict_of(result: ServeResult, snapshot: Snapshot, feasibility: Feasibility) -> Verdict:
    """The verdict by what a workload got when it was served."""
    workload = result.workload
    if not result.unmet:
        return _minimum_met(result)
    if workload.held:
        return Verdict(state=_state_below_minimum(workload), reasons=_with_remarks(result, workload.held))
    reason, waiting = _why_unmet(result, snapshot, feasibility)
    state = _state_below_minimum(workload)
    if reason.code == "NeverFits" and state == "Unscheduled":
        state = "ScheduledFailed"
    broken = _broken_since(workload, snapshot.now)
    return Verdict(state=state, reasons=_with_remarks(result, reason), waiting=waiting, broken=broken)


def _state_below_minimum(workload: Workload) -> State:
    """The state of a workload with less than its minimum; it keeps what it has if its minimum was raised."""
    return "ScheduledPartly" if workload.placed and not workload.is_broken else "Unscheduled"


def _why_unmet(result: ServeResult, snapshot: Snapshot, feasibility: Feasibility) -> tuple[Reason, bool]:
    """Why a workload has less than its minimum, and whether it waits."""
    workload = result.workload
    if result.nominated:
        return _waiting_reason(result), feasibility.fits_home(workload)
    misfit = feasibility.never_fits(workload)
    if misfit:
        return Reason("NeverFits", _never_fits_message(workload, misfit)), False
    code: ReasonCode = "Behind" if result.blocked_by_reservations else "NoRoom"
    return Reason(code, _shortage_message(result, snapshot)), feasibility.fits_home(workload)


def _evictions_by_workload(evictions: list[Eviction]) -> dict[Workload, list[Eviction]]:
    lost: defaultdict[Workload, list[Eviction]] = defaultdict(list)
    for eviction in evictions:
        lost[eviction.workload].append(eviction)
    return lost


def _evicted_verdict(
    workload: Workload, lost: list[Eviction], releasing: Releasing, feasibility: Feasibility
) -> Verdict:
    """The verdict of a workload that lost tasks; an elastic one with its minimum whole lacks nothing."""
    whole = keeps_minimum(workload, releasing, without=())
    if whole and workload.elastic:
        return Verdict(state="ScheduledSucceed", reasons=workload.remarks)
    beneficiaries = sorted({eviction.beneficiary.key for eviction in lost if eviction.beneficiary})
    text = f"{len(lost)} of its pods must leave for {', '.join(beneficiaries) or 'others'}"
    reasons = (*workload.remarks, Reason("NoRoom", text))
    if whole:
        return Verdict(state="ScheduledPartly", reasons=reasons)
    waiting = not workload.held and feasibility.fits_home(workload)
    return Verdict(state="Unscheduled", reasons=reasons, waiting=waiting)


def _elastic_verdict(state: ElasticState, verdict: Verdict | None, *, cooling_down: bool) -> Verdict:
    """The verdict of an elastic workload that waits for room to grow, is in cooldown, or is blocked."""
    reasons = verdict.reasons if verdict else state.workload.remarks
    if state.name_taken:
        reasons += (Reason("NameTaken", "it could grow, but the next pod's name has another owner"),)
    if cooling_down:
        reasons += (Reason("Held", "it was resized a short while ago; it may grow again after the cooldown"),)
    if not state.nominated:
        return Verdict(state="ScheduledSucceed", reasons=reasons)
    more = pluralize(len(state.nominated), "pod")
    waits = Reason("WaitingForRoom", f"{more} more when others have left; the room is kept")
    return Verdict(state="ScheduledPartly", reasons=(*reasons, waits))


def _broken_since(workload: Workload, now: float) -> float | None:
    """Since when a workload that has nodes has had less than its minimum, if that breaks it."""
    if not workload.is_broken:
        return None
    return now if workload.broken_since is None else workload.broken_since


def _minimum_met(result: ServeResult) -> Verdict:
    """The verdict of a workload whose minimum is whole; varying tasks may still wait."""
    workload = result.workload
    short = len(workload.missing) - len(result.placed)
    whole = not short or workload.elastic
    if workload.held:
        state: State = "ScheduledSucceed" if whole else "ScheduledPartly"
        return Verdict(state=state, reasons=_with_remarks(result, workload.held))
    if whole:
        return Verdict(state="ScheduledSucceed", reasons=workload.remarks)
    role = next(task.role for task in workload.tasks if task.varying)
    reason = Reason(
        "Behind" if result.blocked_by_reservations else "NoRoom",
        f"{short} of {_varying_count(workload)} {role}s wait: {_cause(result)}",
    )
    return Verdict(state="ScheduledPartly", reasons=_with_remarks(result, reason))


def _waiting_reason(result: ServeResult) -> Reason:
    pods = "1 pod waits" if len(result.nominated) == 1 else f"{len(result.nominated)} pods wait"
    waits_for = "pods that must leave for it" if result.evicting else "pods that are terminating"
    return Reason("WaitingForRoom", f"{pods} for {waits_for}; the room is kept")


def _never_fits_message(workload: Workload, misfit: Misfit) -> str:
    """Why a workload can never run."""
    if len(workload.tasks) == 1:
        return f"it would not fit even if all nodes were empty: {misfit.message}"
    together, name = _gang_message(workload), misfit.task.name
    return f"{together}; even if all nodes were empty {name} finds none: {misfit.message}"


def _shortage_message(result: ServeResult, snapshot: Snapshot) -> str:
    """Why a workload got less than its minimum."""
    workload = result.workload
    pool = snapshot.pools[workload.pool].name
    if result.blocked_by_reservations or result.misfit is None:
        return f"pool {pool}: {_cause(result)}"
    if len(workload.tasks) == 1:
        return f"pool {pool}: {result.misfit.message}"
    together, name = _gang_message(workload), result.misfit.task.name
    return f"{together}; in pool {pool} {name} finds none: {result.misfit.message}"


def _cause(result: ServeResult) -> str:
    workload = result.workload
    if result.blocked_by_reservations:
        return "there is room, but it is kept for jobs before this one"
    if result.misfit:
        return result.misfit.message
    if _varying_count(workload) < workload.minimum:
        return f"{_varying_count(workload)} of {workload.minimum} pods exist, and none starts before all do"
    return "its other pods are outside this pool, and it is not split"


def _gang_message(workload: Workload) -> str:
    """The tasks that must start together, in words."""
    fixed = [task for task in workload.tasks if task.is_fixed]
    names = [fixed[0].name] if len(fixed) == 1 else [f"{len(fixed)} pods"] if fixed else []
    least = workload.minimum - workload.done
    varying = next((task.role for task in workload.tasks if task.varying), "pod")
    if least > 0:
        names.append(f"{least} {varying}" + "s" * (least > 1))
    return f"{' and '.join(names)} need nodes together"


def _varying_count(workload: Workload) -> int:
    """The number of varying tasks that exist, finished ones included."""
    return workload.done + sum(task.varying for task in workload.tasks)


def _with_remarks(result: ServeResult, reason: Reason) -> tuple[Reason, ...]:
    return (*result.workload.remarks, reason)
