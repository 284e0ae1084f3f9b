"""Dependencies that all pod workers of an agent share."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shoal.cluster.events import EventRecorder, ObjectEvent, ObjectReference
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import PodSandbox
from shoal.kubelet.devices import DeviceManager
from shoal.kubelet.lifecycle import RestartOptions
from shoal.kubelet.name_service import NameService
from shoal.kubelet.runtime import Runtime

COMPONENT: Final = "shoal-agent"


@dataclass(frozen=True, kw_only=True)
class AgentContext:
    """The cluster, the runtime, and the services that the pods of a home share."""

    cluster: Cluster
    runtime: Runtime
    home: Path
    names: NameService
    recorder: EventRecorder
    clock: Callable[[], float]
    restart: RestartOptions
    devices: DeviceManager = field(default_factory=DeviceManager)

    def pod_directory(self, uid: str) -> Path:
        """The directory of a pod; it may not exist."""
        return self.home / "pods" / uid

    def sandbox(self, pod: Object) -> PodSandbox:
        """The pod's place on this machine."""
        metadata = pod["metadata"]
        return PodSandbox(
            directory=self.pod_directory(metadata["uid"]),
            hosts=self.names.hosts_file(metadata["namespace"]),
            mounts=self.runtime.features.mounts,
            user=os.geteuid(),
        )

    async def record_event(self, pod: Object, reason: str, message: str, *, normal: bool = False) -> None:
        """Record an Event about a pod."""
        metadata = pod["metadata"]
        about = ObjectReference(
            api_version="v1",
            kind="Pod",
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
        )
        note = ObjectEvent(
            regarding=about, reason=reason, message=message, type="Normal" if normal else "Warning"
        )
        await self.recorder.record(note)
