"""The device manager: which GPUs of a node each container uses. A GPU belongs to one container at a time."""

from collections.abc import Collection
from typing import Final

from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import VISIBLE_DEVICES
from shoal.kubelet.nodes import GPU_RESOURCE, LocalNode
from shoal.kubelet.runtime import ContainerSpec

_GPU_RESOURCES: Final = (GPU_RESOURCE, "alpha.kubernetes.io/nvidia-gpu")


class InsufficientDevicesError(Exception):
    """Raised when a node has fewer free GPUs than a container requests."""


def requested_gpus(container: Object) -> int:
    """The number of GPUs that a container requests."""
    resources = container.get("resources", {})
    amounts = resources.get("requests", {}) | resources.get("limits", {})
    return sum(int(amounts.get(name, 0)) for name in _GPU_RESOURCES)


class DeviceManager:
    """The allocated GPUs, by pod and container."""

    def __init__(self) -> None:
        self._allocated: Final[dict[tuple[str, str], tuple[int, ...]]] = {}

    def restore(self, spec: ContainerSpec) -> None:
        """Restore the allocation of a container that an earlier process started."""
        if spec.env.get(VISIBLE_DEVICES):
            self._allocated[spec.pod, spec.container] = tuple(map(int, spec.env[VISIBLE_DEVICES].split(",")))

    def allocate(
        self, node: LocalNode, pod: str, container: Object, running: Collection[str]
    ) -> tuple[int, ...] | None:
        """The GPUs of a container; None if the node has none.

        GPUs of containers of the same pod that have ended (not in `running`) may be reused.
        """
        if not node.gpus:
            return None
        key, count = (pod, container["name"]), requested_gpus(container)
        held = self._allocated.get(key)
        if held is None or len(held) != count:
            held = self._allocated[key] = self._select(node, pod, count, running)
        return held

    def _select(self, node: LocalNode, pod: str, count: int, running: Collection[str]) -> tuple[int, ...]:
        for ended in [key for key in self._allocated if key[0] == pod and key[1] not in running]:
            del self._allocated[ended]
        used = {device for devices in self._allocated.values() for device in devices}
        free = [device for device in node.gpus if device not in used]
        if len(free) < count:
            raise InsufficientDevicesError(
                f"{count} GPUs are requested, but node {node.name} has {len(free)} free"
            )
        return tuple(free[:count])

    def release(self, pod: str) -> None:
        """Release all GPUs of a pod."""
        for key in [key for key in self._allocated if key[0] == pod]:
            del self._allocated[key]
