"""What containers can have on this machine, for this user: found by trying.

Containers as local processes, each looked after by a shim of its own.
"""

import asyncio
import os
import resource
import shutil
import subprocess
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from shoal.kubelet.runtime import cgroups
from shoal.kubelet.runtime.cgroups import Cgroups, Hierarchies
from shoal.kubelet.runtime.launch import Launched, launch, marker
from shoal.kubelet.runtime.processes import PROGRAM
from shoal.kubelet.runtime.records import PODS, RunDirectory, known_pods, known_runs
from shoal.kubelet.runtime.run import Run
from shoal.kubelet.runtime.spec import Abilities, ContainerSpec


def probe(home: Path, hierarchies: Hierarchies) -> Abilities:
    """Say what can be done, and what not and why."""
    problem = _mount_problem(home)
    root = os.geteuid() == 0
    notes = [hierarchies.note] if hierarchies.note else []
    if problem:
        notes.append(f"volumes and host names cannot be mounted: {problem}")
    if not root:
        notes.append("containers cannot run as other users: shoal was not started by root")
    return Abilities(mounts=not problem, cgroups=hierarchies.version, users=root, notes=notes)


def _mount_problem(home: Path) -> str:
    """What is in the way of mounts in a container, if anything is: a process of its own has tried."""
    tried = subprocess.run([*PROGRAM, "probe", home], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2] or "for no known reason"


_AT_ONCE: Final = 8
"""Shims that may be starting at one time: more would only keep each other waiting."""


@asynccontextmanager
async def opened_runtime(home: Path) -> AsyncIterator["Runtime"]:
    """The runtime of a home, with everything that an earlier one has begun."""
    _allow_many_files()
    runtime = Runtime(home)
    try:
        await runtime.adopt()
        yield runtime
    finally:
        await runtime.close()


class Runtime:
    """All runs of one home."""

    def __init__(self, home: Path) -> None:
        home.joinpath(PODS).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home = home
        hierarchies = cgroups.find(f"shoal-{zlib.crc32(os.fsencode(home.resolve())):08x}")
        self._cgroups = Cgroups(hierarchies)
        self.abilities: Final = probe(home, hierarchies)
        self._runs: dict[str, dict[tuple[str, int], Run]] = {}
        self._starts: dict[Run, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def adopt(self) -> None:
        """Find what an earlier daemon has begun."""
        found = await asyncio.to_thread(_intents, self._home)
        runs = [Run(directory, spec) for directory, spec in found]
        for run, known in zip(runs, await asyncio.gather(*(run.adopt() for run in runs)), strict=True):
            if known:
                self._runs.setdefault(run.spec.pod, {})[run.spec.key] = run

    async def start(self, spec: ContainerSpec) -> Run:
        """Start a container, and return once it runs or never will; OSError if the system refuses.

        A run that exists already, by pod, container and attempt, is returned as it is.
        """
        runs = self._runs.setdefault(spec.pod, {})
        run = runs.get(spec.key)
        if run is None:
            run = runs[spec.key] = Run(RunDirectory.of(self._home, spec), spec)
            self._starts[run] = asyncio.get_running_loop().create_task(self._launch(run))
        if starting := self._starts.get(run):
            await asyncio.shield(starting)
        return run

    async def _launch(self, run: Run) -> None:
        try:
            async with self._room:
                if run.directory.shim() is None:
                    await run.begin(await asyncio.to_thread(self._spawn, run))
                else:  # an earlier attempt to start it has got further than it could tell
                    await run.adopt()
        except BaseException as problem:
            del self._runs[run.spec.pod][run.spec.key]
            run.refuse(problem)
            raise
        finally:
            del self._starts[run]

    def _spawn(self, run: Run) -> Launched:
        groups = self._cgroups.make(marker(run.spec).replace("/", "."), run.spec.limits)
        try:
            return launch(run.directory, run.spec, groups)
        except BaseException:
            cgroups.remove(groups)
            raise

    def runs(self, pod: str) -> list[Run]:
        """All runs of a pod, by container and attempt."""
        return [run for _, run in sorted(self._runs.get(pod, {}).items())]

    def pods(self) -> set[str]:
        """Every pod that has a directory."""
        return known_pods(self._home)

    async def forget(self, pod: str, container: str, before: int) -> list[Run]:
        """Delete what is left of the runs of a container before this attempt; those that it was."""
        runs = [run for run in self.runs(pod) if run.spec.container == container]
        old = [run for run in runs if run.spec.attempt < before and run.exit is not None]
        for run in old:
            del self._runs[pod][run.spec.key]
            await asyncio.to_thread(run.directory.remove)
        return old

    async def remove(self, pod: str) -> None:
        """Delete everything that a pod has here; nothing of it may live. OSError if something is left."""
        if any(run.exit is None for run in self.runs(pod)):
            raise RuntimeError(f"pod {pod} has containers that run")
        self._runs.pop(pod, None)
        await asyncio.to_thread(_remove, self._home / PODS / pod)

    async def close(self) -> None:
        """Let go of everything; shims live on."""
        if self._starts:
            await asyncio.wait(self._starts.values())
        await asyncio.gather(*(run.let_go() for runs in self._runs.values() for run in runs.values()))
        self._cgroups.close()


def _allow_many_files() -> None:
    """Runs take descriptors, and so do clients: use all that we may have, and not the few that are usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _remove(directory: Path) -> None:
    """Delete as much as can be; then say what could not, if anything could not."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        shutil.rmtree(directory)


def _intents(home: Path) -> list[tuple[RunDirectory, ContainerSpec]]:
    found = ((directory, directory.intent()) for directory in known_runs(home))
    return [(directory, spec) for directory, spec in found if spec is not None]
