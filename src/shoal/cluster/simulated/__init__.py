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

from shoal.cluster.simulated.chaos import Extent, random_schedule
from shoal.cluster.simulated.connection import Connection
from shoal.cluster.simulated.faults import Faults
from shoal.cluster.simulated.home import Chronicle, SimulatedCluster
from shoal.cluster.simulated.loop import NotSimulatedError, StuckError, VirtualLoop
from shoal.cluster.simulated.process import CrashedError, lasting, once
from shoal.cluster.simulated.running import START, Simulation, WallClock, run
from shoal.cluster.simulated.schedule import (
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
)
from shoal.cluster.simulated.shrinking import shrunk

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
