"""What this machine has: CPUs, memory and GPUs, as far as this process may use them.

Which container has which GPUs of its node. A GPU has one container at a time.
"""

from collections.abc import Collection
from typing import Final

from shoal.cluster.resources import Object
from shoal.kubelet.environment import DEVICES
from shoal.kubelet.nodes import GPU, Machine
from shoal.kubelet.runtime import ContainerSpec

_NAMES: Final = (GPU, "alpha.kubernetes.io/nvidia-gpu")


class ShortError(Exception):
    """Raised when a node has fewer GPUs free than a container was promised."""


def wanted(container: Object) -> int:
    """How many GPUs a container asks for."""
    resources = container.get("resources", {})
    amounts = resources.get("requests", {}) | resources.get("limits", {})
    return sum(int(amounts.get(name, 0)) for name in _NAMES)


class Devices:
    """The GPUs that are taken, by the pod and the container that have them."""

    def __init__(self) -> None:
        self._taken: Final[dict[tuple[str, str], tuple[int, ...]]] = {}

    def restore(self, spec: ContainerSpec) -> None:
        """Take for a container what it has had since an earlier process gave it."""
        if spec.env.get(DEVICES):
            self._taken[spec.pod, spec.container] = tuple(map(int, spec.env[DEVICES].split(",")))

    def take(
        self, machine: Machine, pod: str, container: Object, living: Collection[str]
    ) -> tuple[int, ...] | None:
        """The GPUs of a container; None where the node has none. What ended in its pod is as good as free."""
        if not machine.gpus:
            return None
        key, count = (pod, container["name"]), wanted(container)
        held = self._taken.get(key)
        if held is None or len(held) != count:
            held = self._taken[key] = self._choose(machine, pod, count, living)
        return held

    def _choose(self, machine: Machine, pod: str, count: int, living: Collection[str]) -> tuple[int, ...]:
        for ended in [key for key in self._taken if key[0] == pod and key[1] not in living]:
            del self._taken[ended]
        used = {device for devices in self._taken.values() for device in devices}
        free = [device for device in machine.gpus if device not in used]
        if len(free) < count:
            raise ShortError(f"{count} GPUs are needed, and {len(free)} of node {machine.name} are free")
        return tuple(free[:count])

    def release(self, pod: str) -> None:
        """A pod needs nothing any more."""
        for key in [key for key in self._taken if key[0] == pod]:
            del self._taken[key]
