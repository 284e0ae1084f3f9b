"""The homes in which scenarios of jobs are executed: simulated, embedded, and Kubernetes.

In the simulated home and on Kubernetes a simulated kubelet runs the pods; in the embedded home they are real
processes. Everything else is the same: all of Shoal works on the cluster.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shoal.api.decode import decode
from shoal.cluster.errors import NotFoundError
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import NAMESPACES, NODES, PODS, Object
from shoal.embedded.store import open_home
from shoal.engine.config import SchedulerConfig
from shoal.kubelet.agent import Agent
from shoal.kubelet.nodes import STOPPED_ANNOTATION, LocalNode
from shoal.kubelet.runtime import open_runtime
from shoal.manager import running
from shoal.simulator import (
    FaultInjector,
    Schedule,
    SimulatedCluster,
    Simulation,
    run,
    run_with_restarts,
)
from shoal.simulator.kubelet import LoopClock, PodScript, SimulatedKubelet
from shoal.simulator.kubelet.scripts import PodState
from shoal.simulator.kubelet.statuses import parse_time, pod_status
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import new_namespace
from tests.kinds.promises import JobPromises
from tests.kinds.scenarios import JobHome, JobScenario, ScenarioRun, delete_job, run_scenario
from tests.scheduler.embedded import end_all

T = TypeVar("T")

_GIBIBYTE = 2**30
_HEARTBEAT = 2.0
_VIRTUAL_PATIENCE = 900.0
"""Seconds until a wait fails in the simulated home: faults last up to 300 seconds."""
_SHUTDOWN = 0.2
"""Seconds that a deleted pod takes to end on a simulated node."""


class SimulatedNodesHome(JobHome):
    """A cluster whose pods are run by a simulated kubelet, without end."""

    def __init__(
        self, cluster: Cluster, namespace: str, kubelet: SimulatedKubelet, clock: Callable[[], float]
    ) -> None:
        super().__init__(cluster, namespace)
        self._kubelet, self._clock = kubelet, clock

    async def end_pod(self, pod: Object, code: int) -> None:
        """Write the status that a kubelet writes when the containers have ended."""
        meta, status = pod["metadata"], pod["status"]
        state = PodState("Failed" if code else "Succeeded", math.inf, exit_code=code)
        started = parse_time(status["startTime"])
        ended = pod_status(pod, state, status["podIP"], started, self._clock())
        await self.cluster.patch_status(PODS, meta["name"], self.namespace, patch={"status": ended})

    async def lose_node(self, name: str, seconds: float) -> None:
        self._kubelet.partition(name, seconds)


@asynccontextmanager
async def simulated_nodes(
    cluster: Cluster, scenario: JobScenario, clock: Callable[[], float]
) -> AsyncIterator[SimulatedKubelet]:
    """Run the nodes of a scenario."""
    script = PodScript(shutdown=_SHUTDOWN)
    kubelet = SimulatedKubelet(cluster, list(scenario.nodes), lambda _: script, LoopClock(clock))
    for name, cpu in scenario.nodes.items():
        await kubelet.register([name], {"cpu": str(cpu), "memory": "64Gi", "pods": "1000"}, {})
    async with kubelet.running(_HEARTBEAT):
        yield kubelet


# --- simulated ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimulatedRun:
    """A scenario that was executed in the simulated home, and the log of faults."""

    scenario: ScenarioRun
    faults: list[str]
    violations: list[str]


def run_simulated(scenario: JobScenario, schedule: Schedule | None = None, seed: int = 1) -> SimulatedRun:
    """Execute a scenario in the simulated home, where Shoal is restarted after every crash."""
    found: list[str] = []

    async def main(home: SimulatedNodesHome, faults: FaultInjector) -> SimulatedRun:
        return SimulatedRun(await run_scenario(home, scenario), list(faults.log), found)

    return simulate(scenario, main, found, schedule, seed)


def simulate(
    scenario: JobScenario,
    main: Callable[[SimulatedNodesHome, FaultInjector], Coroutine[None, None, T]],
    violations: list[str],
    schedule: Schedule | None = None,
    seed: int = 1,
) -> T:
    """Run `main` in the simulated home of a scenario; violations of promises are appended."""

    async def run_main(simulation: Simulation) -> T:
        faults = FaultInjector(schedule or Schedule(), simulation.clock)
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            promises = JobPromises(violations)
            store.commit_observers.append(promises)
            await store.create(NAMESPACES, {"metadata": {"name": "jobs"}})
            async with simulated_nodes(store, scenario, simulation.clock) as kubelet:
                home = SimulatedNodesHome(store, "jobs", kubelet, simulation.clock)
                home.patience = _VIRTUAL_PATIENCE
                async with _restarted_shoal(simulation, store, faults, scenario):
                    return await main(home, faults)

    return run(run_main, seed=seed)


@asynccontextmanager
async def _restarted_shoal(
    simulation: Simulation, store: SimulatedCluster, faults: FaultInjector, scenario: JobScenario
) -> AsyncIterator[None]:
    config = decode(SchedulerConfig, dict(scenario.config))

    async def program(connection: Cluster) -> None:
        options = ReflectorOptions(rng=simulation.rng("reflectors"))
        async with running(
            connection, config, clock=simulation.clock, reflector_options=options, native=True
        ):
            await asyncio.Event().wait()

    async with _in_background(run_with_restarts(store, faults, program)):
        yield


@asynccontextmanager
async def _in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
        assert not task.done(), f"Shoal has ended: {task}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- embedded -----------------------------------------------------------------------------------------------


class EmbeddedHome(JobHome):
    """An embedded home, whose pods are processes."""

    def __init__(self, cluster: Cluster, agent: Agent) -> None:
        super().__init__(cluster, "default")
        self._agent = agent
        self._returning: set[asyncio.Task[None]] = set()

    async def end_pod(self, pod: Object, code: int) -> None:
        """Write the exit code into the pipe that the process reads."""
        meta, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
        run = self._agent.find_run(self.namespace, meta["name"], container)
        pipe = Path(run.spec.cwd) / "end"
        while not pipe.exists():  # noqa: ASYNC110 - the process makes it
            await asyncio.sleep(0.01)
        await asyncio.to_thread(pipe.write_text, f"{code}\n")
        await run.wait()

    async def lose_node(self, name: str, seconds: float) -> None:
        await self._set_stopped(name, "network")
        task = asyncio.create_task(self._return_later(name, seconds))
        self._returning.add(task)

    async def _return_later(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._set_stopped(name, None)

    async def _set_stopped(self, name: str, mode: str | None) -> None:
        patch = {"metadata": {"annotations": {STOPPED_ANNOTATION: mode}}}
        await self.cluster.patch(NODES, name, patch=patch)


async def run_embedded(scenario: JobScenario, directory: Path) -> ScenarioRun:
    """Execute a scenario in an embedded home; no process is left when it returns."""
    nodes = tuple(
        LocalNode(name=name, cpu=cpu * 1000, memory=10 * _GIBIBYTE) for name, cpu in scenario.nodes.items()
    )
    config = decode(SchedulerConfig, dict(scenario.config))
    async with open_home(directory) as registry, open_runtime(directory) as runtime:
        agent = Agent(registry, runtime, directory, nodes, heartbeat=_HEARTBEAT)
        try:
            async with _in_background(agent.run()):
                await agent.ready.wait()
                async with running(registry, config, native=True) as manager:
                    await manager.ready()
                    return await run_scenario(EmbeddedHome(registry, agent), scenario)
        finally:
            await end_all(runtime)


# --- Kubernetes ---------------------------------------------------------------------------------------------


async def run_kubernetes(scenario: JobScenario, plane: ControlPlane) -> ScenarioRun:
    """Execute a scenario on a real API server, with a simulated kubelet."""
    cluster = KubernetesCluster(find_access(str(plane.kubeconfig())))
    config = decode(SchedulerConfig, dict(scenario.config))
    try:
        namespace = await asyncio.to_thread(new_namespace, plane)
        async with simulated_nodes(cluster, scenario, time.time) as kubelet:
            home = SimulatedNodesHome(cluster, namespace, kubelet, time.time)
            try:
                async with running(cluster, config, native=False) as manager:
                    await manager.ready()
                    return await run_scenario(home, scenario)
            finally:
                await _clear(home)
                await kubelet.remove_nodes()
    finally:
        await cluster.close()


async def _clear(home: JobHome) -> None:
    """Delete the job and all pods, so that they hold no room of the next scenario."""
    with suppress(NotFoundError):
        await delete_job()(home)
    for pod in (await home.cluster.list(PODS, Selector(home.namespace))).items:
        with suppress(NotFoundError):
            name = pod["metadata"]["name"]
            await home.cluster.patch(PODS, name, home.namespace, patch={"metadata": {"finalizers": None}})
            await home.cluster.delete(PODS, name, home.namespace, Deletion(grace=0))
