"""Machines without containers: nodes that report, and pods that live by a script, on any home.

`kubelet` plays the nodes. `machine` is one of them, with its `pod`s; `statuses` is what is written about
these. `lives` says what becomes of a pod, moment by moment, and `drawing` leaves that to dice.
"""

from shoal.cluster.node_status import HEARTBEAT, LEASES_LIVE_IN
from shoal.simulator.kubelet.kubelet import Kubelet, kubelet
from shoal.simulator.kubelet.lives import NEVER_STARTS, Habits, Life, Script, Step, drawn_lives, runs_for
from shoal.simulator.kubelet.machine import KILLED, Clock, LoopClock

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
