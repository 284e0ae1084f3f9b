"""Containers as processes of this machine. It knows nothing of Kubernetes' objects, nor of the port.

`runtime` starts runs and finds those of an earlier daemon, `run` is one of them. What lies on disk is in
`records`, what is asked for and answered in `spec`. Each run has a shim, a program of its own (the package
`shim` beside this one), so that containers outlive the daemon.
"""

from shoal.kubelet.runtime.run import Run
from shoal.kubelet.runtime.runtime import Runtime, opened_runtime
from shoal.kubelet.runtime.spec import (
    NOTHING,
    Abilities,
    Consumption,
    ContainerSpec,
    Exit,
    Limits,
    Load,
    Mount,
    Usage,
)

__all__ = [
    "NOTHING",
    "Abilities",
    "Consumption",
    "ContainerSpec",
    "Exit",
    "Limits",
    "Load",
    "Mount",
    "Run",
    "Runtime",
    "Usage",
    "opened_runtime",
]
