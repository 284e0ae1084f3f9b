"""Who runs the pods, as far as the API must ask: for their logs, for commands in them, for what they use."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from shoal.cluster.embedded.consumption import NOTHING, Consumption
from shoal.cluster.errors import NotFoundError


class Log(Protocol):
    """What a run of a container has written."""

    def read(
        self,
        *,
        follow: bool,
        tail: int | None,
        since: float | None,
        limit: int | None,
        timestamps: bool,
    ) -> AsyncIterator[bytes]: ...


class Execution(Protocol):
    """A command beside a container's own."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...
    async def wait(self) -> int: ...
    def resize(self, rows: int, columns: int) -> None: ...
    def kill(self) -> None: ...


class Run(Protocol):
    """One run of a container."""

    @property
    def log(self) -> Log: ...
    async def execute(self, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution: ...


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
