"""Machines without containers: nodes that report, and pods that live by a script, on any home.

`kubelet` plays the nodes. `machine` is one of them, with its `pod`s; `statuses` is what is written about
these. `lives` says what becomes of a pod, moment by moment, and `drawing` leaves that to dice.
"""

from shoal.cluster.nodes import HEARTBEAT, LEASES_LIVE_IN
from shoal.cluster.simulated.machines.clocks import Clock, LoopClock
from shoal.cluster.simulated.machines.drawing import Habits, drawn_lives
from shoal.cluster.simulated.machines.kubelet import Kubelet, kubelet
from shoal.cluster.simulated.machines.lives import NEVER_STARTS, Life, Step, runs_for
from shoal.cluster.simulated.machines.machine import KILLED, Script

__all__ = [
    "HEARTBEAT",
    "KILLED",
    "LEASES_LIVE_IN",
    "NEVER_STARTS",
    "Clock",
    "Habits",
    "Kubelet",
    "Life",
    "LoopClock",
    "Script",
    "Step",
    "drawn_lives",
    "kubelet",
    "runs_for",
]
