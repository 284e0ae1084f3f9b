"""The kubelet as the API server sees it: logs, exec and resource usage of the pods that it runs."""

from typing import Final, Protocol

from shoal.cluster.errors import NotFoundError
from shoal.kubelet.runtime import NOTHING, Consumption, Run


class Kubelet(Protocol):
    """Whoever runs the pods."""

    def run_of(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002 - as the agent has it
        """The latest run of a container, or the one before; a ClusterError says why there is none."""
        ...

    def usage(self) -> Consumption:
        """What was measured last."""
        ...


class NoKubelet:
    """Where objects are kept and nobody runs pods."""

    def run_of(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: ARG002, FBT001, FBT002
        raise NotFoundError(f'nothing runs pods here: there is no container "{container}" of pod "{pod}"')

    def usage(self) -> Consumption:
        return NOTHING


NOBODY: Final[Kubelet] = NoKubelet()
