"""A kubelet without containers: nodes that report, and pods that follow a script, on any cluster.

`kubelet` runs the nodes; `node` is one of them, with its pods; `statuses` builds what is written about pods;
`scripts` says what happens to a pod over time, or draws that at random.
"""

from shoal.cluster.node_status import HEARTBEAT_SECONDS, NODE_LEASE_NAMESPACE
from shoal.simulator.kubelet.kubelet import SimulatedKubelet, simulated_kubelet
from shoal.simulator.kubelet.node import SIGTERM_EXIT_CODE, Clock, LoopClock
from shoal.simulator.kubelet.scripts import (
    NEVER_STARTS,
    PodScript,
    ScriptDistribution,
    ScriptSource,
    ScriptStep,
    random_scripts,
    runs_for,
)

__all__ = [
    "HEARTBEAT_SECONDS",
    "NEVER_STARTS",
    "NODE_LEASE_NAMESPACE",
    "SIGTERM_EXIT_CODE",
    "Clock",
    "LoopClock",
    "PodScript",
    "ScriptDistribution",
    "ScriptSource",
    "ScriptStep",
    "SimulatedKubelet",
    "random_scripts",
    "runs_for",
    "simulated_kubelet",
]
