"""The journal: where a registry keeps its records so that they outlive it.

It is a history and nothing else: records are appended, in the order of their versions, and those that nobody
needs any more are thrown away. The newest record of each object, unless it is the object's end, is the state.

Group commit: whatever waits is written in one go.

Writers hand over what they staged and wait. While the journal writes one batch the next one gathers, so the
busier the registry is, the more writes share the cost of one. A writer who is alone has nobody to share with:
what it wrote goes to the journal at once, if that is quick.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from shoal.apiserver.registry.records import Change, Record
from shoal.cluster.errors import StorageError


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


Done = Callable[[Sequence[Change]], None]


class _Waiting(msgspec.Struct, frozen=True):
    changes: list[Change]
    done: asyncio.Future[None]


class Committer:
    """Brings staged changes to the journal, in order; `done` and `failed` are told of every batch."""

    def __init__(self, journal: Journal, done: Done, failed: Done) -> None:
        """Begin with nothing to do."""
        self._journal = journal
        self._done = done
        self._failed = failed
        self._waiting: list[_Waiting] = []
        self._superseded: list[int] = []
        self._compacted: int | None = None
        self._crowded = False
        self._work: asyncio.Task[None] | None = None

    async def commit(self, changes: list[Change]) -> None:
        """Return when the changes, and all before them, are safe; StorageError if they could not be kept.

        Who changes nothing waits all the same: what it saw may still be on its way.
        """
        if self._work is None and not changes:
            return
        if self._work is None and not self._crowded and self._on_the_spot(changes):
            self._crowded = True  # whoever else comes in this turn of the loop is not alone
            try:
                await asyncio.sleep(0)
            finally:
                self._crowded = False
            return
        waiting = _Waiting(changes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._begin()
        await waiting.done

    def _on_the_spot(self, changes: list[Change]) -> bool:
        """Bring changes to the journal without a detour, if that is quick; whether it was done."""
        try:
            if not self._journal.append_now([change.record for change in changes]):
                return False
        except Exception:
            self._failed(changes)
            raise
        self._done(changes)
        return True

    def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Have records forgotten some time."""
        self._superseded.extend(superseded)
        self._compacted = version
        self._begin()

    async def finish(self) -> None:
        """Wait until nothing is left to do."""
        while self._work is not None:
            await asyncio.wait([self._work])

    def _begin(self) -> None:
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._until_nothing_waits())

    async def _until_nothing_waits(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._write(batch)
            if self._compacted is not None:
                await self._forget()
        finally:
            self._work = None
            if self._waiting:
                self._begin()

    async def _write(self, batch: list[_Waiting]) -> None:
        changes = [change for waiting in batch for change in waiting.changes]
        try:
            if changes:
                await self._journal.append([change.record for change in changes])
        except Exception as problem:
            self._refuse(batch, changes, problem)
            if not isinstance(problem, StorageError):
                raise
        else:
            self._done(changes)
            for waiting in batch:
                if not waiting.done.done():
                    waiting.done.set_result(None)

    def _refuse(self, batch: list[_Waiting], changes: list[Change], problem: Exception) -> None:
        """Nothing of the batch was kept, so nothing that was decided on top of it can be; nobody waits on."""
        later, self._waiting = self._waiting, []
        changes.extend(change for waiting in later for change in waiting.changes)
        self._failed(changes)
        for waiting in (*batch, *later):
            if not waiting.done.done():
                waiting.done.set_exception(StorageError(str(problem)))

    async def _forget(self) -> None:
        """What cannot be thrown away now is thrown away the next time."""
        version, superseded = self._compacted, self._superseded
        self._compacted, self._superseded = None, []
        if version is None:
            return
        try:
            await self._journal.compact(version, superseded)
        except StorageError:
            self._superseded = [*superseded, *self._superseded]
