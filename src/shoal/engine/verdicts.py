"""Verdicts: how a workload stands after its turn, in words that its owner can act on."""

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from shoal.api.fields import many
from shoal.engine.allocator import Turn, distinct
from shoal.engine.elastic import Grower
from shoal.engine.feasibility import Feasibility
from shoal.engine.placement import Misfit
from shoal.engine.plan import Eviction, State, Verdict
from shoal.engine.releasing import Departures
from shoal.engine.resizing import Resizing
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import keeps_minimum
from shoal.engine.workload import Reason, Workload


def verdicts_of(
    turns: Mapping[Workload, Turn],
    snapshot: Snapshot,
    feasibility: Feasibility,
    departures: Departures,
    resizing: Resizing,
) -> dict[Workload, Verdict]:
    """Judge all who had a turn, had to leave, or were resized or rest."""
    judged = {turn: _verdict_of(turn, snapshot, feasibility) for turn in distinct(turns)}
    verdicts = {workload: judged[turn] for workload, turn in turns.items()}
    for workload, lost in _losses(departures.evictions).items():
        if departures.is_victim(workload):
            verdicts[workload] = _evicted(workload, lost, departures, feasibility)
    for workload, grower in resizing.growers.items():
        resting = workload in resizing.resting and grower.next is not None
        if grower.nominated or resting or grower.is_blocked:
            verdicts[workload] = _resized(grower, verdicts.get(workload), resting=resting)
    for workload, why in resizing.counsel.refusals.items():
        known = verdicts.get(workload, Verdict(state="ScheduledSucceed", reasons=workload.remarks))
        verdicts[workload] = replace(known, reasons=(*known.reasons, Reason("PolicyRefused", why)))
    return verdicts


def _verdict_of(turn: Turn, snapshot: Snapshot, feasibility: Feasibility) -> Verdict:
    """Judge a workload by what it got."""
    workload = turn.workload
    if not turn.unmet:
        return _met(turn)
    if workload.held:
        return Verdict(state="Unscheduled", reasons=_all(turn, workload.held))
    broken = _broken_since(workload, snapshot.now)
    if turn.nominated:
        waiting = feasibility.fits_home(workload)
        return Verdict(state="Unscheduled", reasons=_all(turn, _waits(turn)), waiting=waiting, broken=broken)
    never = feasibility.never(workload)
    if never:
        text = _impossible(workload, never)
        return Verdict(state="ScheduledFailed", reasons=_all(turn, Reason("NeverFits", text)), broken=broken)
    reason = Reason("Behind" if turn.behind else "NoRoom", _shortage(turn, snapshot))
    waiting = feasibility.fits_home(workload)
    return Verdict(state="Unscheduled", reasons=_all(turn, reason), waiting=waiting, broken=broken)


def _losses(evictions: list[Eviction]) -> dict[Workload, list[Eviction]]:
    lost: defaultdict[Workload, list[Eviction]] = defaultdict(list)
    for eviction in evictions:
        lost[eviction.workload].append(eviction)
    return lost


def _evicted(
    workload: Workload, lost: list[Eviction], departures: Departures, feasibility: Feasibility
) -> Verdict:
    """How a workload stands that had to give up tasks; an elastic one that has its minimum lacks nothing."""
    whole = keeps_minimum(workload, departures, without=())
    if whole and workload.elastic:
        return Verdict(state="ScheduledSucceed", reasons=workload.remarks)
    for_whom = sorted({eviction.beneficiary.key for eviction in lost if eviction.beneficiary})
    text = f"{len(lost)} of its pods must leave for {', '.join(for_whom) or 'others'}"
    reasons = (*workload.remarks, Reason("NoRoom", text))
    if whole:
        return Verdict(state="ScheduledPartly", reasons=reasons)
    waiting = not workload.held and feasibility.fits_home(workload)
    return Verdict(state="Unscheduled", reasons=reasons, waiting=waiting)


def _resized(grower: Grower, known: Verdict | None, *, resting: bool) -> Verdict:
    """How an elastic workload stands that waits for room to grow, or rests."""
    reasons = known.reasons if known else grower.workload.remarks
    if grower.is_blocked:
        reasons += (Reason("NameTaken", "it could grow, but the next pod's name belongs to somebody else"),)
    if resting:
        reasons += (Reason("Held", "it was resized a short while ago, and rests before it may grow"),)
    if not grower.nominated:
        return Verdict(state="ScheduledSucceed", reasons=reasons)
    more = many(len(grower.nominated), "pod")
    waits = Reason("WaitingForRoom", f"{more} more when others have left; the room is kept")
    return Verdict(state="ScheduledPartly", reasons=(*reasons, waits))


def _broken_since(workload: Workload, now: float) -> float | None:
    """Since when a workload that has nodes has had less than its minimum."""
    if not workload.placed:
        return None
    return now if workload.broken_since is None else workload.broken_since


def _met(turn: Turn) -> Verdict:
    """Its minimum is whole; what varies may still lack some."""
    workload = turn.workload
    short = len(workload.missing) - len(turn.placed)
    whole = not short or workload.elastic
    if workload.held:
        state: State = "ScheduledSucceed" if whole else "ScheduledPartly"
        return Verdict(state=state, reasons=_all(turn, workload.held))
    if whole:
        return Verdict(state="ScheduledSucceed", reasons=workload.remarks)
    role = next(task.role for task in workload.tasks if task.varying)
    reason = Reason(
        "Behind" if turn.behind else "NoRoom",
        f"{short} of {_varying(workload)} {role}s wait: {_why(turn)}",
    )
    return Verdict(state="ScheduledPartly", reasons=_all(turn, reason))


def _waits(turn: Turn) -> Reason:
    pods = "1 pod waits" if len(turn.nominated) == 1 else f"{len(turn.nominated)} pods wait"
    for_whom = "pods that must leave for it" if turn.evicting else "pods that are terminating"
    return Reason("WaitingForRoom", f"{pods} for {for_whom}; the room is kept")


def _impossible(workload: Workload, never: Misfit) -> str:
    """Why a workload can never run."""
    if len(workload.tasks) == 1:
        return f"it would not fit even if all nodes were empty: {never.complaint}"
    return (
        f"{_together(workload)}; even if all nodes were empty {never.task.name} finds none: {never.complaint}"
    )


def _shortage(turn: Turn, snapshot: Snapshot) -> str:
    """Why a workload got less than its minimum."""
    workload = turn.workload
    pool = snapshot.pools[workload.pool].name
    if turn.behind or turn.misfit is None:
        return f"pool {pool}: {_why(turn)}"
    if len(workload.tasks) == 1:
        return f"pool {pool}: {turn.misfit.complaint}"
    return (
        f"{_together(workload)}; in pool {pool} {turn.misfit.task.name} finds none: {turn.misfit.complaint}"
    )


def _why(turn: Turn) -> str:
    workload = turn.workload
    if turn.behind:
        return "there is room, but it is kept for jobs before this one"
    if turn.misfit:
        return turn.misfit.complaint
    if _varying(workload) < workload.minimum:
        return f"{_varying(workload)} of {workload.minimum} pods exist, and none starts before all do"
    return "its other pods are outside this pool, and it is not split"


def _together(workload: Workload) -> str:
    """What must start together, in words."""
    fixed = [task for task in workload.tasks if task.is_fixed]
    names = [fixed[0].name] if len(fixed) == 1 else [f"{len(fixed)} pods"] if fixed else []
    least = workload.minimum - workload.done
    varying = next((task.role for task in workload.tasks if task.varying), "pod")
    if least > 0:
        names.append(f"{least} {varying}" + "s" * (least > 1))
    return f"{' and '.join(names)} need nodes together"


def _varying(workload: Workload) -> int:
    return workload.done + sum(task.varying for task in workload.tasks)


def _all(turn: Turn, reason: Reason) -> tuple[Reason, ...]:
    return (*turn.workload.remarks, reason)
