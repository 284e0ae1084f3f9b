"""Runs of many simulated days: a cluster by dice, users, faults, and a witness who checks every promise."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Pace
from shoal.cluster.registry.records import Change
from shoal.cluster.resources import BY_KIND, PODS, Object, Resource
from shoal.cluster.simulated import (
    Chronicle,
    Extent,
    Faults,
    NodeLoss,
    Schedule,
    SimulatedCluster,
    Simulation,
    lasting,
    random_schedule,
    run,
)
from shoal.cluster.simulated.machines import Kubelet, LoopClock, drawn_lives, kubelet
from shoal.manager import Manager
from shoal.scheduling.config import SchedulerConfig
from tests.soak.promises import IN_THE_END, PROMISES, Promise
from tests.soak.sight import Pod, Sight
from tests.soak.worlds import DAY, HABITS, HOUR, NAMESPACE, Deed, World, drawn_world

CONFIG = SchedulerConfig(optimise_period="10m", node_lost_seconds=200)
HEARTBEAT = 90.0
"""Seconds between signs of life of a node: less often than in life, for a run to be quick."""
_LONGEST_FAULT = 400.0
"""Seconds after which no fault has any effect any more, and what was put off by it has been tried again."""
_LONGEST = 3 * DAY
"""Seconds after which what has not ended will not."""


class BrokenPromiseError(AssertionError):
    """Raised when a promise is broken: says which one, when, and how to see it again."""


@dataclass(frozen=True, kw_only=True)
class Soak:
    """A run: all of it follows from these."""

    seed: int
    days: float = 1.0
    faults: int = 40
    """How many a day."""
    arrivals: int = 80
    """How many a day."""

    def dice(self, whose: str) -> random.Random:
        return random.Random(f"{self.seed} {whose}")

    def world(self) -> World:
        return drawn_world(self.dice("world"), self.days, self.arrivals)

    def schedule(self) -> Schedule:
        """What goes wrong: everything that can, evenly over the days."""
        count = round(self.faults * self.days)
        extent = Extent(
            faults=count, seconds=self.days * DAY, calls=round(1500 * self.days) or 1, nodes=self.world().nodes
        )
        return random_schedule(self.dice("faults"), extent)


@dataclass
class Outcome:
    """How a run went."""

    broken: str = ""
    story: Sequence[str] = ()
    """The faults that came."""
    chronicle: Chronicle | None = None
    seconds: float = 0.0
    commits: int = 0
    pods: int = 0
    jobs: int = 0


def soaked(soak: Soak, schedule: Schedule | None = None, *, chronicle: Chronicle | None = None) -> Outcome:
    """Run it, with the faults that are its own or with others."""
    schedule = soak.schedule() if schedule is None else schedule
    outcome = Outcome(chronicle=chronicle)
    run(lambda simulation: _Run(simulation, soak, schedule, outcome).play(), seed=soak.seed)
    return outcome


@dataclass
class _Witness:
    """Checks every promise after every commit, and remembers the first that was broken."""

    sight: Sight
    promises: Sequence[Promise] = PROMISES
    broken: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    commits: int = 0
    faults: Sequence[str] = ()
    """What went wrong so far."""
    faced: int = 0

    def __call__(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        if self.broken:
            return
        if len(self.faults) > self.faced:
            self.faced, self.sight.calm_since = len(self.faults), self.sight.now() + _LONGEST_FAULT
        for step in self.sight.take(changes):
            for promise in self.promises:
                for story in promise(self.sight, step):
                    self.breaks(promise.__name__, story)
                    return

    def breaks(self, promise: str, story: str) -> None:
        self.broken = self.broken or f"{self.sight.now():.3f} s: {promise}: {story}"
        self.over.set()


class _Run:
    def __init__(self, simulation: Simulation, soak: Soak, schedule: Schedule, outcome: Outcome) -> None:
        self.simulation, self.soak, self.schedule, self.outcome = simulation, soak, schedule, outcome
        self.world = soak.world()
        self.kubelets: list[Kubelet] = []
        self.sight = Sight(asyncio.get_running_loop().time, self._running)
        self.witness = _Witness(self.sight)

    def _running(self) -> dict[str, list[str]]:
        return {name: uids for one in self.kubelets for name, uids in one.running().items()}

    async def play(self) -> None:
        with _complaints(self.witness):
            async with SimulatedCluster(
                clock=self.simulation.clock, dice=self.simulation.dice("store")
            ) as store:
                store.witnesses += [self.witness, *([self.outcome.chronicle] if self.outcome.chronicle else [])]
                await self._on(store)
        outcome, sight = self.outcome, self.sight
        outcome.broken, outcome.commits = self.witness.broken, self.witness.commits
        outcome.seconds, outcome.pods = sight.now(), len(sight.known)

    async def _on(self, store: SimulatedCluster) -> None:
        for one in self.world.objects:
            await _create(store, one)
        faults = Faults(self.schedule, self.simulation.clock)
        self.outcome.story = self.witness.faults = faults.story
        async with self._machines(store), self._shoal(store, faults):
            faults.lost_nodes.append(self._lose)
            users = asyncio.create_task(self._users(store))
            over = asyncio.create_task(self.witness.over.wait())
            await asyncio.wait([users, over], return_when=asyncio.FIRST_COMPLETED)
            for task in (users, over):
                task.cancel()
            if users.done() and not users.cancelled():
                users.result()

    # --- who is there -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _machines(self, store: SimulatedCluster) -> AsyncIterator[None]:
        clock = LoopClock(self.simulation.clock)
        async with AsyncExitStack() as stack:
            for group in self.world.groups:
                playing = kubelet(
                    store,
                    group.names,
                    script=drawn_lives(str(self.soak.seed), HABITS),
                    clock=clock,
                    capacity=group.capacity,
                    labels={"pool": group.pool},
                    heartbeat=HEARTBEAT,
                    pace=Pace(dice=self.simulation.dice(f"kubelet {group.pool}")),
                )
                self.kubelets.append(await stack.enter_async_context(playing))
            yield

    @asynccontextmanager
    async def _shoal(self, store: SimulatedCluster, faults: Faults) -> AsyncIterator[None]:
        """Shoal, which begins anew after every crash; that it ends by itself is a broken promise."""
        births = count()

        async def program(cluster: Cluster) -> None:
            pace = Pace(dice=self.simulation.dice(f"shoal {next(births)}"))
            await Manager(cluster, CONFIG, clock=self.simulation.clock, pace=pace, native=True).run()

        async def live() -> None:
            try:
                await lasting(store, faults, program)
            except Exception as error:  # noqa: BLE001 - whatever it is
                self.witness.breaks("Shoal lives", repr(error))
            else:
                self.witness.breaks("Shoal lives", "it has ended")

        task = asyncio.create_task(live())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _lose(self, loss: NodeLoss) -> None:
        for one in self.kubelets:
            if loss.node in one.running():
                one.lose(loss.node, loss.seconds)

    # --- what is done -------------------------------------------------------------------------------------

    async def _users(self, store: SimulatedCluster) -> None:
        janitor = asyncio.create_task(self._tidy(store))
        for deed in self.world.deeds:
            await asyncio.sleep(max(deed.at - self.sight.now(), 0))
            await self._do(store, deed)
        await self._until_all_has_ended()
        janitor.cancel()
        await self._rest()

    async def _do(self, store: SimulatedCluster, deed: Deed) -> None:
        if deed.do == "create":
            await _create(store, deed.body)
            return
        kind, name = deed.ref
        resource = _of_kind(kind)
        space = NAMESPACE if resource.namespaced else ""
        with suppress(NotFoundError):
            if deed.do == "patch":
                await store.patch(resource, name, space, patch=deed.body)
                return
            thing = await store.get(resource, name, space)
            self.sight.deleted_by_users.add(thing["metadata"]["uid"])
            await store.delete(resource, name, space)

    async def _tidy(self, store: SimulatedCluster) -> None:
        """A user who deletes loose pods that have ended; of a gang only when all have."""
        while True:
            await asyncio.sleep(HOUR)
            for pod in list(self.sight.pods.values()):
                gang = self.sight.gangs[pod.gang].values() if pod.gang else [pod]
                if not pod.job and all(one.ended for one in gang):
                    with suppress(NotFoundError):
                        await store.delete(PODS, pod.metadata.name, NAMESPACE)

    async def _until_all_has_ended(self) -> None:
        begun = self.sight.now()
        while any(next(promise(self.sight), "") for promise in IN_THE_END):
            if self.sight.now() - begun > _LONGEST:
                break
            await asyncio.sleep(600)
        for promise in IN_THE_END:
            for story in promise(self.sight):
                self.witness.breaks(promise.__name__, story)

    async def _rest(self) -> None:
        """Nobody does anything any more: then nothing may be written, but for signs of life."""


def _of_kind(kind: str) -> Resource[Object]:
    return next(resource for (_, name), resource in BY_KIND.items() if name == kind)


async def _create(store: SimulatedCluster, body: Object) -> None:
    await store.create(BY_KIND[body["apiVersion"], body["kind"]], body)


@contextmanager
def _complaints(witness: _Witness) -> Iterator[None]:
    """Whatever Shoal logs as an error is a broken promise."""

    class Ears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            formatted = logging.Formatter().format(record)
            witness.breaks("nothing unexpected happens", formatted)

    ears, log = Ears(logging.ERROR), logging.getLogger("shoal")
    log.addHandler(ears)
    try:
        yield
    finally:
        log.removeHandler(ears)
