"""Random schedules of all faults that Shoal has to cope with."""

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from shoal.simulator.schedule import (
    AnyFault,
    BreakWatch,
    ClockJump,
    Crash,
    Duplicate,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
)

FaultTiming = Mapping[str, Any]
"""`at` or `nth` of a fault."""

_MAX_DURATION: Final = 300.0
"""Seconds that a fault lasts at most."""
_REFUSALS: Final = (
    *(("write", code) for code in (409, 429, 500, 503)),
    *(("read", code) for code in (429, 500, 503)),
    *(("watch", code) for code in (410, 429, 500, 503)),
    *(("event", code) for code in (410, 500, 503)),
    ("list", 410),
)


class ChaosOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The number of faults, and the range of seconds and calls (of each type) in which they occur.

    Without `nodes` no node is lost; a lost one is back within `max_node_loss` seconds.
    """

    faults: int = 20
    seconds: float = 600.0
    calls: int = 200
    nodes: Sequence[str] = ()
    max_node_loss: float = _MAX_DURATION


def random_schedule(
    rng: random.Random, options: ChaosOptions, exclude: Collection[type[AnyFault]] = ()
) -> Schedule:
    """Return a schedule of random faults of all types but the excluded ones."""
    makers = [make for kind, make in _MAKERS.items() if kind not in exclude]
    if not options.nodes and _node_loss in makers:
        makers.remove(_node_loss)
    return Schedule(
        tuple(rng.choice(makers)(rng, _timing(rng, options), options) for _ in range(options.faults))
    )


def _timing(rng: random.Random, options: ChaosOptions) -> FaultTiming:
    if rng.choice((False, True)):
        return {"at": round(rng.uniform(0.0, options.seconds), 3)}
    return {"nth": rng.randint(1, options.calls)}


def _duration(rng: random.Random, longest: float = _MAX_DURATION) -> float:
    """Return seconds, from 0.01 to the longest, on a logarithmic scale: short times are more frequent."""
    return round(math.pow(10.0, rng.uniform(-2.0, math.log10(longest))), 3)


def _refuse(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    on, code = rng.choice(_REFUSALS)
    applied = on == "write" and rng.choice((False, True))
    return Refuse(**timing, on=on, code=code, applied=applied, retry_after=rng.choice((None, _duration(rng))))


def _slow(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    on = rng.choice(("write", "read", "watch", "event"))
    return Slow(**timing, on=on, seconds=_duration(rng), answer=rng.choice((False, True)))


def _duplicate(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    return Duplicate(**timing, seconds=_duration(rng), answered_by=rng.choice(("first", "second")))


def _break_watch(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    return BreakWatch(**timing, seconds=_duration(rng), clean=rng.choice((False, True)))


def _outage(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    return Outage(**timing, seconds=_duration(rng))


def _crash(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    return Crash(**timing, after=rng.choice((False, True)), down=_duration(rng))


def _clock_jump(rng: random.Random, timing: FaultTiming, _: ChaosOptions) -> AnyFault:
    return ClockJump(**timing, seconds=_duration(rng) * rng.choice((-1.0, 1.0)))


def _node_loss(rng: random.Random, timing: FaultTiming, options: ChaosOptions) -> AnyFault:
    return NodeLoss(**timing, node=rng.choice(options.nodes), seconds=_duration(rng, options.max_node_loss))


_MAKERS: Final[Mapping[type[AnyFault], Callable[[random.Random, FaultTiming, ChaosOptions], AnyFault]]] = {
    Refuse: _refuse,
    Slow: _slow,
    Duplicate: _duplicate,
    BreakWatch: _break_watch,
    Outage: _outage,
    Crash: _crash,
    ClockJump: _clock_jump,
    NodeLoss: _node_loss,
}
