"""Containers for tests: default specs, waiting, and clean-up."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from shoal.kubelet.runtime import ContainerSpec, Run, Runtime, open_runtime
from shoal.kubelet.runtime.processes import MARKER_VARIABLE
from shoal.kubelet.shim import process

PATH = "/usr/local/bin:/usr/bin:/bin"
POD = f"11111111-2222-3333-4444-{os.getpid():012}"
"""A pod name per process: the same tests may run in parallel."""
TIMEOUT = 60.0
"""Seconds after which a wait fails."""


def container(*argv: str, **fields: object) -> ContainerSpec:
    given = {"pod": POD, "container": "main", "attempt": 0, "env": {"PATH": PATH}, "cwd": "/", **fields}
    return msgspec.convert({"argv": argv, **given}, ContainerSpec)


def shell(script: str, **fields: object) -> ContainerSpec:
    return container("sh", "-c", script, **fields)


def python(script: str, **fields: object) -> ContainerSpec:
    return container("python3", "-c", script, **fields)


@asynccontextmanager
async def clean_runtime(home: Path) -> AsyncIterator[Runtime]:
    """A runtime whose pods are all removed at the end, even if the test fails."""
    async with open_runtime(home) as runtime:
        try:
            yield runtime
        finally:
            for pod in runtime.pods():
                await remove_pod(runtime, pod)


async def remove_pod(runtime: Runtime, pod: str) -> None:
    for run in runtime.runs(pod):
        run.stop(0)
        await run.wait()
    await runtime.remove(pod)


async def log_text(run: Run) -> str:
    return b"".join([piece async for piece in run.log.read()]).decode()


async def wait_for_output(run: Run) -> None:
    """Wait until a run has written to its log."""
    async for _ in run.log.read(follow=True):
        return


async def run_output(runtime: Runtime, spec: ContainerSpec) -> str:
    """Run a container to its end; return its log."""
    run = await runtime.start(spec)
    await run.wait()
    return await log_text(run)


async def wait_until(holds: Callable[[], object]) -> None:
    """Poll until a condition holds."""
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


def living_processes(pod: str = POD) -> list[int]:
    """All processes of a pod, found by their environment."""
    return [
        pid for pid in process.list_pids() if (stat := process.stat(pid)) and stat.alive and _is_of(pid, pod)
    ]


def _is_of(pid: int, pod: str) -> bool:
    try:
        return f"{MARKER_VARIABLE}={pod}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
