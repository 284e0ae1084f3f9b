"""The journal: where a registry keeps its records so that they outlive it.

It is a history and nothing else: records are appended, in the order of their versions, and those that nobody
needs any more are thrown away. The newest record of each object, unless it is the object's end, is the state.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from shoal.cluster.registry.records import Record


class Journal(Protocol):
    """A place for records. A method that fails raises StorageError, and has changed nothing."""

    def load(self) -> tuple[int, Iterable[Record]]:
        """How far the history has been compacted, and all records, oldest first."""

    def append_now(self, records: Sequence[Record]) -> bool:
        """Keep all these records at once if that is likely to be quick; else nothing, and False."""

    async def append(self, records: Sequence[Record]) -> None:
        """Keep all these records, or none: when it returns they are safe."""

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Forget these records, and that anything was known of what came before `version`."""

    async def close(self) -> None:
        """Let go of whatever is held."""


class MemoryJournal:
    """Keeps nothing: the registry's own memory is all there is."""

    def load(self) -> tuple[int, Iterable[Record]]:
        return 0, ()

    def append_now(self, records: Sequence[Record]) -> bool:  # noqa: ARG002 - there is no disk to be quicker than
        return False

    async def append(self, records: Sequence[Record]) -> None:
        """The registry remembers."""

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """The registry forgets."""

    async def close(self) -> None:
        """There is nothing to let go of."""
