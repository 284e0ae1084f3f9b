"""Electors on virtual time, each a process with faults of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from shoal.cluster.port import Cluster
from shoal.election.elector import Elector, electing
from shoal.election.leadership import Leadership
from shoal.election.lease import LeaseOptions
from shoal.simulator import (
    AnyFault,
    FaultInjector,
    Schedule,
    SimulatedCluster,
    Simulation,
    run,
    run_with_restarts,
)

T = TypeVar("T")

OPTIONS = LeaseOptions()


@dataclass
class Candidate:
    """A simulated process that competes for the Lease; a new leadership for each attempt."""

    simulation: Simulation
    store: SimulatedCluster
    name: str
    faults: FaultInjector
    rate: float = 1.0
    """How fast its clock runs."""
    options: LeaseOptions = OPTIONS
    leaderships: list[Leadership] = field(default_factory=list)

    def now(self) -> float:
        return asyncio.get_running_loop().time() * self.rate

    @property
    def leads(self) -> bool:
        """Whether any leadership of this process is held: it has at most one."""
        return any(one.is_held for one in self.leaderships)

    @property
    def identity(self) -> str:
        return f"{self.name}-{len(self.leaderships)}"

    @asynccontextmanager
    async def term(self, cluster: Cluster) -> AsyncIterator[Leadership]:
        """Run an elector, as one term of a manager does."""
        leadership = Leadership(self.now)
        self.leaderships.append(leadership)
        elector = Elector(
            cluster,
            leadership,
            self.options,
            self.identity,
            now=self.now,
            clock=self.simulation.clock,
            rng=self.simulation.rng(self.identity),
        )
        async with electing(elector):
            yield leadership

    async def compete(self) -> None:
        """Compete for ever, over all crashes."""

        async def program(cluster: Cluster) -> None:
            while True:
                async with self.term(cluster) as leadership:
                    await leadership.ended()

        await run_with_restarts(self.store, self.faults, program)


class Race:
    """Candidates of one simulated cluster."""

    def __init__(self, simulation: Simulation, store: SimulatedCluster) -> None:
        self.simulation, self.store = simulation, store
        self.candidates: list[Candidate] = []

    def candidate(self, *faults: AnyFault, rate: float = 1.0) -> Candidate:
        injector = FaultInjector(Schedule(faults), self.simulation.clock)
        name = "abc"[len(self.candidates)]
        one = Candidate(self.simulation, self.store, name, injector, rate)
        self.candidates.append(one)
        return one

    @property
    def leaders(self) -> list[str]:
        return [one.name for one in self.candidates if one.leads]

    async def until_leader(self, *names: str) -> float:
        """Wait until exactly these lead; return the time."""
        while self.leaders != list(names):  # noqa: ASYNC110 - virtual time, and nothing to be notified by
            await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time()


def race(main: Callable[[Race], Coroutine[None, None, T]], *, seed: int = 0) -> T:
    async def with_store(simulation: Simulation) -> T:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            return await main(Race(simulation, store))

    return run(with_store, seed=seed)
