"""The runtime of controllers: runs them on one cluster.

    stores = Stores()
    runtime = ControllerRuntime(cluster, stores, [job_controller(stores), ...], clock=time.time)
    stores.follow(reflectors)
    ...  # reflectors.run() in a task of its own
    await reflectors.synced()
    await runtime.run()  # until stop() is called; cancel it to simulate a crash

Steps of a reconcile: get the view from the stores, reconcile (pure), apply the writes, record Events. State
is kept in the objects only: what the runtime remembers makes it faster, or prevents it from acting on a view
that it knows to be stale.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.events import EventRecorder, ObjectEvent
from shoal.cluster.object_store import Key
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Resource
from shoal.controllers.applier import Applier, RefusedWriteError
from shoal.controllers.changes import Changes, NameWait
from shoal.controllers.expectations import Expectations
from shoal.controllers.metrics import ControllerMetrics
from shoal.controllers.queue import ReconcileResult, WorkQueue
from shoal.controllers.stores import ChangeHandler, Stores

V = TypeVar("V")

_COOLDOWN: Final = 1e-4
"""Seconds of cool-down for each object in a view: about ten times as long as it takes to look at it."""


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Other objects that a controller depends on, and the keys that each of them triggers."""

    resource: Resource[Any]
    keys: Callable[[Any], Iterable[Key]]


class Trigger:
    """Queues keys for a reason that is in no object."""

    def __init__(self) -> None:
        self._handlers: Final[list[Callable[[Key], None]]] = []

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call a handler with every key that is triggered."""
        self._handlers.append(handler)

    def fire(self, key: Key) -> None:
        """Have a key reconciled."""
        for handler in self._handlers:
            handler(key)


class Controller(msgspec.Struct, Generic[V], frozen=True, kw_only=True):
    """The declaration of a controller.

    `get_view` gathers from the stores what `reconcile` decides by: the object and what belongs to it; None
    when there is nothing to reconcile. `reconcile` is pure.
    """

    name: str
    resource: Resource[Any]
    get_view: Callable[[Key], V | None]
    reconcile: Callable[[V, float], Changes]
    watches: tuple[Watch, ...] = ()
    trigger: Trigger | None = None
    size: Callable[[V], int] = lambda _: 0
    """Number of objects in a view: the more there are, the longer changes are collected."""
    max_concurrent: int = 4


class ControllerRuntime:
    """Runs controllers, each with a work queue of its own."""

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        cluster: Cluster,
        stores: Stores,
        controllers: Sequence[Controller[Any]],
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """The caller has to have the stores followed. The clock returns seconds since 1970."""
        applier, rng = Applier(cluster), rng or random.Random()  # noqa: S311 - no secrets
        self._workers: Final = [
            ControllerWorker(
                controller,
                stores,
                applier=applier,
                recorder=EventRecorder(cluster, controller.name, clock),
                clock=clock,
                rng=rng,
                metrics=metrics,
            )
            for controller in controllers
        ]
        self._stopped: Final = asyncio.Event()

    async def run(self) -> None:
        """Reconcile until `stop` is called. Cancelling it aborts the running reconciles."""
        try:
            for worker in self._workers:
                worker.queue.start()
            await self._stopped.wait()
            for worker in self._workers:
                await worker.queue.stop()
        finally:
            for worker in self._workers:
                worker.queue.abort()

    def stop(self) -> None:
        """Start no new reconciles; `run` returns when the running ones have ended."""
        self._stopped.set()

    @property
    def backlog(self) -> int:
        """Number of keys that are queued or being reconciled."""
        return sum(len(worker.queue) for worker in self._workers)


class ControllerWorker(Generic[V]):
    """One controller with its queue."""

    def __init__(  # noqa: PLR0913 - everything that a controller needs, once
        self,
        controller: Controller[V],
        stores: Stores,
        *,
        applier: Applier,
        recorder: EventRecorder,
        clock: Callable[[], float],
        rng: random.Random,
        metrics: ControllerMetrics | None,
    ) -> None:
        self.queue: Final = WorkQueue(
            controller.name,
            self._reconcile,
            max_concurrent=controller.max_concurrent,
            rng=rng,
            metrics=metrics,
        )
        self._controller: Final = controller
        self._applier: Final = applier
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._resources: Final = {
            one.full_name: one
            for one in (controller.resource, *(watch.resource for watch in controller.watches))
        }
        self._expectations: Final = Expectations(
            {name: stores.of(one) for name, one in self._resources.items()}
        )
        self._name_waits: Final = defaultdict[NameWait, set[Key]](set)
        """Keys that wait until the object of a name is gone."""
        stores.of(controller.resource).subscribe(lambda key, _old, _new: self.queue.add(key))
        if controller.trigger:
            controller.trigger.subscribe(self.queue.add)
        for watch in controller.watches:
            stores.of(watch.resource).subscribe(self._handler(watch.keys))
            stores.of(watch.resource).subscribe(self._name_handler(watch.resource.full_name))

    def _handler(self, keys: Callable[[Any], Iterable[Key]]) -> ChangeHandler[Any]:
        """Return a handler that queues the keys of the old and of the new object."""

        def handle(_key: Key, old: Any, new: Any) -> None:  # noqa: ANN401 - objects of any kind
            triggered = (key for one in (old, new) if one is not None for key in keys(one))
            for key in dict.fromkeys(triggered):  # once: a second add would cause a second reconcile
                self.queue.add(key)

        return handle

    def _name_handler(self, resource: str) -> ChangeHandler[Any]:
        """Return a handler that queues the keys that wait for the name of a deleted object."""

        def handle(key: Key, _old: object, new: object) -> None:
            if new is None and self._name_waits:
                for waiting in sorted(self._name_waits.pop(NameWait(resource, key), ())):
                    self.queue.add(waiting)

        return handle

    async def _reconcile(self, key: Key) -> ReconcileResult:
        wait = await self._expectations.remaining_wait(key, self._fetch_version)
        if wait is not None:
            return ReconcileResult(wait)
        view = self._controller.get_view(key)  # not before the wait: it would be stale
        if view is None:
            return ReconcileResult()
        now = self._clock()
        changes = self._controller.reconcile(view, now)
        for name in changes.waits_for:
            self._name_waits[name].add(key)
        await self._apply(key, changes)
        requeue_after = None if changes.requeue_at is None else changes.requeue_at - now
        return ReconcileResult(requeue_after, self._controller.size(view) * _COOLDOWN)

    async def _fetch_version(self, resource: str, key: Key) -> int:
        return await self._applier.current_version(self._resources[resource], key)

    async def _apply(self, key: Key, changes: Changes) -> None:
        try:
            await self._applier.apply(changes.stages, lambda write: self._expectations.expect(key, write))
        except RefusedWriteError as error:
            if error.wait:
                self._name_waits[error.wait].add(key)
            if changes.regarding:
                await self._recorder.record(
                    ObjectEvent(
                        regarding=changes.regarding, reason=error.event, message=error.message, type="Warning"
                    )
                )
            raise
        for event in changes.events:
            await self._recorder.record(event)
