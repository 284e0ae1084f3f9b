"""How runs ended, with the last words of those that failed.

The containers of one pod: starts them, stops them, asks how they are, and knows what each has done.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec.structs import replace

from shoal.cluster.resources import Object
from shoal.kubelet import volumes
from shoal.kubelet.container_spec import container_spec
from shoal.kubelet.context import Station
from shoal.kubelet.devices import ShortError
from shoal.kubelet.downward import Place
from shoal.kubelet.environment import Surroundings
from shoal.kubelet.lifecycle import REMEMBERED, Health, Obstacle, Turn, turns_of
from shoal.kubelet.nodes import Machine
from shoal.kubelet.probes import Prober
from shoal.kubelet.references import ConfigError, fetch, references_of
from shoal.kubelet.runtime import Exit, Run
from shoal.kubelet.volumes import MountError

_LAST_LINES: Final = 80
_LAST_BYTES: Final = 2048
"""As much of a log stands in a status as kubelets put there."""
_IN_USE: Final = b"address already in use"
_HINT: Final = (
    "{name} could not listen: address already in use. Every pod of this machine has an address of its own: "
    "bind to $SHOAL_POD_IP ({ip}) and not to 0.0.0.0, and all can use the same port"
)


RunKey = tuple[str, int]
"""A container and the number of its turn."""


class Ends:
    """What is known of runs that have ended."""

    def __init__(self, station: Station) -> None:
        self._station: Final = station
        self._known: Final[dict[RunKey, Exit]] = {}

    def of(self, name: str, attempt: int) -> Exit | None:
        """How a run ended; None as long as it is not known, or runs."""
        return self._known.get((name, attempt))

    def forget(self, run: Run) -> None:
        """Nobody will ask for this one any more."""
        self._known.pop(run.spec.key, None)

    async def take(self, pod: Object, container: Object, run: Run) -> None:
        """Wait for the end of a run, and keep what is to be known of it."""
        ended = await run.ended()
        if ended.code != 0 and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            with contextlib.suppress(OSError):  # its end counts also where its log cannot be read
                ended = await self._explained(pod, container, run, ended)
        self._known[run.spec.key] = ended

    async def _explained(self, pod: Object, container: Object, run: Run, ended: Exit) -> Exit:
        said = b"".join([piece async for piece in run.log.read(tail=_LAST_LINES)])[-_LAST_BYTES:]
        if _IN_USE in said.lower():
            hint = _HINT.format(name=container["name"], ip=self._station.directory.address(pod))
            await self._station.note(pod, "AddressInUse", hint)
        if container.get("terminationMessagePolicy") == "FallbackToLogsOnError" and not ended.message:
            return replace(ended, message=said.decode(errors="replace"))
        return ended


_PROBES: Final = {"startupProbe", "readinessProbe", "livenessProbe"}


class Containers:
    """The containers of a pod. `changed` is called when something has happened to one of them."""

    def __init__(self, pod: Object, machine: Machine, station: Station, changed: Callable[[], None]) -> None:
        self._uid: Final = str(pod["metadata"]["uid"])
        self._machine: Final = machine
        self._station: Final = station
        self._changed: Final = changed
        self._ends: Final = Ends(station)
        self._probers: Final[dict[RunKey, Prober]] = {}
        self._watched: Final[set[RunKey]] = set()
        self._stops: Final[dict[RunKey, float]] = {}
        """When runs that were told to stop are over at the latest."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.obstacles: Final[dict[str, Obstacle]] = {}

    def close(self) -> None:
        """Look no more; what runs goes on."""
        for task in self._tasks:
            task.cancel()

    # --- looking ------------------------------------------------------------------------------------------

    def follow(self, pod: Object) -> None:
        """Look after all runs that there are, also those that an earlier process began."""
        for run in self._station.runtime.runs(self._uid):
            key = run.spec.key
            if key not in self._watched:
                self._watched.add(key)
                container = _named(pod, run.spec.container)
                if run.exit is None and _PROBES & container.keys():
                    self._probers[key] = self._prober(pod, run, container)
                self._begin(self._watch(pod, run, container))

    def turns(self, pod: Object) -> dict[str, Any]:
        """What each container has done so far."""
        found: dict[str, list[Turn]] = {}
        for run in self._station.runtime.runs(self._uid):
            name, attempt = run.spec.container, run.spec.attempt
            found.setdefault(name, []).append(Turn(attempt, run.started, self._ends.of(name, attempt)))
        return turns_of(pod, found, self._station.clock())

    def health(self) -> dict[str, Health]:
        """What probes say of those that run."""
        return {name: prober.health for (name, _), prober in self._probers.items()}

    def failures(self) -> list[tuple[str, str]]:
        """Probes that have failed since this was asked last."""
        said = [failure for prober in self._probers.values() for failure in prober.failures]
        for prober in self._probers.values():
            prober.failures.clear()
        return said

    async def _watch(self, pod: Object, run: Run, container: Object) -> None:
        """Ask a run how it is until it ends, and take note of its end."""
        prober = self._probers.get(run.spec.key)
        asking = self._begin(prober.run()) if prober else None
        await self._ends.take(pod, container, run)
        if asking:
            asking.cancel()
            del self._probers[run.spec.key]
        self._changed()

    def _prober(self, pod: Object, run: Run, container: Object) -> Prober:
        """What asks a run; what an earlier process knew of it is still so until there is an answer."""
        prober = Prober(run, container, self._station.directory.address(pod), self._changed)
        for status in pod.get("status", {}).get("containerStatuses", ()):
            if status["name"] == container["name"] and status.get("restartCount") == run.spec.attempt:
                prober.recover(started=status.get("started", False), ready=status.get("ready", False))
        return prober

    # --- starting -----------------------------------------------------------------------------------------

    async def start(self, pod: Object, name: str, attempt: int) -> None:
        """Start a container; what stands in the way is kept as an obstacle, and told."""
        try:
            await self._start(pod, name, attempt)
            self.obstacles.pop(name, None)
        except (ConfigError, ShortError) as problem:
            await self._refuse(pod, name, "CreateContainerConfigError", "Failed", str(problem))
        except MountError as problem:
            await self._refuse(pod, name, "ContainerCreating", "FailedMount", str(problem))
        except OSError as problem:
            await self._refuse(pod, name, "CreateContainerError", "Failed", str(problem))

    async def _start(self, pod: Object, name: str, attempt: int) -> None:
        station, container = self._station, _named(pod, name)
        place = Place(machine=self._machine, ip=station.directory.address(pod))
        site = station.site(pod)
        sources = await fetch(station.cluster, pod["metadata"]["namespace"], references_of(pod["spec"]))
        await station.directory.settled()
        site.scratch.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(volumes.make, pod, site.volumes, place, sources)  # hosts' disks may hang
        around = Surroundings(
            place=place,
            sources=sources,
            host=os.environ,
            devices=station.devices.take(self._machine, self._uid, container, self._living()),
            peers={} if station.runtime.abilities.mounts else station.directory.peers(pod),
        )
        await station.runtime.start(container_spec(pod, container, attempt, around, site))
        await self._forget(name, attempt + 1 - REMEMBERED)

    async def _forget(self, name: str, before: int) -> None:
        """Keep no more of a container that ends over and over than is of use."""
        for run in await self._station.runtime.forget(self._uid, name, before):
            self._watched.discard(run.spec.key)
            self._stops.pop(run.spec.key, None)
            self._ends.forget(run)

    def _living(self) -> set[str]:
        return {run.spec.container for run in self._station.runtime.runs(self._uid) if run.exit is None}

    async def _refuse(self, pod: Object, name: str, reason: str, event: str, message: str) -> None:
        until = self._station.clock() + self._station.pace.retry
        self.obstacles[name] = Obstacle(reason, message, until)
        await self._station.note(pod, event, f"{name}: {message}")

    # --- stopping -----------------------------------------------------------------------------------------

    def stop(self, name: str, grace: float) -> bool:
        """Have a container stopped within so many seconds; whether nobody had asked for it before."""
        now, new = self._station.clock(), False
        for run in self._station.runtime.runs(self._uid):
            key = run.spec.key
            if (
                run.spec.container == name
                and run.exit is None
                and self._stops.get(key, now + grace + 1) > now + grace
            ):
                new = key not in self._stops
                self._stops[key] = now + grace
                run.stop(grace)
        return new

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _named(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    every = (*spec.get("initContainers", ()), *spec["containers"])
    return next(one for one in every if one["name"] == name)
