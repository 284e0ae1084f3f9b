"""The registry: the port of a cluster over a journal, with the behaviour of a Kubernetes API server."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from shoal.apiserver.registry import binding, write
from shoal.apiserver.registry.deletion import delete
from shoal.apiserver.registry.garbage import collect
from shoal.apiserver.registry.journal import Committer, Journal, MemoryJournal
from shoal.apiserver.registry.pending import Head
from shoal.apiserver.registry.records import Change, Record, decode
from shoal.apiserver.registry.state import Retention, State, page
from shoal.apiserver.registry.watch import BOOKMARK_EVERY, Feed, Watch
from shoal.apiserver.registry.write import Make, change, create, found, key_of
from shoal.apiserver.strategies import namespaces, priority
from shoal.apiserver.strategies.strategy import Rules
from shoal.apiserver.strategies.table import RULES
from shoal.cluster.errors import ClusterError, NotFoundError, StorageError, UnavailableError
from shoal.cluster.patches.merge import merged
from shoal.cluster.port import AS_USUAL, EVERYWHERE, Deletion, Page, Where
from shoal.cluster.resources import EVENTS, NAMESPACES, PODS, PRIORITY_CLASSES, Object, Resource
from shoal.cluster.selection import Selection

T = TypeVar("T")

TIDY_EVERY: Final = 30.0
"""Seconds after which what is too old is looked for."""
_EVENTS_LAST: Final = 3600.0
"""Seconds after which an Event is forgotten, as in Kubernetes."""


class Registry:
    """A home of objects. It is open within `async with`, or from `open` to `close`."""

    def __init__(  # noqa: PLR0913 - all have their usual values
        self,
        journal: Journal | None = None,
        *,
        clock: Callable[[], float] = time.time,
        dice: random.Random | None = None,
        retention: Retention | None = None,
        rules: Mapping[str, Rules] = RULES,
        bookmark_every: float = BOOKMARK_EVERY,
        tidy_every: float = TIDY_EVERY,
    ) -> None:
        """Take what the journal has; the clock tells seconds since 1970, the dice names and uids.

        `rules` say what is let in, by the full name of each resource.
        """
        self._journal = journal or MemoryJournal()
        self._clock = clock
        self._table = rules
        self._dice = dice or random.SystemRandom()
        self._bookmark_every = bookmark_every
        self._tidy_every = tidy_every
        self._state = State(retention or Retention())
        self._state.load(*self._journal.load())
        self._head = Head(self._state, clock)
        self._feed = Feed()
        self._committer = Committer(self._journal, self._committed, self._head.undo)
        self._tidying: asyncio.Task[None] | None = None
        self._closed = False

    # --- life ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make what every cluster has, and begin to tidy up now and then."""
        await self._make_what_is_always_there()
        self._tidying = asyncio.get_running_loop().create_task(self._tidy_for_ever())

    async def close(self) -> None:
        """Finish what was begun, end all watches, let go of the journal."""
        if self._closed:
            return
        self._closed = True
        self._feed.close()
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait([self._tidying])
        await self._committer.finish()
        await self._journal.close()

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _make_what_is_always_there(self) -> None:
        for name in namespaces.ALWAYS:
            await self._ensure(NAMESPACES, {"metadata": {"name": name}})
        for body in priority.built_in():
            await self._ensure(PRIORITY_CLASSES, body)

    async def _ensure(self, resource: Resource[Any], body: Object) -> None:
        if self._head.get(key_of(resource, body["metadata"]["name"], "")) is None:
            await self.create(resource, body)

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The version of what is committed."""
        return str(self._state.version)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object; NotFoundError if there is none."""
        self._must_be_open()
        rules = self._rules(resource)
        record = self._state.get(key_of(resource, name, namespace))
        if record is None:
            raise NotFoundError(f"{rules.called(name)} not found")
        return resource.decode(record.body)

    async def list(
        self,
        resource: Resource[T],
        where: Where = EVERYWHERE,
        *,
        limit: int = 0,
        start: str = "",
        at: str = "",
    ) -> Page[T]:
        """Objects in the order of namespace and name; `at` asks for the state of an exact version."""
        self._must_be_open()
        self._rules(resource)
        return page(self._state, resource, where, limit=limit, start=start, at=at)

    def watch(
        self,
        resource: Resource[T],
        where: Where = EVERYWHERE,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> Watch[T]:
        """What changes after `version`; without one, first all that is there, as ADDED."""
        self._must_be_open()
        self._rules(resource)
        return Watch(
            self._state,
            self._feed,
            resource,
            where,
            version=version,
            timeout=timeout,
            bookmark_every=self._bookmark_every,
        )

    # --- writing ------------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        """Make an object, and return it as it is kept."""
        rules = self._rules(resource)
        record = await self._write(lambda: create(self._head, rules, body, self._dice), dry_run=dry_run)
        return resource.decode(record.body)

    async def update(
        self, resource: Resource[T], body: Object, *, status: bool = False, dry_run: bool = False
    ) -> T:
        """Replace an object, or with `status` only its status."""
        rules = self._rules(resource)
        metadata = write.metadata_of(body)
        key = key_of(resource, metadata.get("name", ""), metadata.get("namespace", ""))

        def replace() -> Record:
            if self._head.get(key) is None and rules.created_by_update and not metadata.get("uid"):
                return create(self._head, rules, write.without_version(body), self._dice)
            return write.replace(self._head, rules, key, body, status=status)

        return resource.decode((await self._write(replace, dry_run=dry_run)).body)

    async def change(  # noqa: PLR0913 - what, which, how
        self,
        resource: Resource[T],
        name: str,
        namespace: str,
        make: Make,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Make something else of the newest version of an object: nobody writes in between."""
        rules, key = self._rules(resource), key_of(resource, name, namespace)
        record = await self._write(
            lambda: change(self._head, rules, key, make, status=status), dry_run=dry_run
        )
        return resource.decode(record.body)

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object (RFC 7396)."""
        return await self.change(
            resource, name, namespace, lambda thing: merged(thing, patch), dry_run=dry_run
        )

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Change parts of an object's status (RFC 7396)."""
        return await self.change(
            resource, name, namespace, lambda thing: merged(thing, patch), status=True, dry_run=dry_run
        )

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", how: Deletion = AS_USUAL
    ) -> T | None:
        """Delete an object, or begin to: what it is now if it is still there, else None."""
        rules, key = self._rules(resource), key_of(resource, name, namespace)

        def remove() -> Record:
            return delete(self._head, rules, found(self._head, rules, key), how)

        record, changes = await self._decide(remove, dry_run=how.dry_run)
        left = next((made.record for made in reversed(changes) if made.record.key == key), record)
        return None if left.deleted else resource.decode(left.body)

    async def delete_all(
        self, resource: Resource[T], where: Where = EVERYWHERE, how: Deletion = AS_USUAL
    ) -> Sequence[T]:
        """Delete all objects that are meant, or begin to: as they were."""
        rules, selection = self._rules(resource), Selection(resource, where)
        meant = [
            record
            for record in self._head.records(resource.full_name, selection.namespace)
            if selection.everything or selection.matches(record.body)
        ]

        def remove() -> None:
            for record in meant:
                newest = self._head.get(record.key)
                if newest is not None:
                    delete(self._head, rules, newest, how)

        await self._write(remove, dry_run=how.dry_run)
        return [resource.decode(record.body) for record in meant]

    async def bind(
        self, name: str, namespace: str, node: str, *, uid: str = "", dry_run: bool = False
    ) -> None:
        """Give a pod its node."""
        key = key_of(PODS, name, namespace)
        await self._write(lambda: binding.bind(self._head, key, node, uid), dry_run=dry_run)

    async def evict(self, name: str, namespace: str, how: Deletion = AS_USUAL) -> None:
        """Delete a pod as far as its disruption budgets allow."""
        key = key_of(PODS, name, namespace)
        await self._write(lambda: binding.evict(self._head, key, how), dry_run=how.dry_run)

    async def _write(self, write: Callable[[], T], *, dry_run: bool = False) -> T:
        result, _ = await self._decide(write, dry_run=dry_run)
        return result

    async def _decide(self, write: Callable[[], T], *, dry_run: bool) -> tuple[T, Sequence[Change]]:
        """Decide, with all that follows from it, and wait until it is safe; nothing is kept of a dry run."""
        self._must_be_open()
        try:
            with self._head.transaction(keep=not dry_run) as changes:
                result = write()
                collect(self._head, changes)
        except ClusterError:
            await self._committer.commit([])  # so that who is refused can see what it was refused for
            raise
        await self._committer.commit([] if dry_run else changes)
        return result, changes

    def _must_be_open(self) -> None:
        if self._closed:
            raise UnavailableError("the cluster has been closed")

    def _committed(self, changes: Sequence[Change]) -> None:
        """Let readers see what is safe now."""
        for made in changes:
            self._state.apply(made)
        self._head.committed(changes)
        self._forget(None)
        self._feed.tell(dict.fromkeys(made.record.key.resource for made in changes))

    def _rules(self, resource: Resource[Any]) -> Rules:
        rules = self._table.get(resource.full_name)
        if rules is None:
            raise NotFoundError("the server could not find the requested resource")
        return rules

    # --- tidying up ---------------------------------------------------------------------------------------

    def _forget(self, now: float | None) -> None:
        before = self._state.compacted
        superseded = self._state.compact(now)
        if self._state.compacted > before:
            self._committer.compact(self._state.compacted, superseded)

    async def _tidy_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._tidy_every)
            with suppress(StorageError):
                await self.tidy()

    async def tidy(self) -> None:
        """Forget what is too old: Events, and the history of everything."""
        oldest = self._clock() - _EVENTS_LAST
        old = [record for record in self._head.records(EVENTS.full_name) if record.time < oldest]

        def remove() -> None:
            for record in old:
                self._head.remove(record.key, decode(record.body))

        if old:
            await self._write(remove)
        await self._make_what_is_always_there()
        self._forget(self._clock())
