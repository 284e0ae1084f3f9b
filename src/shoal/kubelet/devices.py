"""What this machine has: CPUs, memory and GPUs, as far as this process may use them.

Which container has which GPUs of its node. A GPU has one container at a time.
"""

from collections.abc import Collection
from typing import Final

from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import VISIBLE_DEVICES
from shoal.kubelet.nodes import GPU_RESOURCE, LocalNode
from shoal.kubelet.runtime import ContainerSpec

_NAMES: Final = (GPU_RESOURCE, "alpha.kubernetes.io/nvidia-gpu")


class InsufficientDevicesError(Exception):
    """Raised when a node has fewer GPUs free than a container was promised."""


def requested_gpus(container: Object) -> int:
    """How many GPUs a container asks for."""
    resources = container.get("resources", {})
    amounts = resources.get("requests", {}) | resources.get("limits", {})
    return sum(int(amounts.get(name, 0)) for name in _NAMES)


class DeviceManager:
    """The GPUs that are taken, by the pod and the container that have them."""

    def __init__(self) -> None:
        self._allocated: Final[dict[tuple[str, str], tuple[int, ...]]] = {}

    def restore(self, spec: ContainerSpec) -> None:
        """Take for a container what it has had since an earlier process gave it."""
        if spec.env.get(VISIBLE_DEVICES):
            self._allocated[spec.pod, spec.container] = tuple(map(int, spec.env[VISIBLE_DEVICES].split(",")))

    def allocate(
        self, node: LocalNode, pod: str, container: Object, running: Collection[str]
    ) -> tuple[int, ...] | None:
        """The GPUs of a container; None where the node has none. What ended in its pod is as good as free."""
        if not node.gpus:
            return None
        key, count = (pod, container["name"]), requested_gpus(container)
        held = self._allocated.get(key)
        if held is None or len(held) != count:
            held = self._allocated[key] = self._choose(node, pod, count, running)
        return held

    def _choose(self, node: LocalNode, pod: str, count: int, running: Collection[str]) -> tuple[int, ...]:
        for ended in [key for key in self._allocated if key[0] == pod and key[1] not in running]:
            del self._allocated[ended]
        used = {device for devices in self._allocated.values() for device in devices}
        free = [device for device in node.gpus if device not in used]
        if len(free) < count:
            raise InsufficientDevicesError(
                f"{count} GPUs are needed, and {len(free)} of node {node.name} are free"
            )
        return tuple(free[:count])

    def release(self, pod: str) -> None:
        """A pod needs nothing any more."""
        for key in [key for key in self._allocated if key[0] == pod]:
            del self._allocated[key]
