"""Finds what of a schedule is to blame: the fewest faults with which a run still fails."""

from collections.abc import Callable, Sequence

from shoal.cluster.simulated.schedule import AnyFault, Schedule


def shrunk(schedule: Schedule, still_fails: Callable[[Schedule], bool]) -> Schedule:
    """A part of the schedule that still fails, and would not without any one of its faults.

    The schedule itself is taken to fail. Large parts are left out first, then ever smaller ones, so that a
    few faults among many are found in few runs.
    """
    faults, size = schedule.faults, len(schedule.faults)
    while size > 0:
        smaller = _without_parts(faults, size, still_fails)
        size = size // 2 if len(smaller) == len(faults) or size > 1 else 1
        faults = smaller
    return Schedule(faults)


def _without_parts(
    faults: tuple[AnyFault, ...], size: int, still_fails: Callable[[Schedule], bool]
) -> tuple[AnyFault, ...]:
    """What is left when every part of a size has been left out that is not needed."""
    kept: Sequence[AnyFault] = faults
    for start in range(len(faults) - 1, -1, -size):
        first = max(start - size + 1, 0)
        fewer = (*kept[:first], *kept[start + 1 :])
        if still_fails(Schedule(fewer)):
            kept = fewer
    return tuple(kept)
