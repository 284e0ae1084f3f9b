"""The head: what is committed, and on top of it what has been decided but is still on its way to the disk.

Writers go by the head, so that each sees those before it; readers never do. A transaction is what one request
changes: all of it is staged, or nothing. When the journal fails, everything staged is undone, and the head is
again what is committed.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from shoal.apiserver.registry.records import Change, Key, Meta, Record, encode, meta
from shoal.apiserver.registry.state import Place, State
from shoal.cluster.errors import TooLargeError
from shoal.cluster.resources import Object

LARGEST: Final = 1536 * 1024
"""Bytes of an object: what etcd takes in one request."""


class Head:
    """The newest state, with what is not yet committed."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        """Begin with what is committed."""
        self.clock: Final = clock
        self.version = state.version
        self._state = state
        self._overlay: defaultdict[str, dict[Place, Record]] = defaultdict(dict)
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._open: list[Change] = []
        self._rehearsing = False
        for record in state.records():
            self._follow(record.key, None, meta(record.body))

    # --- reading ------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Record | None:
        """The newest record of an object that is there."""
        staged = self._overlay[key.resource].get(key[1:])
        if staged is not None:
            return None if staged.deleted else staged
        return self._state.get(key)

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """The objects of a resource, in order."""
        collection = self._state.collection(resource)
        staged = self._overlay[resource]
        if not staged:
            return [collection.records[place] for place in collection.places(namespace)]
        found = {place: collection.records[place] for place in collection.places(namespace)}
        found |= {place: record for place, record in staged.items() if namespace in ("", place[0])}
        return [record for _, record in sorted(found.items(), key=lambda item: item[0]) if not record.deleted]

    def within(self, namespace: str) -> list[Record]:
        """Everything in a namespace."""
        return [record for resource in self._resources() for record in self.records(resource, namespace)]

    def _resources(self) -> list[str]:
        return list(dict.fromkeys([*self._state.resources(), *self._overlay]))

    def is_empty(self, namespace: str) -> bool:
        """Whether there is nothing in a namespace."""
        return not any(self._has_any(resource, namespace) for resource in self._resources())

    def _has_any(self, resource: str, namespace: str) -> bool:
        staged, places = self._overlay[resource], self._state.collection(resource).places(namespace)
        there = (place for place, record in staged.items() if place[0] == namespace and not record.deleted)
        return any(place not in staged for place in places) or any(there)

    def owned_by(self, uid: str) -> Collection[Key]:
        """The objects that name an owner, in no order; they are others as soon as anything is written."""
        return self._owned.get(uid, ())

    # --- writing ------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[list[Change]]:
        """Stage what is written within; undo all of it after an error, or unless it is to be kept."""
        changes: list[Change] = []
        self._open, self._rehearsing = changes, not keep
        done = False
        try:
            yield changes
            done = keep
        finally:
            self._open = []
            if not done:
                self.undo(changes)

    def put(self, key: Key, thing: Object) -> Record:
        """Write an object; its text gets the version of this write."""
        return self._stage(key, thing, deleted=False)

    def remove(self, key: Key, thing: Object) -> Record:
        """Write an object's end."""
        return self._stage(key, thing, deleted=True)

    def _stage(self, key: Key, thing: Object, *, deleted: bool) -> Record:
        before = self.get(key)
        self._write_version(thing, before)
        body = encode(thing)
        if len(body) > LARGEST and not deleted:
            raise TooLargeError(f"the object has {len(body):,} bytes, and {LARGEST:,} is the limit")
        record = Record(self.version + 1, self.clock(), key, body, deleted)
        change = Change(record, before)
        self._apply(change)
        self._open.append(change)
        return record

    def _write_version(self, thing: Object, before: Record | None) -> None:
        """What is only rehearsed keeps the version that it has, if it has one."""
        metadata = thing["metadata"]
        if not self._rehearsing:
            metadata["resourceVersion"] = str(self.version + 1)
        elif before is not None:
            metadata["resourceVersion"] = str(before.version)
        else:
            metadata.pop("resourceVersion", None)

    def _apply(self, change: Change) -> None:
        key = change.record.key
        self._follow(
            key,
            meta(change.before.body) if change.before else None,
            None if change.record.deleted else meta(change.record.body),
        )
        self._overlay[key.resource][key[1:]] = change.record
        self.version = change.record.version

    # --- what became of it --------------------------------------------------------------------------------

    def committed(self, changes: Sequence[Change]) -> None:
        """The state has these changes now: forget them unless there are newer ones."""
        for change in changes:
            key = change.record.key
            staged, place = self._overlay[key.resource], key[1:]
            newest = staged.get(place)
            if newest is change.record or (
                newest is not None and newest.deleted and not self._state.get(key)
            ):
                del staged[place]

    def undo(self, changes: Sequence[Change]) -> None:
        """Take back the newest changes."""
        for change in reversed(changes):
            self._undo(change)

    def _undo(self, change: Change) -> None:
        key, before = change.record.key, change.before
        self._follow(
            key,
            None if change.record.deleted else meta(change.record.body),
            meta(before.body) if before else None,
        )
        staged, place = self._overlay[key.resource], key[1:]
        if self._state.get(key) is before:
            staged.pop(place, None)
        elif before is not None:
            staged[place] = before
        else:
            staged[place] = Record(0, 0.0, key, b"", deleted=True)
        self.version = change.record.version - 1

    def _follow(self, key: Key, before: Meta | None, after: Meta | None) -> None:
        """Keep account of who owns an object."""
        if before and before.owner_references:
            for owner in before.owner_references:
                self._owned[owner.uid].discard(key)
                if not self._owned[owner.uid]:
                    del self._owned[owner.uid]
        if after and after.owner_references:
            for owner in after.owner_references:
                self._owned[owner.uid].add(key)
