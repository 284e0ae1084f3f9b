"""Runs of simulated days: a cluster by dice, its users, faults, and a witness who checks every promise."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import BY_KIND, PODS, Object, Resource
from shoal.engine.config import SchedulerConfig
from shoal.simulator import (
    Chronicle,
    Extent,
    Faults,
    NodeLoss,
    Schedule,
    SimulatedCluster,
    Simulation,
    random_schedule,
    run,
    shrunk,
)
from shoal.simulator.kubelet import Kubelet, LoopClock, drawn_lives
from tests.soak.enduring import enduring, unhurried
from tests.soak.scenes import create
from tests.soak.sight import Sight
from tests.soak.witness import Witness
from tests.soak.worlds import DAY, HABITS, HOUR, LONGEST_TTL, NAMESPACE, Deed, World, drawn_world

CONFIG = SchedulerConfig(optimise_period="10m", node_lost_seconds=700)
HEARTBEAT = 300.0
"""Seconds between signs of life of a node: less often than in life, for a run to be quick."""
_ABSENCE = 3000.0
"""Seconds that a node is silent at most: some are not for long, some are taken for lost."""
_SELDOM = 600.0
"""Seconds between two signs of life of a watch, and after which the store is tidied: seldom, too."""
_LONGEST = 3 * DAY
"""Seconds after which what has not ended will not."""
_AS_KUBECTL = Deletion(propagation="Background")
"""How users delete: with all that came of it."""
_CALLS = 1500
"""How many calls of a sort there are in a day, about."""


@dataclass(frozen=True, kw_only=True)
class Soak:
    """A run: all of it follows from these. Faults and arrivals are so many a day."""

    seed: int
    days: float = 1.0
    faults: int = 80
    arrivals: int = 120

    def world(self) -> World:
        return drawn_world(self._dice("world"), self.days, self.arrivals)

    def schedule(self) -> Schedule:
        """What goes wrong: all that can, all the time."""
        calls = max(round(_CALLS * self.days), 1)
        extent = Extent(
            faults=round(self.faults * self.days),
            seconds=self.days * DAY,
            calls=calls,
            nodes=self.world().nodes,
            absence=_ABSENCE,
        )
        return random_schedule(self._dice("faults"), extent)

    def _dice(self, whose: str) -> random.Random:
        return random.Random(f"{self.seed} {whose}")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run went: what was broken, which faults came, and how much there was of it."""

    broken: str
    story: Sequence[str]
    days: float
    commits: int
    pods: int


def soaked(soak: Soak, schedule: Schedule | None = None, chronicle: Chronicle | None = None) -> Outcome:
    """Run it, with the faults that are its own or with others."""
    chosen = soak.schedule() if schedule is None else schedule
    return run(lambda simulation: _Run(simulation, soak, chosen).outcome(chronicle), seed=soak.seed)


def told(soak: Soak, schedule: Schedule, broken: str) -> str:
    """What a run broke, the fewest faults that it takes, and how to see it again."""
    promise = broken.partition(":")[0]

    def still_fails(fewer: Schedule) -> bool:
        return soaked(soak, fewer).broken.startswith(promise)

    blamed = shrunk(schedule, still_fails)
    again = f"python -m tests.soak --seed {soak.seed} --days {soak.days:g}"
    again += f" --faults {soak.faults} --arrivals {soak.arrivals}"
    return f"{broken}\nIt takes these faults:\n{blamed}To see it again: {again}"


class _Run:
    _kubelet: Kubelet

    def __init__(self, simulation: Simulation, soak: Soak, schedule: Schedule) -> None:
        self._simulation, self._soak = simulation, soak
        self._world = soak.world()
        self._faults = Faults(schedule, simulation.clock)
        self._faults.lost_nodes.append(self._lose)
        self._sight = Sight(asyncio.get_running_loop().time, self._running)
        self._witness = Witness(self._sight, self._faults)

    async def outcome(self, chronicle: Chronicle | None) -> Outcome:
        simulation, witness = self._simulation, self._witness
        async with SimulatedCluster(
            clock=simulation.clock,
            dice=simulation.dice("store"),
            bookmark_every=_SELDOM,
            tidy_every=_SELDOM,
        ) as store:
            store.witnesses.extend([witness, chronicle] if chronicle else [witness])
            with witness.hears_complaints():
                await self._days(store)
        return Outcome(
            broken=witness.broken,
            story=self._faults.story,
            days=self._sight.now() / DAY,
            commits=witness.commits,
            pods=len(self._sight.known),
        )

    async def _days(self, store: SimulatedCluster) -> None:
        """All that happens, until it is over, or a promise is broken."""
        for one in self._world.objects:
            await create(store, one)
        shoal = enduring(self._simulation, store, self._faults, CONFIG, self._witness)
        async with self._machines(store), shoal:
            users = asyncio.create_task(self._users(store))
            over = asyncio.create_task(self._witness.over.wait())
            await asyncio.wait([users, over], return_when=asyncio.FIRST_COMPLETED)
            if users.done():
                users.result()

    # --- machines -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _machines(self, store: SimulatedCluster) -> AsyncIterator[None]:
        lives, clock = drawn_lives(str(self._soak.seed), HABITS), LoopClock(self._simulation.clock)
        self._kubelet = Kubelet(store, self._world.nodes, lives, clock)
        for group in self._world.groups:
            await self._kubelet.register(group.names, group.capacity, {"pool": group.pool})
        async with self._kubelet.at_work(HEARTBEAT, unhurried(self._simulation.dice("kubelet"))):
            yield

    def _running(self) -> dict[str, list[str]]:
        return self._kubelet.running()

    def _lose(self, loss: NodeLoss) -> None:
        self._kubelet.lose(loss.node, loss.seconds)

    # --- users --------------------------------------------------------------------------------------------

    async def _users(self, store: SimulatedCluster) -> None:
        """Do what they do, and wait until all that they wanted has been done."""
        tidying = asyncio.create_task(self._tidy(store))
        for deed in self._world.deeds:
            await asyncio.sleep(max(deed.at - self._sight.now(), 0))
            await self._do(store, deed)
        await self._witness.must_rest_within(_LONGEST)
        await asyncio.sleep(LONGEST_TTL)
        await self._witness.must_be_quiet_for(2 * HOUR)
        tidying.cancel()

    async def _do(self, store: SimulatedCluster, deed: Deed) -> None:
        if deed.do == "create":
            await create(store, deed.body)
            return
        kind, name = deed.ref
        resource = _of_kind(kind)
        space = NAMESPACE if resource.namespaced else ""
        with suppress(NotFoundError):
            if deed.do == "patch":
                await store.patch(resource, name, space, patch=deed.body)
                return
            thing = await store.get(resource, name, space)
            self._sight.deleted_by_users.add(thing["metadata"]["uid"])
            await store.delete(resource, name, space, _AS_KUBECTL)

    async def _tidy(self, store: SimulatedCluster) -> None:
        """Somebody deletes loose pods that have ended; those of a gang when all of them have."""
        while True:
            await asyncio.sleep(HOUR)
            for pod in list(self._sight.pods.values()):
                party = self._sight.gangs[pod.gang].values() if pod.gang else [pod]
                if not pod.job and all(one.ended for one in party):
                    with suppress(NotFoundError):
                        await store.delete(PODS, pod.metadata.name, NAMESPACE)


def _of_kind(kind: str) -> Resource[Object]:
    return next(resource for (_, name), resource in BY_KIND.items() if name == kind)
