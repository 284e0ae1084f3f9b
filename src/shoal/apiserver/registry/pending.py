"""Pending changes: staged by transactions, and written to the journal by group commit.

Writers read the pending state (the committed state plus staged changes), so that each sees the writes before
it; readers only see committed state. A transaction is everything that one request changes: all of it is
staged, or nothing. If the journal fails, all staged changes are undone.

Group commit: while the journal writes one batch, the next one gathers, so the more load there is, the more
writes share the cost of one commit. A single writer commits synchronously if the journal is fast.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from shoal.apiserver.registry.records import Change, Journal, Key, ObjectMeta, Record, decode_metadata, encode
from shoal.apiserver.registry.state import NamespacedName, State
from shoal.cluster.errors import StorageError, TooLargeError
from shoal.cluster.resources import Object

MAX_OBJECT_BYTES: Final = 1536 * 1024
"""Maximum size of an object in bytes: the request limit of etcd."""


class PendingState:
    """The committed state overlaid with staged changes that are not committed yet."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        """Start from the committed state, with nothing staged."""
        self.clock: Final = clock
        self.version = state.version
        self._state = state
        self._overlay: defaultdict[str, dict[NamespacedName, Record]] = defaultdict(dict)
        self._dependents: defaultdict[str, set[Key]] = defaultdict(set)
        self._transaction: list[Change] = []
        self._dry_run = False
        for record in state.records():
            self._index_owners(record.key, None, decode_metadata(record.body))

    # --- reads --------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Record | None:
        """Return the newest record of an object; None if it does not exist."""
        staged = self._overlay[key.resource].get(key[1:])
        if staged is not None:
            return None if staged.deleted else staged
        return self._state.get(key)

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """Return the objects of a resource, ordered by namespace and name."""
        collection = self._state.collection(resource)
        staged = self._overlay[resource]
        if not staged:
            return [collection.records[name] for name in collection.names(namespace)]
        found = {name: collection.records[name] for name in collection.names(namespace)}
        found |= {name: record for name, record in staged.items() if namespace in ("", name[0])}
        return [record for _, record in sorted(found.items(), key=lambda item: item[0]) if not record.deleted]

    def in_namespace(self, namespace: str) -> list[Record]:
        """Return all objects in a namespace."""
        return [record for resource in self._resources() for record in self.records(resource, namespace)]

    def _resources(self) -> list[str]:
        return list(dict.fromkeys([*self._state.resources(), *self._overlay]))

    def is_empty(self, namespace: str) -> bool:
        """Whether a namespace contains no objects."""
        return not any(self._has_any(resource, namespace) for resource in self._resources())

    def _has_any(self, resource: str, namespace: str) -> bool:
        staged, names = self._overlay[resource], self._state.collection(resource).names(namespace)
        there = (name for name, record in staged.items() if name[0] == namespace and not record.deleted)
        return any(name not in staged for name in names) or any(there)

    def dependents_of(self, uid: str) -> Collection[Key]:
        """Return the keys of objects owned by `uid`, unordered; a live view of the index."""
        return self._dependents.get(uid, ())

    # --- writes -------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[list[Change]]:
        """Collect the changes staged within; undo them after an error, or if this is a dry run."""
        changes: list[Change] = []
        self._transaction, self._dry_run = changes, not keep
        done = False
        try:
            yield changes
            done = keep
        finally:
            self._transaction = []
            if not done:
                self.undo(changes)

    def put(self, key: Key, obj: Object) -> Record:
        """Stage a write of an object; its text gets the resource version of this write."""
        return self._stage(key, obj, deleted=False)

    def remove(self, key: Key, obj: Object) -> Record:
        """Stage the deletion of an object."""
        return self._stage(key, obj, deleted=True)

    def _stage(self, key: Key, obj: Object, *, deleted: bool) -> Record:
        before = self.get(key)
        self._write_version(obj, before)
        body = encode(obj)
        if len(body) > MAX_OBJECT_BYTES and not deleted:
            raise TooLargeError(f"the object has {len(body):,} bytes; the limit is {MAX_OBJECT_BYTES:,}")
        record = Record(self.version + 1, self.clock(), key, body, deleted)
        change = Change(record, before)
        self._apply(change)
        self._transaction.append(change)
        return record

    def _write_version(self, obj: Object, before: Record | None) -> None:
        """Set the resource version; in a dry run an object keeps the one it has."""
        metadata = obj["metadata"]
        if not self._dry_run:
            metadata["resourceVersion"] = str(self.version + 1)
        elif before is not None:
            metadata["resourceVersion"] = str(before.version)
        else:
            metadata.pop("resourceVersion", None)

    def _apply(self, change: Change) -> None:
        key = change.record.key
        self._index_owners(
            key,
            decode_metadata(change.before.body) if change.before else None,
            None if change.record.deleted else decode_metadata(change.record.body),
        )
        self._overlay[key.resource][key[1:]] = change.record
        self.version = change.record.version

    # --- commit and rollback ------------------------------------------------------------------------------

    def drop_committed(self, changes: Sequence[Change]) -> None:
        """Drop staged changes that the committed state has now, unless newer ones replaced them."""
        for change in changes:
            key = change.record.key
            staged, name = self._overlay[key.resource], key[1:]
            newest = staged.get(name)
            if newest is change.record or (
                newest is not None and newest.deleted and not self._state.get(key)
            ):
                del staged[name]

    def undo(self, changes: Sequence[Change]) -> None:
        """Undo the newest changes, in reverse order."""
        for change in reversed(changes):
            self._undo(change)

    def _undo(self, change: Change) -> None:
        key, before = change.record.key, change.before
        self._index_owners(
            key,
            None if change.record.deleted else decode_metadata(change.record.body),
            decode_metadata(before.body) if before else None,
        )
        staged, name = self._overlay[key.resource], key[1:]
        if self._state.get(key) is before:
            staged.pop(name, None)
        elif before is not None:
            staged[name] = before
        else:
            staged[name] = Record(0, 0.0, key, b"", deleted=True)
        self.version = change.record.version - 1

    def _index_owners(self, key: Key, before: ObjectMeta | None, after: ObjectMeta | None) -> None:
        """Update the index of dependents by owner uid."""
        if before and before.owner_references:
            for owner in before.owner_references:
                self._dependents[owner.uid].discard(key)
                if not self._dependents[owner.uid]:
                    del self._dependents[owner.uid]
        if after and after.owner_references:
            for owner in after.owner_references:
                self._dependents[owner.uid].add(key)


Done = Callable[[Sequence[Change]], None]


class _Waiting(msgspec.Struct, frozen=True):
    changes: list[Change]
    done: asyncio.Future[None]


class Committer:
    """Writes staged changes to the journal in order; calls `done` or `failed` with every batch."""

    def __init__(self, journal: Journal, done: Done, failed: Done) -> None:
        """Start with an empty queue."""
        self._journal = journal
        self._done = done
        self._failed = failed
        self._waiting: list[_Waiting] = []
        self._superseded: list[int] = []
        self._compacted: int | None = None
        self._crowded = False
        self._work: asyncio.Task[None] | None = None

    async def commit(self, changes: list[Change]) -> None:
        """Return when the changes, and all before them, are durable; StorageError if the journal failed.

        A caller without changes waits too: what it read may not be committed yet.
        """
        if self._work is None and not changes:
            return
        if self._work is None and not self._crowded and self._on_the_spot(changes):
            self._crowded = True  # writers in the same turn of the loop share the next batch
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
        """Commit synchronously if the journal is fast; returns whether it did."""
        try:
            if not self._journal.append_now([change.record for change in changes]):
                return False
        except Exception:
            self._failed(changes)
            raise
        self._done(changes)
        return True

    def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Schedule the removal of superseded records from the journal."""
        self._superseded.extend(superseded)
        self._compacted = version
        self._begin()

    async def finish(self) -> None:
        """Wait until the queue is empty."""
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
        """Fail the batch, and all writes queued behind it: they were decided on top of lost changes."""
        later, self._waiting = self._waiting, []
        changes.extend(change for waiting in later for change in waiting.changes)
        self._failed(changes)
        for waiting in (*batch, *later):
            if not waiting.done.done():
                waiting.done.set_exception(StorageError(str(problem)))

    async def _forget(self) -> None:
        """Remove superseded records; if the journal fails, they are removed with the next compaction."""
        version, superseded = self._compacted, self._superseded
        self._compacted, self._superseded = None, []
        if version is None:
            return
        try:
            await self._journal.compact(version, superseded)
        except StorageError:
            self._superseded = [*superseded, *self._superseded]
