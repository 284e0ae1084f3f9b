"""Schedules by dice: of everything that can go wrong and that Shoal must live with."""

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from shoal.simulator.schedule import (
    AnyFault,
    ClockJump,
    Crash,
    Cut,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
    Twice,
)

When = Mapping[str, Any]
"""`at` or `nth` of a fault."""

_LONGEST: Final = 300.0
"""Seconds that a fault lasts at most."""
_REFUSALS: Final = (
    *(("write", code) for code in (409, 429, 500, 503)),
    *(("read", code) for code in (429, 500, 503)),
    *(("watch", code) for code in (410, 429, 500, 503)),
    *(("event", code) for code in (410, 500, 503)),
    ("list", 410),
)


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to go wrong: so many faults, within so many seconds and calls of each sort.

    Without `nodes` none is lost; one that is comes back within `absence` seconds.
    """

    faults: int = 20
    seconds: float = 600.0
    calls: int = 200
    nodes: Sequence[str] = ()
    absence: float = _LONGEST


def random_schedule(
    dice: random.Random, extent: Extent, leave_out: Collection[type[AnyFault]] = ()
) -> Schedule:
    """Faults of all kinds, but for those to be left out."""
    makers = [make for kind, make in _MAKERS.items() if kind not in leave_out]
    if not extent.nodes and _node_loss in makers:
        makers.remove(_node_loss)
    return Schedule(
        tuple(dice.choice(makers)(dice, _when(dice, extent), extent) for _ in range(extent.faults))
    )


def _when(dice: random.Random, extent: Extent) -> When:
    if dice.choice((False, True)):
        return {"at": round(dice.uniform(0.0, extent.seconds), 3)}
    return {"nth": dice.randint(1, extent.calls)}


def _seconds(dice: random.Random, longest: float = _LONGEST) -> float:
    """From a moment to some minutes, short ones more often."""
    return round(math.pow(10.0, dice.uniform(-2.0, math.log10(longest))), 3)


def _refuse(dice: random.Random, when: When, _: Extent) -> AnyFault:
    on, code = dice.choice(_REFUSALS)
    applied = on == "write" and dice.choice((False, True))
    return Refuse(**when, on=on, code=code, applied=applied, retry_after=dice.choice((None, _seconds(dice))))


def _slow(dice: random.Random, when: When, _: Extent) -> AnyFault:
    on = dice.choice(("write", "read", "watch", "event"))
    return Slow(**when, on=on, seconds=_seconds(dice), answer=dice.choice((False, True)))


def _twice(dice: random.Random, when: When, _: Extent) -> AnyFault:
    return Twice(**when, seconds=_seconds(dice), heard=dice.choice(("first", "second")))


def _cut(dice: random.Random, when: When, _: Extent) -> AnyFault:
    return Cut(**when, seconds=_seconds(dice), clean=dice.choice((False, True)))


def _outage(dice: random.Random, when: When, _: Extent) -> AnyFault:
    return Outage(**when, seconds=_seconds(dice))


def _crash(dice: random.Random, when: When, _: Extent) -> AnyFault:
    return Crash(**when, after=dice.choice((False, True)), down=_seconds(dice))


def _clock_jump(dice: random.Random, when: When, _: Extent) -> AnyFault:
    return ClockJump(**when, seconds=_seconds(dice) * dice.choice((-1.0, 1.0)))


def _node_loss(dice: random.Random, when: When, extent: Extent) -> AnyFault:
    return NodeLoss(**when, node=dice.choice(extent.nodes), seconds=_seconds(dice, extent.absence))


_MAKERS: Final[Mapping[type[AnyFault], Callable[[random.Random, When, Extent], AnyFault]]] = {
    Refuse: _refuse,
    Slow: _slow,
    Twice: _twice,
    Cut: _cut,
    Outage: _outage,
    Crash: _crash,
    ClockJump: _clock_jump,
    NodeLoss: _node_loss,
}
