"""The simulated home: the port in memory, on virtual time, with faults by a schedule.

`run` (in `running`) runs a coroutine on a `loop` whose time jumps from timer to timer. `home` is the store.
"""

from shoal.cluster.simulated.home import Chronicle, SimulatedCluster
from shoal.cluster.simulated.loop import NotSimulatedError, StuckError, VirtualLoop
from shoal.cluster.simulated.running import START, Simulation, WallClock, run

__all__ = [
    "START",
    "Chronicle",
    "NotSimulatedError",
    "SimulatedCluster",
    "Simulation",
    "StuckError",
    "VirtualLoop",
    "WallClock",
    "run",
]
