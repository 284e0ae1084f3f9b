"""The runtime: keeps controllers at work on one cluster.

    stores = Stores()
    runtime = Runtime(cluster, stores, [job_controller(stores), ...], clock=time.time)
    stores.follow(reflectors)
    ...  # reflectors.run() in a task of its own
    await reflectors.synced()
    await runtime.run()  # until somebody calls stop(); cancel it to crash

A turn: look at the stores, reconcile (pure), apply (writes), tell. State lives in the objects only: what the
runtime remembers makes it quicker, or keeps it from acting on what it knows to be old.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.errors import ForbiddenError, InvalidError
from shoal.cluster.events import Note, Recorder
from shoal.cluster.object_store import Key
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Resource
from shoal.controllers.applier import NameTakenError, Shell
from shoal.controllers.changes import Changes
from shoal.controllers.expectations import Echoes
from shoal.controllers.metrics import Measures
from shoal.controllers.queue import Patience, Turn, WorkQueue
from shoal.controllers.stores import Hear, Stores

V = TypeVar("V")

_REST: Final = 1e-4
"""Seconds of rest for each object in a view: about ten times as long as it takes to look at it."""
_REFUSALS: Final = (NameTakenError, InvalidError, ForbiddenError)
"""What trying again does not cure: somebody has to know."""


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """Other objects that matter to a controller, and the keys that each of them wakes."""

    resource: Resource[Any]
    keys: Callable[[Any], Iterable[Key]]


class Bell:
    """Wakes controllers for a reason that is in no object."""

    def __init__(self) -> None:
        self._hearers: Final[list[Callable[[Key], None]]] = []

    def subscribe(self, hear: Callable[[Key], None]) -> None:
        """Be told of keys that are rung for."""
        self._hearers.append(hear)

    def ring(self, key: Key) -> None:
        """Have a key looked at."""
        for hear in self._hearers:
            hear(key)


class Controller(msgspec.Struct, Generic[V], frozen=True, kw_only=True):
    """What makes a controller.

    `look` gathers what `reconcile` judges by from the stores: the object and what belongs to it; None when
    there is nothing to judge. `reconcile` is pure.
    """

    name: str
    resource: Resource[Any]
    look: Callable[[Key], V | None]
    reconcile: Callable[[V, float], Changes]
    wakes: tuple[Wake, ...] = ()
    bell: Bell | None = None
    size: Callable[[V], int] = lambda _: 0
    """How many objects a view has: the more there are, the longer changes are gathered."""
    at_once: int = 4


class Runtime:
    """Controllers at work."""

    def __init__(  # noqa: PLR0913 - all have their usual values
        self,
        cluster: Cluster,
        stores: Stores,
        controllers: Sequence[Controller[Any]],
        *,
        clock: Callable[[], float] = time.time,
        dice: random.Random | None = None,
        measures: Measures | None = None,
    ) -> None:
        """The stores are to be followed by somebody; the clock tells seconds since 1970."""
        shell, patience = Shell(cluster), Patience(dice=dice or random.Random())  # noqa: S311 - no secrets
        self._desks: Final = [
            _Desk(
                one,
                stores,
                shell=shell,
                recorder=Recorder(cluster, one.name, clock),
                clock=clock,
                patience=patience,
                measures=measures,
            )
            for one in controllers
        ]
        self._stopped: Final = asyncio.Event()

    async def run(self) -> None:
        """Work until it is stopped; cancelling it drops everything where it is."""
        try:
            for desk in self._desks:
                desk.queue.start()
            await self._stopped.wait()
            for desk in self._desks:
                await desk.queue.stop()
        finally:
            for desk in self._desks:
                desk.queue.abort()

    def stop(self) -> None:
        """Finish what is under way, and begin nothing new; `run` returns when that is done."""
        self._stopped.set()

    @property
    def busy(self) -> int:
        """How many keys wait for a turn or are at it."""
        return sum(len(desk.queue) for desk in self._desks)


class _Desk(Generic[V]):
    """One controller at work."""

    def __init__(  # noqa: PLR0913 - all that a controller needs, once
        self,
        controller: Controller[V],
        stores: Stores,
        *,
        shell: Shell,
        recorder: Recorder,
        clock: Callable[[], float],
        patience: Patience,
        measures: Measures | None,
    ) -> None:
        self.queue: Final = WorkQueue(
            controller.name,
            self._turn,
            at_once=controller.at_once,
            patience=patience,
            measures=measures,
        )
        self._controller: Final = controller
        self._shell: Final = shell
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._resources: Final = {
            one.full_name: one for one in (controller.resource, *(wake.resource for wake in controller.wakes))
        }
        self._echoes: Final = Echoes({name: stores.of(one) for name, one in self._resources.items()})
        stores.of(controller.resource).subscribe(lambda key, _old, _new: self.queue.add(key))
        if controller.bell:
            controller.bell.subscribe(self.queue.add)
        for wake in controller.wakes:
            stores.of(wake.resource).subscribe(self._hearer(wake.keys))

    def _hearer(self, keys: Callable[[Any], Iterable[Key]]) -> Hear[Any]:
        """Wakes those whom an object mattered to, and those whom it matters to now."""

        def hear(_key: Key, old: Any, new: Any) -> None:  # noqa: ANN401 - objects of any kind
            told = (key for one in (old, new) if one is not None for key in keys(one))
            for key in dict.fromkeys(told):  # once: the second time would be another turn, after the first
                self.queue.add(key)

        return hear

    async def _turn(self, key: Key) -> Turn:
        view = self._controller.look(key)
        if view is None:
            self._echoes.forget(key)
            return Turn()
        wait = await self._echoes.wait(key, self._newest)
        if wait is not None:
            return Turn(wait)
        now = self._clock()
        changes = self._controller.reconcile(view, now)
        await self._apply(key, changes)
        again = None if changes.again is None else changes.again - now
        return Turn(again, self._controller.size(view) * _REST)

    async def _newest(self, resource: str, key: Key) -> int:
        return await self._shell.version(self._resources[resource], key)

    async def _apply(self, key: Key, changes: Changes) -> None:
        try:
            await self._shell.apply(changes.stages, lambda written: self._echoes.expect(key, written))
        except _REFUSALS as error:
            if changes.about:
                note = Note(about=changes.about, reason=error.reason, message=error.message, type="Warning")
                await self._recorder.record(note)
            raise
        for note in changes.notes:
            await self._recorder.record(note)
