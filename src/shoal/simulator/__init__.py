"""The simulated home: the port in memory, on virtual time, with faults by a schedule.

`running` runs a coroutine on a `loop` whose time jumps from timer to timer. `home` is the store. A process of
Shoal reaches it through a `connection` (its watches are in `stream`), which does to each call what a
`schedule` says; `faults` finds what that is. `process` crashes it and begins it anew. `chaos` makes schedules
by dice, and `shrinking` finds what of one is to blame. `machines` has nodes, and pods that live by a script.

    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            faults = Faults(Schedule((Crash(nth=17),)), simulation.clock)
            await lasting(store, faults, shoal)

    run(main, seed=7)
"""

from shoal.simulator.chaos import Extent, random_schedule
from shoal.simulator.connection import Connection
from shoal.simulator.faults import Faults
from shoal.simulator.loop import NotSimulatedError, StuckError, VirtualLoop
from shoal.simulator.process import CrashedError, lasting, once
from shoal.simulator.schedule import (
    AnyFault,
    ClockJump,
    Crash,
    Cut,
    Lose,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
    Twice,
    parse,
    shrunk,
)
from shoal.simulator.simulation import START, Chronicle, SimulatedCluster, Simulation, WallClock, run

__all__ = [
    "START",
    "AnyFault",
    "Chronicle",
    "ClockJump",
    "Connection",
    "Crash",
    "CrashedError",
    "Cut",
    "Extent",
    "Faults",
    "Lose",
    "NodeLoss",
    "NotSimulatedError",
    "Outage",
    "Refuse",
    "Schedule",
    "SimulatedCluster",
    "Simulation",
    "Slow",
    "StuckError",
    "Twice",
    "VirtualLoop",
    "WallClock",
    "lasting",
    "once",
    "parse",
    "random_schedule",
    "run",
    "shrunk",
]
