"""What everybody who looks after pods of this machine works with."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shoal.cluster.events import Note, Recorder, Reference
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import Site
from shoal.kubelet.devices import Devices
from shoal.kubelet.lifecycle import Pace
from shoal.kubelet.names import Directory
from shoal.kubelet.runtime import Runtime

COMPONENT: Final = "shoal-agent"


@dataclass(frozen=True, kw_only=True)
class Station:
    """The cluster, the runtime, and what the pods of a home share."""

    cluster: Cluster
    runtime: Runtime
    home: Path
    directory: Directory
    recorder: Recorder
    clock: Callable[[], float]
    pace: Pace
    devices: Devices = field(default_factory=Devices)

    def directory_of(self, uid: str) -> Path:
        """Where a pod is on the disk, if it is."""
        return self.home / "pods" / uid

    def site(self, pod: Object) -> Site:
        """Where a pod lives."""
        metadata = pod["metadata"]
        return Site(
            directory=self.directory_of(metadata["uid"]),
            hosts=self.directory.hosts_file(metadata["namespace"]),
            mounts=self.runtime.abilities.mounts,
            user=os.geteuid(),
        )

    async def note(self, pod: Object, reason: str, message: str, *, normal: bool = False) -> None:
        """Have an Event written about a pod."""
        metadata = pod["metadata"]
        about = Reference(
            api_version="v1",
            kind="Pod",
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
        )
        note = Note(about=about, reason=reason, message=message, type="Normal" if normal else "Warning")
        await self.recorder.record(note)
