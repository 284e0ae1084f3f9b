"""The container runtime: containers as processes of this machine.

It knows neither Kubernetes objects nor the port.

`runtime` starts runs and adopts those of an earlier daemon; `run` is one of them. `records` are the files on
disk, `spec` the data that is passed in and out, `exec` commands in running containers, `logs` the reader of
logs. Each run has a shim, a program of its own (the package `shim` beside this one), so that containers
outlive the daemon.
"""

from shoal.kubelet.runtime.run import Run
from shoal.kubelet.runtime.runtime import Runtime, open_runtime
from shoal.kubelet.runtime.spec import (
    NO_USAGE,
    ContainerSpec,
    ExitStatus,
    Limits,
    Mount,
    ResourceUsage,
    RuntimeFeatures,
    UsageCounters,
    UsageReport,
)

__all__ = [
    "NO_USAGE",
    "ContainerSpec",
    "ExitStatus",
    "Limits",
    "Mount",
    "ResourceUsage",
    "Run",
    "Runtime",
    "RuntimeFeatures",
    "UsageCounters",
    "UsageReport",
    "open_runtime",
]
