"""Runs of simulated days: a random cluster, its users, faults, and a check of all invariants."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from shoal.cluster.errors import InvalidError, NotFoundError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import PODS, Object, Resource, by_kind
from shoal.engine.config import SchedulerConfig
from shoal.simulator import (
    ChangeLog,
    ChaosOptions,
    FaultInjector,
    NodeLoss,
    Schedule,
    SimulatedCluster,
    Simulation,
    random_schedule,
    run,
    shrink,
)
from shoal.simulator.kubelet import LoopClock, SimulatedKubelet, random_scripts
from tests.soak.checker import InvariantChecker
from tests.soak.harness import create
from tests.soak.observed_state import ObservedState
from tests.soak.shoal_process import long_watches, run_shoal
from tests.soak.worlds import DAY, HOUR, LONGEST_TTL, NAMESPACE, SCRIPTS, UserAction, World, random_world

CONFIG = SchedulerConfig(optimise_period="10m", node_lost_seconds=700)
HEARTBEAT = 300.0
"""Seconds between heartbeats of a node: rarer than in practice, for a run to be quick."""
_MAX_NODE_LOSS = 3000.0
"""Seconds that a node is partitioned at most: some recover soon, some are taken for lost."""
_INTERVAL = 600.0
"""Seconds between bookmarks of a watch, and between clean-ups of the store: rare, too."""
_DEADLINE = 3 * DAY
"""Seconds after which everything has to be finished."""
_KUBECTL_DELETION = Deletion(propagation="Background")
"""How users delete: with all dependents."""
_CALLS = 1500
"""Approximate number of calls of each type in a day."""


@dataclass(frozen=True, kw_only=True)
class SoakConfig:
    """All parameters of a run. Faults and arrivals are per day."""

    seed: int
    days: float = 1.0
    faults: int = 80
    arrivals: int = 120

    def world(self) -> World:
        return random_world(self._rng("world"), self.days, self.arrivals)

    def schedule(self) -> Schedule:
        """The random faults of this run."""
        calls = max(round(_CALLS * self.days), 1)
        options = ChaosOptions(
            faults=round(self.faults * self.days),
            seconds=self.days * DAY,
            calls=calls,
            nodes=self.world().nodes,
            max_node_loss=_MAX_NODE_LOSS,
        )
        return random_schedule(self._rng("faults"), options)

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The first violation of a run, the log of its faults, and its size."""

    violation: str
    faults: Sequence[str]
    days: float
    commits: int
    pods: int


def run_soak(
    soak: SoakConfig, schedule: Schedule | None = None, change_log: ChangeLog | None = None
) -> Outcome:
    """Run it, with its own faults or with others."""
    chosen = soak.schedule() if schedule is None else schedule
    return run(lambda simulation: _Run(simulation, soak, chosen).outcome(change_log), seed=soak.seed)


def describe_failure(soak: SoakConfig, schedule: Schedule, violation: str) -> str:
    """Describe a violation, the fewest faults that cause it, and how to reproduce it."""
    invariant = violation.partition(":")[0]

    def still_fails(fewer: Schedule) -> bool:
        return run_soak(soak, fewer).violation.startswith(invariant)

    minimal = shrink(schedule, still_fails)
    command = f"python -m tests.soak --seed {soak.seed} --days {soak.days:g}"
    command += f" --faults {soak.faults} --arrivals {soak.arrivals}"
    return f"{violation}\nIt takes these faults:\n{minimal}To reproduce it: {command}"


class _Run:
    _kubelet: SimulatedKubelet

    def __init__(self, simulation: Simulation, soak: SoakConfig, schedule: Schedule) -> None:
        self._simulation, self._soak = simulation, soak
        self._world = soak.world()
        self._faults = FaultInjector(schedule, simulation.clock)
        self._faults.node_loss_handlers.append(self._partition)
        self._state = ObservedState(asyncio.get_running_loop().time, self._running)
        self._checker = InvariantChecker(self._state, self._faults)

    async def outcome(self, change_log: ChangeLog | None) -> Outcome:
        simulation, checker = self._simulation, self._checker
        async with SimulatedCluster(
            clock=simulation.clock,
            rng=simulation.rng("store"),
            bookmark_interval=_INTERVAL,
            cleanup_interval=_INTERVAL,
        ) as store:
            store.commit_observers.extend([checker, change_log] if change_log else [checker])
            with checker.errors_are_violations():
                await self._run_days(store)
        return Outcome(
            violation=checker.violation,
            faults=self._faults.log,
            days=self._state.now() / DAY,
            commits=checker.commits,
            pods=len(self._state.known),
        )

    async def _run_days(self, store: SimulatedCluster) -> None:
        """Run until everything is finished, or until the first violation."""
        for one in self._world.objects:
            await create(store, one)
        shoal = run_shoal(self._simulation, store, self._faults, CONFIG, self._checker)
        async with self._run_nodes(store), shoal:
            users = asyncio.create_task(self._users(store))
            over = asyncio.create_task(self._checker.over.wait())
            await asyncio.wait([users, over], return_when=asyncio.FIRST_COMPLETED)
            if users.done():
                users.result()

    # --- nodes ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run_nodes(self, store: SimulatedCluster) -> AsyncIterator[None]:
        scripts, clock = random_scripts(str(self._soak.seed), SCRIPTS), LoopClock(self._simulation.clock)
        self._kubelet = SimulatedKubelet(store, self._world.nodes, scripts, clock)
        for group in self._world.groups:
            await self._kubelet.register(group.names, group.capacity, {"pool": group.pool})
        async with self._kubelet.running(HEARTBEAT, long_watches(self._simulation.rng("kubelet"))):
            yield

    def _running(self) -> dict[str, list[str]]:
        return self._kubelet.running_pods()

    def _partition(self, loss: NodeLoss) -> None:
        self._kubelet.partition(loss.node, loss.seconds)

    # --- users ---------------------------------------------------------------------------------------------

    async def _users(self, store: SimulatedCluster) -> None:
        """Perform the actions of users, and wait until everything is finished and idle."""
        cleanup = asyncio.create_task(self._delete_finished_pods(store))
        for action in self._world.actions:
            await asyncio.sleep(max(action.at - self._state.now(), 0))
            await self._do(store, action)
        await self._checker.expect_finished_within(_DEADLINE)
        await asyncio.sleep(LONGEST_TTL)
        await self._checker.expect_idle_for(2 * HOUR)
        cleanup.cancel()

    async def _do(self, store: SimulatedCluster, action: UserAction) -> None:
        if action.do == "create":
            await create(store, action.body)
            return
        kind, name = action.ref
        resource = _of_kind(kind)
        space = NAMESPACE if resource.namespaced else ""
        with suppress(NotFoundError):
            if action.do in ("patch", "patch_status", "delete_pod"):
                with suppress(InvalidError):  # the job has finished
                    await self._change(store, resource, name, action)
                return
            thing = await store.get(resource, name, space)
            self._state.deleted_by_users.add(thing["metadata"]["uid"])
            await store.delete(resource, name, space, _KUBECTL_DELETION)

    async def _change(
        self, store: SimulatedCluster, resource: Resource[Object], name: str, action: UserAction
    ) -> None:
        space = NAMESPACE if resource.namespaced else ""
        if action.do == "delete_pod":
            job = await store.get(resource, name, space)
            own = [
                pod for pod in self._state.pods.values() if pod.slot and pod.slot[0] == job["metadata"]["uid"]
            ]
            if own:
                pod = own[action.body["number"] % len(own)]
                self._state.deleted_by_users.add(pod.metadata.uid)
                await store.delete(PODS, pod.metadata.name, NAMESPACE)
        else:
            write = store.patch if action.do == "patch" else store.patch_status
            await write(resource, name, space, patch=action.body)

    async def _delete_finished_pods(self, store: SimulatedCluster) -> None:
        """Delete finished pods without an owner; those of a gang when all of them are finished."""
        while True:
            await asyncio.sleep(HOUR)
            for pod in list(self._state.pods.values()):
                pods = self._state.gangs[pod.gang].values() if pod.gang else [pod]
                if not pod.metadata.owner_references and all(one.finished for one in pods):
                    with suppress(NotFoundError):
                        await store.delete(PODS, pod.metadata.name, NAMESPACE)


def _of_kind(kind: str) -> Resource[Object]:
    return next(resource for (_, name), resource in by_kind().items() if name == kind)
