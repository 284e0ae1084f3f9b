"""The agent: registers the nodes of this machine and runs their pods as processes.

    agent = Agent(cluster, runtime, home, local_nodes())
    task = asyncio.create_task(agent.run())  # cancel it to stop; containers continue to run
    await agent.ready.wait()

All state is in the API objects and in the runtime's directories. A stopped node (`shoal node stop`) is
simulated by the agent: it does not manage the pods of that node.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from shoal.api.conditions import FINISHED_PHASES
from shoal.cluster.errors import BadRequestError, ClusterError, NotFoundError
from shoal.cluster.events import EventRecorder
from shoal.cluster.node_status import HEARTBEAT_SECONDS
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import NODES, PODS, SERVICES, Object, resource_of
from shoal.kinds.base import job_kinds
from shoal.kubelet.container_spec import NODE_NAME
from shoal.kubelet.context import COMPONENT, AgentContext
from shoal.kubelet.lifecycle import RestartOptions
from shoal.kubelet.name_service import NameService
from shoal.kubelet.node_reporter import NodeReporter
from shoal.kubelet.nodes import STOPPED_ANNOTATION, LocalNode, LocalNodes
from shoal.kubelet.pod_worker import PodWorker
from shoal.kubelet.references import REFERENCED, LocalReference, volume_references
from shoal.kubelet.runtime import ResourceUsage, Run, Runtime, UsageReport

_LOG: Final = logging.getLogger(__name__)
_POWER_OFF: Final = "power"
_SYSTEM_HOSTS: Final = Path("/etc/hosts")
_MIN_WINDOW: Final = 1.0
"""Shortest window in seconds over which a CPU rate is computed."""


class Agent:
    """The kubelet of this machine."""

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        cluster: Cluster,
        runtime: Runtime,
        home: Path,
        nodes: LocalNodes,
        *,
        clock: Callable[[], float] = time.time,
        restart: RestartOptions | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.ready: Final = asyncio.Event()
        """Set when the nodes are registered and all pods have a worker."""
        self._cluster: Final = cluster
        self._context: Final = AgentContext(
            cluster=cluster,
            runtime=runtime,
            home=home,
            names=NameService(home, _system_hosts()),
            recorder=EventRecorder(cluster, COMPONENT, clock),
            clock=clock,
            restart=restart or RestartOptions(),
        )
        self._usage_meter: Final = UsageMeter(runtime)
        self._reporter: Final = NodeReporter(cluster, clock, nodes, heartbeat)
        self._nodes_by_name: Final = {local_node.name: local_node for local_node in nodes}
        self._stopped: Final[dict[str, str]] = {}
        """Nodes that are simulated as failed, with their failure mode (`power` or `network`)."""
        self._pods: Final[dict[Key, Object]] = {}
        self._pods_changed: Final = asyncio.Event()
        self._workers: Final[dict[str, tuple[PodWorker, asyncio.Task[None]]]] = {}
        self._cleanups: Final[dict[str, asyncio.Task[None]]] = {}

    # --- queries ------------------------------------------------------------------------------------------

    def find_run(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002 - the port of the API server
        """The last run of a container (of the first container by default), or the previous one."""
        found = self._pods.get((namespace, pod))
        if found is None:
            raise NotFoundError(f'pods "{pod}" not found')
        container = container or found["spec"]["containers"][0]["name"]
        return _select_run(self._context.runtime, found, container, previous=previous)

    def usage(self) -> UsageReport:
        """Current resource usage of nodes and pods."""
        reporting = [name for name in self._nodes_by_name if name not in self._stopped]
        return self._usage_meter.measure(self._pods.values(), reporting, self._context.clock())

    # --- running ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; containers continue to run."""
        reflectors = Reflectors(self._cluster)
        reflectors.follow(SERVICES, self._context.names.on_service_changes)
        for name, kind in job_kinds().items():
            reflectors.follow(resource_of(name), functools.partial(self._context.names.on_job_changes, kind))
        for reference, resource in REFERENCED.items():
            reflectors.follow(
                resource.read_as(lambda _: None), functools.partial(self._on_reference_changes, reference)
            )
        reflectors.follow(NODES, self._on_node_changes)
        reflectors.follow(PODS, self._on_pod_changes)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reflectors.run())
                await reflectors.synced()
                await self._recover()
                group.create_task(self._reporter.run(self._stopped))
                await self._remove_stale_nodes()
        finally:
            tasks = [task for _, task in self._workers.values()] + list(self._cleanups.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _recover(self) -> None:
        """Resume the work of an earlier process."""
        self._context.names.release_unused()
        for uid in self._context.runtime.pods():
            for run in self._context.runtime.runs(uid):
                self._context.devices.restore(run.spec)
        await self._reporter.register(self._stopped)
        self.ready.set()
        for name, mode in self._stopped.items():
            self._stop_node(name, mode)
        self._sync_pods(self._pods.values())
        self._clean_up_orphans()

    async def mark_pods_disrupted(self) -> None:
        """Set DisruptionTarget on pods that the shutdown ends, so that it does not count as their failure."""
        for name in self._nodes_by_name:
            for pod in self._active_pods(name):
                if pod["spec"].get("restartPolicy") == "Never":
                    with contextlib.suppress(ClusterError):
                        await self._reporter.mark_disrupted(pod, "The daemon is stopping.")

    def active_runs(self) -> list[Run]:
        """All runs of all pods that have not ended."""
        runtime = self._context.runtime
        return [run for uid in runtime.pods() for run in runtime.runs(uid) if run.exit is None]

    # --- pods ---------------------------------------------------------------------------------------------

    def _on_pod_changes(self, changes: Sequence[Change[Object]]) -> None:
        self._context.names.on_pod_changes(changes)
        self._pods_changed.set()
        for change in changes:
            if isinstance(change, Put):
                self._pods[change.key] = change.item
                self._sync_pods([change.item])
            else:
                gone = self._pods.pop(change.key)
                self._remove_pod(gone["metadata"]["uid"], gone["spec"].get("nodeName", ""))

    def _on_reference_changes(self, kind: str, changes: Sequence[Change[None]]) -> None:
        """Refresh the volumes of pods that refer to changed config maps or secrets."""
        changed = {(change.key[0], LocalReference(kind, change.key[1])) for change in changes}
        for worker, _ in self._workers.values():
            namespace = worker.pod["metadata"]["namespace"]
            if any((namespace, one) in changed for one in volume_references(worker.pod["spec"])):
                worker.refresh_volumes()

    def _sync_pods(self, pods: Iterable[Object]) -> None:
        """Pass pods to their workers, and create missing workers.

        Skip pods of stopped and of foreign nodes.
        """
        for pod in pods:
            node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
            if not self.ready.is_set() or node in self._stopped or node not in self._reporter.owned:
                continue
            if uid in self._workers:
                self._workers[uid][0].update(pod)
            elif uid not in self._cleanups:
                local_node = self._nodes_by_name.get(node) or LocalNode(name=node, cpu=0, memory=0)
                worker = PodWorker(pod, local_node, self._context)
                self._workers[uid] = worker, _create_task(worker.run())

    def _remove_pod(self, uid: str, node: str) -> None:
        """Clean up after a deleted pod, unless its node is stopped."""
        if not self.ready.is_set() or node in self._stopped:
            return
        worker = self._workers.pop(uid, None)
        if worker:
            worker[1].cancel()
        if self._context.pod_directory(uid).exists() and uid not in self._cleanups:
            self._cleanups[uid] = _create_task(self._clean_up_pod(uid))

    async def _clean_up_pod(self, uid: str) -> None:
        """Kill the containers of a pod that are left, and delete its directory."""
        runs = self._context.runtime.runs(uid)
        for run in runs:
            if run.exit is None:
                run.stop(0)
        for run in runs:
            await run.wait()
        self._context.devices.release(uid)
        try:
            await self._context.runtime.remove(uid)
        except OSError as error:
            _LOG.warning("cannot remove the directory of pod %s: %s", uid, error)
        del self._cleanups[uid]

    def _clean_up_orphans(self) -> None:
        """Clean up pods that have a directory but no object: they were deleted while no agent was running."""
        known = {pod["metadata"]["uid"] for pod in self._pods.values()}
        for uid in self._context.runtime.pods() - known:
            runs = self._context.runtime.runs(uid)
            self._remove_pod(uid, runs[0].spec.env.get(NODE_NAME, "") if runs else "")

    # --- nodes --------------------------------------------------------------------------------------------

    def _on_node_changes(self, changes: Sequence[Change[Object]]) -> None:
        self._reporter.on_node_changes(changes)
        for change in changes:
            name = change.key[1]
            mode = _failure_mode(change.item) if isinstance(change, Put) else ""
            before = self._stopped.get(name, "")
            if mode == before or name not in self._reporter.owned:
                continue
            if mode:
                self._stopped[name] = mode
                self._stop_node(name, mode)
            else:
                self._restore_node(name)

    def _stop_node(self, name: str, mode: str) -> None:
        """Simulate a failed node: no worker manages its pods, and without power no container runs."""
        if not self.ready.is_set():
            return
        for uid, (worker, task) in list(self._workers.items()):
            if worker.node.name == name:
                del self._workers[uid]
                task.cancel()
        if mode == _POWER_OFF:
            self._kill_containers(name)

    def _kill_containers(self, name: str) -> None:
        for run in self.active_runs():
            if run.spec.env.get(NODE_NAME) == name:
                run.stop(0)

    def _restore_node(self, name: str) -> None:
        """Resume a stopped node: sync its pods, and clean up those deleted meanwhile."""
        del self._stopped[name]
        if self.ready.is_set():
            self._reporter.report_now()
            self._sync_pods(self._pods.values())
            self._clean_up_orphans()

    async def _remove_stale_nodes(self) -> None:
        """Remove nodes of an earlier process that this machine no longer has, after their pods have ended."""
        for name in sorted(self._reporter.owned - self._nodes_by_name.keys()):
            try:
                await self._drain_and_remove(name)
            except ClusterError as error:
                _LOG.warning("cannot remove node %s, trying again at the next start: %s", name, error.message)

    async def _drain_and_remove(self, name: str) -> None:
        await self._reporter.drain(name, self._active_pods(name))
        while self._active_pods(name):
            self._pods_changed.clear()
            await self._pods_changed.wait()
        await self._reporter.remove(name)

    def _active_pods(self, node: str) -> list[Object]:
        """The pods of a node that have not ended."""
        return [
            pod
            for pod in self._pods.values()
            if pod["spec"].get("nodeName") == node
            and pod.get("status", {}).get("phase") not in FINISHED_PHASES
        ]


def _failure_mode(node: Object) -> str:
    return str(node["metadata"].get("annotations", {}).get(STOPPED_ANNOTATION, ""))


def _create_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


def _system_hosts() -> str:
    """The contents of the system's hosts file."""
    with contextlib.suppress(OSError):
        return _SYSTEM_HOSTS.read_text()
    return "127.0.0.1 localhost\n"


def _select_run(runtime: Runtime, pod: Object, container: str, *, previous: bool) -> Run:
    """The last or previous run of a container; if there is none, the error of a kubelet."""
    name = pod["metadata"]["name"]
    runs = [run for run in runtime.runs(pod["metadata"]["uid"]) if run.spec.container == container]
    if previous and len(runs) < 2:  # noqa: PLR2004 - the last run and the one before
        raise BadRequestError(f'previous terminated container "{container}" in pod "{name}" not found')
    if not runs:
        reason = _waiting_reason(pod, container)
        raise BadRequestError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return runs[-2 if previous else -1]


def _waiting_reason(pod: Object, container: str) -> str:
    status = pod.get("status", {})
    for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if one["name"] == container and one["state"].get("waiting"):
            return str(one["state"]["waiting"].get("reason", ""))
    return "ContainerCreating"


class _Sample(NamedTuple):
    """Time of a measurement, CPU seconds used by then, and cores used on average before."""

    time: float
    cpu: float
    rate: float


class UsageMeter:
    """Computes CPU rates from counters, over the time since the previous measurement."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime: Final = runtime
        self._previous: dict[tuple[str, str, int], _Sample] = {}
        self._samples: dict[tuple[str, str, int], _Sample] = {}

    def measure(self, pods: Iterable[Object], nodes: Iterable[str], now: float) -> UsageReport:
        """Current usage of pods, by container; a node's usage is the sum over its pods."""
        self._previous, self._samples = self._samples, {}
        by_pod: dict[Key, dict[str, ResourceUsage]] = {}
        node_usages: dict[str, list[ResourceUsage]] = {name: [] for name in nodes}
        for pod in pods:
            usages = self._measure_pod(pod, now)
            node = pod["spec"].get("nodeName", "")
            if usages and node in node_usages:
                by_pod[pod["metadata"]["namespace"], pod["metadata"]["name"]] = usages
                node_usages[node] += usages.values()
        by_node = {name: _sum(usages) for name, usages in node_usages.items()}
        return UsageReport(at=now, window=_MIN_WINDOW, nodes=by_node, pods=by_pod)

    def _measure_pod(self, pod: Object, now: float) -> dict[str, ResourceUsage]:
        usages = {}
        for run in self._runtime.runs(pod["metadata"]["uid"]):
            used = run.usage() if run.exit is None else None
            if used is not None:
                rate = self._rate(run, used.cpu, now)
                usages[run.spec.container] = ResourceUsage(cpu=rate, memory=used.memory)
        return usages

    def _rate(self, run: Run, cpu: float, now: float) -> float:
        key = run.spec.pod, run.spec.container, run.spec.attempt
        last = self._previous.get(key) or _Sample(run.started or now, 0.0, 0.0)
        if now - last.time >= _MIN_WINDOW:
            last = _Sample(now, cpu, max(cpu - last.cpu, 0.0) / (now - last.time))
        self._samples[key] = last
        return last.rate


def _sum(usages: list[ResourceUsage]) -> ResourceUsage:
    return ResourceUsage(cpu=sum(one.cpu for one in usages), memory=sum(one.memory for one in usages))
