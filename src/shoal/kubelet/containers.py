"""The containers of one pod: starts and stops them, probes them, and collects how they ended."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.names import JOB_DIRECTORY, JOB_VOLUME
from shoal.cluster.resources import Object
from shoal.kubelet import volumes
from shoal.kubelet.container_spec import EnvironmentContext, build_container_spec
from shoal.kubelet.context import AgentContext
from shoal.kubelet.devices import InsufficientDevicesError
from shoal.kubelet.lifecycle import KEPT_RUNS, ContainerHealth, ContainerRun, StartFailure, container_runs
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.probes import Prober
from shoal.kubelet.references import (
    ConfigError,
    LocalReference,
    PodLocation,
    ReferencedObjects,
    collect_references,
    fetch_references,
    volume_references,
)
from shoal.kubelet.runtime import ExitStatus, Run
from shoal.kubelet.volumes import MountError

_LOG_LINES: Final = 80
_LOG_BYTES: Final = 2048
"""Length of the log excerpt in a status, as in kubelets."""
_ADDRESS_IN_USE: Final = b"address already in use"
_ADDRESS_IN_USE_HINT: Final = (
    "{name} could not listen: address already in use. Every pod of this machine has an address of its own: "
    "bind to $SHOAL_POD_IP ({ip}) and not to 0.0.0.0, and all can use the same port"
)


RunKey = tuple[str, int]
"""Unique key within the pod: container and attempt."""
_PROBES: Final = {"startupProbe", "readinessProbe", "livenessProbe"}


class ExitCollector:
    """Collects the exit statuses of runs, with the end of the log of those that failed."""

    def __init__(self, context: AgentContext) -> None:
        self._context: Final = context
        self._known: Final[dict[RunKey, ExitStatus]] = {}

    def get(self, name: str, attempt: int) -> ExitStatus | None:
        """The exit status of a run; None while it is running or not collected."""
        return self._known.get((name, attempt))

    def discard(self, run: Run) -> None:
        """Forget the exit status of a run."""
        self._known.pop(run.spec.key, None)

    async def collect(self, pod: Object, container: Object, run: Run) -> None:
        """Wait for the end of a run, and store its exit status."""
        status = await run.wait()
        if status.code != 0 and pod.get("status", {}).get("phase") not in FINISHED_PHASES:
            with contextlib.suppress(OSError):  # the exit status matters even if the log is unreadable
                status = await self._explain(pod, container, run, status)
        self._known[run.spec.key] = status

    async def _explain(self, pod: Object, container: Object, run: Run, status: ExitStatus) -> ExitStatus:
        """Add the end of the log to the message if the pod asks for it; hint at addresses in use."""
        output = b"".join([piece async for piece in run.log.read(tail=_LOG_LINES)])[-_LOG_BYTES:]
        if _ADDRESS_IN_USE in output.lower():
            hint = _ADDRESS_IN_USE_HINT.format(name=container["name"], ip=self._context.names.address(pod))
            await self._context.record_event(pod, "AddressInUse", hint)
        if container.get("terminationMessagePolicy") == "FallbackToLogsOnError" and not status.message:
            return replace(status, message=output.decode(errors="replace"))
        return status


class PodContainers:
    """The containers of a pod. `changed` is called when the state of one of them has changed."""

    def __init__(
        self, pod: Object, node: LocalNode, context: AgentContext, changed: Callable[[], None]
    ) -> None:
        self._uid: Final = str(pod["metadata"]["uid"])
        self._node: Final = node
        self._context: Final = context
        self._changed: Final = changed
        self._exits: Final = ExitCollector(context)
        self._probers: Final[dict[RunKey, Prober]] = {}
        self._watched: Final[set[RunKey]] = set()
        self._stop_deadlines: Final[dict[RunKey, float]] = {}
        """By when runs that are being stopped must have ended."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.start_failures: Final[dict[str, StartFailure]] = {}

    def close(self) -> None:
        """Stop watching; containers continue to run."""
        for task in self._tasks:
            task.cancel()

    # --- watching -----------------------------------------------------------------------------------------

    def adopt_runs(self, pod: Object) -> None:
        """Watch all runs of the pod, including those started by an earlier process."""
        for run in self._context.runtime.runs(self._uid):
            key = run.spec.key
            if key not in self._watched:
                self._watched.add(key)
                container = _container_named(pod, run.spec.container)
                if run.exit is None and _PROBES & container.keys():
                    self._probers[key] = self._prober(pod, run, container)
                self._create_task(self._watch(pod, run, container))

    def runs(self, pod: Object) -> dict[str, Sequence[ContainerRun]]:
        """All known runs of each container."""
        found: dict[str, list[ContainerRun]] = {}
        for run in self._context.runtime.runs(self._uid):
            name, attempt = run.spec.container, run.spec.attempt
            found.setdefault(name, []).append(
                ContainerRun(attempt, run.started, self._exits.get(name, attempt))
            )
        return container_runs(pod, found, self._context.clock())

    def health(self) -> dict[str, ContainerHealth]:
        """Probe results of running containers."""
        return {name: prober.health for (name, _), prober in self._probers.items()}

    def take_probe_failures(self) -> list[tuple[str, str]]:
        """Probe failures since the last call: kind of probe and message."""
        failures = [failure for prober in self._probers.values() for failure in prober.failures]
        for prober in self._probers.values():
            prober.failures.clear()
        return failures

    async def _watch(self, pod: Object, run: Run, container: Object) -> None:
        """Probe a run until it ends, and collect its exit status."""
        prober = self._probers.get(run.spec.key)
        probing = self._create_task(prober.run()) if prober else None
        await self._exits.collect(pod, container, run)
        if probing:
            probing.cancel()
            del self._probers[run.spec.key]
        self._changed()

    def _prober(self, pod: Object, run: Run, container: Object) -> Prober:
        """The prober of a run.

        It starts with the results that an earlier process has written to the status.
        """
        prober = Prober(run, container, self._context.names.address(pod), self._changed)
        for status in pod.get("status", {}).get("containerStatuses", ()):
            if status["name"] == container["name"] and status.get("restartCount") == run.spec.attempt:
                prober.restore(started=status.get("started", False), ready=status.get("ready", False))
        return prober

    # --- starting -----------------------------------------------------------------------------------------

    async def start(self, pod: Object, name: str, attempt: int) -> None:
        """Start a container; a failure is stored in `start_failures`, and reported as an Event."""
        try:
            await self._start(pod, name, attempt)
            self.start_failures.pop(name, None)
        except (ConfigError, InsufficientDevicesError) as error:
            await self._record_failure(pod, name, "CreateContainerConfigError", "Failed", str(error))
        except MountError as error:
            await self._record_failure(pod, name, "ContainerCreating", "FailedMount", str(error))
        except OSError as error:
            await self._record_failure(pod, name, "CreateContainerError", "Failed", str(error))

    async def _start(self, pod: Object, name: str, attempt: int) -> None:
        context, container = self._context, _container_named(pod, name)
        sandbox = context.sandbox(pod)
        sources = await self._fetch_references(pod, collect_references(pod["spec"]))
        await context.names.flush()
        sandbox.scratch.mkdir(parents=True, exist_ok=True)
        # In a thread: a host path may be on a disk that hangs.
        await asyncio.to_thread(volumes.make_volumes, **self._volume_inputs(pod, sources))
        env_context = EnvironmentContext(
            location=self._location(pod),
            sources=sources,
            host_env=os.environ,
            gpus=context.devices.allocate(self._node, self._uid, container, self._running_names()),
        )
        if not sandbox.mounts:
            env_context = replace(
                env_context,
                peers=context.names.peers(pod),
                replace_names=partial(self._replace_names, pod, str(sandbox.volumes / JOB_VOLUME)),
            )
        await context.runtime.start(build_container_spec(pod, container, attempt, env_context, sandbox))
        await self._prune_runs(name, attempt + 1 - KEPT_RUNS)

    async def refresh_volumes(self, pod: Object) -> None:
        """Update the files of volumes, after something that they refer to has changed."""
        sources = await self._fetch_references(pod, volume_references(pod["spec"]))
        await asyncio.to_thread(volumes.refresh_volumes, **self._volume_inputs(pod, sources))

    async def _fetch_references(self, pod: Object, references: set[LocalReference]) -> ReferencedObjects:
        return await fetch_references(self._context.cluster, pod["metadata"]["namespace"], references)

    def _replace_names(self, pod: Object, job_volume: str, text: str) -> str:
        """Replace names that nothing resolves, and paths that nothing is mounted at, in a variable."""
        return self._context.names.replace_names(pod, text).replace(JOB_DIRECTORY, job_volume)

    def _location(self, pod: Object) -> PodLocation:
        return PodLocation(node=self._node, ip=self._context.names.address(pod))

    def _volume_inputs(self, pod: Object, sources: ReferencedObjects) -> dict[str, Any]:
        sandbox, names = self._context.sandbox(pod), self._context.names
        return {
            "pod": pod,
            "directory": sandbox.volumes,
            "location": self._location(pod),
            "sources": sources,
            "replace_names": None if sandbox.mounts else partial(names.replace_names, pod),
        }

    async def _prune_runs(self, name: str, before: int) -> None:
        """Delete old runs of a container that are not needed for its back-off any more."""
        for run in await self._context.runtime.prune(self._uid, name, before):
            self._watched.discard(run.spec.key)
            self._stop_deadlines.pop(run.spec.key, None)
            self._exits.discard(run)

    def _running_names(self) -> set[str]:
        return {run.spec.container for run in self._context.runtime.runs(self._uid) if run.exit is None}

    async def _record_failure(self, pod: Object, name: str, reason: str, event: str, message: str) -> None:
        until = self._context.clock() + self._context.restart.retry_delay
        self.start_failures[name] = StartFailure(reason, message, until)
        await self._context.record_event(pod, event, f"{name}: {message}")

    # --- stopping -----------------------------------------------------------------------------------------

    def stop(self, name: str, grace: float) -> bool:
        """Stop a container within `grace` seconds; return whether this is the first request."""
        now, new = self._context.clock(), False
        for run in self._context.runtime.runs(self._uid):
            key = run.spec.key
            if (
                run.spec.container == name
                and run.exit is None
                and self._stop_deadlines.get(key, now + grace + 1) > now + grace
            ):
                new = key not in self._stop_deadlines
                self._stop_deadlines[key] = now + grace
                run.stop(grace)
        return new

    def _create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _container_named(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    every = (*spec.get("initContainers", ()), *spec["containers"])
    return next(one for one in every if one["name"] == name)
