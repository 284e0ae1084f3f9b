"""The container runtime of one home: starts, adopts and removes runs, each with a shim of its own."""

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
from shoal.kubelet.runtime.cgroups import CgroupHierarchies, CgroupManager
from shoal.kubelet.runtime.processes import SHIM_COMMAND, LaunchedShim, launch_shim, run_marker
from shoal.kubelet.runtime.records import PODS_DIRECTORY, RunDirectory, list_pods, list_runs
from shoal.kubelet.runtime.run import Run
from shoal.kubelet.runtime.spec import ContainerSpec, RuntimeFeatures

_MAX_STARTING: Final = 8
"""Shims that may be starting at the same time: more would only slow each other down."""


def detect_features(home: Path, hierarchies: CgroupHierarchies) -> RuntimeFeatures:
    """Find out by trying what containers can use on this machine; notes say what is missing and why."""
    error = _mount_problem(home)
    root = os.geteuid() == 0
    notes = [hierarchies.note] if hierarchies.note else []
    if error:
        notes.append(f"volumes and hosts files cannot be mounted: {error}")
    if not root:
        notes.append("containers cannot run as other users: shoal was not started as root")
    return RuntimeFeatures(mounts=not error, cgroups=hierarchies.version, users=root, notes=notes)


def _mount_problem(home: Path) -> str:
    """Why containers cannot have mounts, empty if they can; tried in a process of its own."""
    tried = subprocess.run([*SHIM_COMMAND, "probe", home], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2] or "unknown reason"


@asynccontextmanager
async def open_runtime(home: Path) -> AsyncIterator["Runtime"]:
    """The runtime of a home, with all runs of an earlier daemon adopted."""
    _raise_file_limit()
    runtime = Runtime(home)
    try:
        await runtime.adopt()
        yield runtime
    finally:
        await runtime.close()


class Runtime:
    """All runs of one home."""

    def __init__(self, home: Path) -> None:
        home.joinpath(PODS_DIRECTORY).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home = home
        hierarchies = cgroups.find_hierarchies(f"shoal-{zlib.crc32(os.fsencode(home.resolve())):08x}")
        self._cgroups = CgroupManager(hierarchies)
        self.features: Final = detect_features(home, hierarchies)
        self._runs: dict[str, dict[tuple[str, int], Run]] = {}
        self._starts: dict[Run, asyncio.Task[None]] = {}
        self._start_slots = asyncio.Semaphore(_MAX_STARTING)

    async def adopt(self) -> None:
        """Adopt the runs of an earlier daemon."""
        found = await asyncio.to_thread(_read_intents, self._home)
        runs = [Run(directory, spec) for directory, spec in found]
        for run, known in zip(runs, await asyncio.gather(*(run.adopt() for run in runs)), strict=True):
            if known:
                self._runs.setdefault(run.spec.pod, {})[run.spec.key] = run

    async def start(self, spec: ContainerSpec) -> Run:
        """Start a container; return once it runs or has failed to start. OSError if the system refuses.

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
            async with self._start_slots:
                if run.directory.shim() is None:
                    await run.supervise(await asyncio.to_thread(self._spawn_shim, run))
                else:  # an earlier start failed after the shim was launched
                    await run.adopt()
        except BaseException as error:
            del self._runs[run.spec.pod][run.spec.key]
            run.fail(error)
            raise
        finally:
            del self._starts[run]

    def _spawn_shim(self, run: Run) -> LaunchedShim:
        groups = self._cgroups.create(run_marker(run.spec).replace("/", "."), run.spec.limits)
        try:
            return launch_shim(run.directory, run.spec, groups)
        except BaseException:
            cgroups.remove_cgroups(groups)
            raise

    def runs(self, pod: str) -> list[Run]:
        """All runs of a pod, sorted by container and attempt."""
        return [run for _, run in sorted(self._runs.get(pod, {}).items())]

    def pods(self) -> set[str]:
        """The uids of all pods that have a directory."""
        return list_pods(self._home)

    async def prune(self, pod: str, container: str, before: int) -> list[Run]:
        """Delete ended runs of a container before an attempt; return them."""
        runs = [run for run in self.runs(pod) if run.spec.container == container]
        old = [run for run in runs if run.spec.attempt < before and run.exit is not None]
        for run in old:
            del self._runs[pod][run.spec.key]
            await asyncio.to_thread(run.directory.remove)
        return old

    async def remove(self, pod: str) -> None:
        """Delete the directory of a pod, none of whose containers may run. OSError if something is left."""
        if any(run.exit is None for run in self.runs(pod)):
            raise RuntimeError(f"pod {pod} has running containers")
        self._runs.pop(pod, None)
        await asyncio.to_thread(_remove, self._home / PODS_DIRECTORY / pod)

    async def close(self) -> None:
        """Stop supervising; shims continue."""
        if self._starts:
            await asyncio.wait(self._starts.values())
        await asyncio.gather(*(run.detach() for runs in self._runs.values() for run in runs.values()))
        self._cgroups.close()


def _raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit: runs and clients need descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _remove(directory: Path) -> None:
    """Delete as much as possible; then raise OSError for what is left, if anything."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        shutil.rmtree(directory)


def _read_intents(home: Path) -> list[tuple[RunDirectory, ContainerSpec]]:
    found = ((directory, directory.intent()) for directory in list_runs(home))
    return [(directory, spec) for directory, spec in found if spec is not None]
