"""The simulated cluster: the port in memory, on virtual time, with faults injected by a schedule.

`simulation.run` runs a coroutine on a `loop` whose time jumps from timer to timer. `SimulatedCluster` holds
the objects. A simulated process of Shoal reaches it through a `connection`, which does to each call what the
`schedule` says; `faults` looks up what that is. `process` crashes and restarts the process. `chaos` makes
random schedules, and `schedule.shrink` finds the faults of one that make a run fail. `kubelet` simulates
nodes, and pods that follow a script.

    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            faults = FaultInjector(Schedule((Crash(nth=17),)), simulation.clock)
            await run_with_restarts(store, faults, shoal)

    run(main, seed=7)
"""

from shoal.simulator.chaos import ChaosOptions, random_schedule
from shoal.simulator.connection import Connection
from shoal.simulator.faults import FaultInjector
from shoal.simulator.loop import NotSimulatedError, StuckError, VirtualLoop
from shoal.simulator.process import CrashedError, run_once, run_with_restarts
from shoal.simulator.schedule import (
    AnyFault,
    BreakWatch,
    ClockJump,
    Crash,
    DropEvent,
    Duplicate,
    Freeze,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
    parse_schedule,
    shrink,
)
from shoal.simulator.simulation import START, ChangeLog, SimulatedCluster, Simulation, WallClock, run

__all__ = [
    "START",
    "AnyFault",
    "BreakWatch",
    "ChangeLog",
    "ChaosOptions",
    "ClockJump",
    "Connection",
    "Crash",
    "CrashedError",
    "DropEvent",
    "Duplicate",
    "FaultInjector",
    "Freeze",
    "NodeLoss",
    "NotSimulatedError",
    "Outage",
    "Refuse",
    "Schedule",
    "SimulatedCluster",
    "Simulation",
    "Slow",
    "StuckError",
    "VirtualLoop",
    "WallClock",
    "parse_schedule",
    "random_schedule",
    "run",
    "run_once",
    "run_with_restarts",
    "shrink",
]
