"""The registry: the cluster port over a journal, with the behaviour of a Kubernetes API server."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from shoal.apiserver.registry import subresources, write
from shoal.apiserver.registry.deletion import collect_garbage, delete
from shoal.apiserver.registry.pending import Committer, PendingState
from shoal.apiserver.registry.records import Change, Journal, MemoryJournal, Record, decode
from shoal.apiserver.registry.state import Retention, State, list_page
from shoal.apiserver.registry.watch import BOOKMARK_INTERVAL, Watch, WatchNotifier
from shoal.apiserver.registry.write import Body, Transform, create, get_record, guaranteed_update, key_of
from shoal.apiserver.strategies import table
from shoal.apiserver.strategies.core import BUILT_IN_NAMESPACES
from shoal.apiserver.strategies.strategy import Strategy
from shoal.apiserver.strategies.workloads import built_in_priority_classes
from shoal.cluster.errors import ClusterError, NotFoundError, StorageError, UnavailableError
from shoal.cluster.patches.json_patch import apply_merge_patch
from shoal.cluster.port import DEFAULT_DELETION, EVERYTHING, Deletion, Page, Selector
from shoal.cluster.resources import EVENTS, NAMESPACES, PODS, PRIORITY_CLASSES, Object, Resource
from shoal.cluster.selection import CompiledSelector

T = TypeVar("T")

CLEANUP_INTERVAL: Final = 30.0
"""Seconds between two clean-ups of expired Events and old history."""
_EVENT_TTL: Final = 3600.0
"""Seconds after which an Event is deleted, as in Kubernetes."""


class Registry:
    """A store of objects. It is open within `async with`, or from `open` to `close`."""

    def __init__(  # noqa: PLR0913 - all have defaults
        self,
        journal: Journal | None = None,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        retention: Retention | None = None,
        strategies: Mapping[str, Strategy] | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        cleanup_interval: float = CLEANUP_INTERVAL,
    ) -> None:
        """Load the journal. The clock returns seconds since 1970; `rng` generates names and uids.

        `strategies` has the rules of each resource, by its full name; by default those of `strategies.table`.
        """
        self._journal = journal or MemoryJournal()
        self._clock = clock
        self._strategies = table.strategies() if strategies is None else strategies
        self._rng = rng or random.SystemRandom()
        self._bookmark_interval = bookmark_interval
        self._cleanup_interval = cleanup_interval
        self._state = State(retention or Retention())
        self._state.load(*self._journal.load())
        self._pending = PendingState(self._state, clock)
        self._notifier = WatchNotifier()
        self._committer = Committer(self._journal, self._apply_committed, self._pending.undo)
        self._cleanup_task: asyncio.Task[None] | None = None
        self._closed = False

    # --- lifecycle ----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Create the built-in objects, and start the periodic clean-up."""
        await self._create_built_in_objects()
        self._cleanup_task = asyncio.get_running_loop().create_task(self._clean_up_periodically())

    async def close(self) -> None:
        """Finish pending commits, end all watches, close the journal."""
        if self._closed:
            return
        self._closed = True
        self._notifier.close()
        if self._cleanup_task is not None:
            self._cleanup_task.cancel()
            await asyncio.wait([self._cleanup_task])
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

    async def _create_built_in_objects(self) -> None:
        for name in BUILT_IN_NAMESPACES:
            await self._create_if_missing(NAMESPACES, {"metadata": {"name": name}})
        for body in built_in_priority_classes():
            await self._create_if_missing(PRIORITY_CLASSES, body)

    async def _create_if_missing(self, resource: Resource[Any], body: Object) -> None:
        if self._pending.get(key_of(resource, body["metadata"]["name"], "")) is None:
            await self.create(resource, body)

    # --- reads --------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The resource version of the newest committed write."""
        return str(self._state.version)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Return one object; NotFoundError if it does not exist."""
        self._check_open()
        strategy = self._strategy_for(resource)
        record = self._state.get(key_of(resource, name, namespace))
        if record is None:
            raise NotFoundError(f"{strategy.describe(name)} not found")
        return resource.decode(record.body)

    async def list(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        limit: int = 0,
        start: str = "",
        at: str = "",
    ) -> Page[T]:
        """List objects by namespace and name; `at` asks for the state at an exact resource version."""
        self._check_open()
        self._strategy_for(resource)
        return list_page(self._state, resource, selector, limit=limit, start=start, at=at)

    def watch(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> Watch[T]:
        """Watch changes after `version`; without one, existing objects come first, as ADDED."""
        self._check_open()
        self._strategy_for(resource)
        return Watch(
            self._state,
            self._notifier,
            resource,
            selector,
            version=version,
            timeout=timeout,
            bookmark_interval=self._bookmark_interval,
        )

    # --- writes -------------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Body, *, dry_run: bool = False) -> T:
        """Create an object, and return it as stored."""
        strategy = self._strategy_for(resource)
        record = await self._write(lambda: create(self._pending, strategy, body, self._rng), dry_run=dry_run)
        return resource.decode(record.body)

    async def update(
        self, resource: Resource[T], body: Body, *, status: bool = False, dry_run: bool = False
    ) -> T:
        """Replace an object, or with `status` only its status."""
        strategy = self._strategy_for(resource)
        metadata = write.required_metadata(body)
        key = key_of(resource, metadata.get("name", ""), metadata.get("namespace", ""))

        def replace() -> Record:
            if self._pending.get(key) is None and strategy.allow_create_on_update and not metadata.get("uid"):
                return create(self._pending, strategy, write.without_resource_version(body), self._rng)
            return write.update(self._pending, strategy, key, body, status=status)

        return resource.decode((await self._write(replace, dry_run=dry_run)).body)

    async def guaranteed_update(  # noqa: PLR0913 - the parameters of a patch
        self,
        resource: Resource[T],
        name: str,
        namespace: str,
        transform: Transform,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Apply `transform` to the newest version of an object, with no other write in between."""
        strategy, key = self._strategy_for(resource), key_of(resource, name, namespace)
        record = await self._write(
            lambda: guaranteed_update(self._pending, strategy, key, transform, status=status), dry_run=dry_run
        )
        return resource.decode(record.body)

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Apply a JSON merge patch to an object (RFC 7396)."""
        return await self.guaranteed_update(
            resource, name, namespace, lambda obj: apply_merge_patch(obj, patch), dry_run=dry_run
        )

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        """Apply a JSON merge patch to an object's status (RFC 7396)."""
        return await self.guaranteed_update(
            resource, name, namespace, lambda obj: apply_merge_patch(obj, patch), status=True, dry_run=dry_run
        )

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", deletion: Deletion = DEFAULT_DELETION
    ) -> T | None:
        """Delete an object, or start its deletion: returns the object if it still exists, else None."""
        strategy, key = self._strategy_for(resource), key_of(resource, name, namespace)

        def apply() -> Record:
            return delete(self._pending, strategy, get_record(self._pending, strategy, key), deletion)

        record, changes = await self._execute(apply, dry_run=deletion.dry_run)
        left = next((change.record for change in reversed(changes) if change.record.key == key), record)
        return None if left.deleted else resource.decode(left.body)

    async def delete_all(
        self, resource: Resource[T], selector: Selector = EVERYTHING, deletion: Deletion = DEFAULT_DELETION
    ) -> Sequence[T]:
        """Delete all selected objects, or start their deletion; returns them as they were."""
        strategy, selection = self._strategy_for(resource), CompiledSelector(resource, selector)
        selected = [
            record
            for record in self._pending.records(resource.full_name, selection.namespace)
            if selection.everything or selection.matches(record.body)
        ]

        def apply() -> None:
            for record in selected:
                newest = self._pending.get(record.key)
                if newest is not None:
                    delete(self._pending, strategy, newest, deletion)

        await self._write(apply, dry_run=deletion.dry_run)
        return [resource.decode(record.body) for record in selected]

    async def bind(
        self, name: str, namespace: str, node: str, *, uid: str = "", dry_run: bool = False
    ) -> None:
        """Bind a pod to a node."""
        key = key_of(PODS, name, namespace)
        await self._write(lambda: subresources.bind(self._pending, key, node, uid), dry_run=dry_run)

    async def evict(self, name: str, namespace: str, deletion: Deletion = DEFAULT_DELETION) -> None:
        """Delete a pod if its disruption budget allows."""
        key = key_of(PODS, name, namespace)
        await self._write(lambda: subresources.evict(self._pending, key, deletion), dry_run=deletion.dry_run)

    async def _write(self, write: Callable[[], T], *, dry_run: bool = False) -> T:
        result, _ = await self._execute(write, dry_run=dry_run)
        return result

    async def _execute(self, write: Callable[[], T], *, dry_run: bool) -> tuple[T, Sequence[Change]]:
        """Run a write and the garbage collection after it, and wait for the commit; undo a dry run."""
        self._check_open()
        try:
            with self._pending.transaction(keep=not dry_run) as changes:
                result = write()
                collect_garbage(self._pending, changes)
        except ClusterError:
            await self._committer.commit([])  # the client must be able to read what it was refused for
            raise
        await self._committer.commit([] if dry_run else changes)
        return result, changes

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the cluster has been closed")

    def _apply_committed(self, changes: Sequence[Change]) -> None:
        """Make durable changes visible to readers and watchers."""
        for change in changes:
            self._state.apply(change)
        self._pending.drop_committed(changes)
        self._compact(None)
        self._notifier.notify(dict.fromkeys(change.record.key.resource for change in changes))

    def _strategy_for(self, resource: Resource[Any]) -> Strategy:
        strategy = self._strategies.get(resource.full_name)
        if strategy is None:
            raise NotFoundError("the server could not find the requested resource")
        return strategy

    # --- clean-up -----------------------------------------------------------------------------------------

    def _compact(self, now: float | None) -> None:
        before = self._state.compacted
        superseded = self._state.compact(now)
        if self._state.compacted > before:
            self._committer.compact(self._state.compacted, superseded)

    async def _clean_up_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._cleanup_interval)
            with suppress(StorageError):
                await self.clean_up()

    async def clean_up(self) -> None:
        """Delete expired Events, recreate missing built-in objects, and compact the history."""
        oldest = self._clock() - _EVENT_TTL
        old = [record for record in self._pending.records(EVENTS.full_name) if record.time < oldest]

        def apply() -> None:
            for record in old:
                self._pending.remove(record.key, decode(record.body))

        if old:
            await self._write(apply)
        await self._create_built_in_objects()
        self._compact(self._clock())
