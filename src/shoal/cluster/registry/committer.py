"""Group commit: whatever waits is written in one go.

Writers hand over what they staged and wait. While the journal writes one batch the next one gathers, so the
busier the registry is, the more writes share the cost of one. A writer who is alone has nobody to share with:
what it wrote goes to the journal at once, if that is quick.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from shoal.cluster.errors import StorageError
from shoal.cluster.registry.journal import Journal
from shoal.cluster.registry.records import Change

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
        except StorageError:
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
