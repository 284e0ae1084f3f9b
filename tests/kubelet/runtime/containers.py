"""Containers for tests: what they are like unless a test says otherwise, and what is left of them."""

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
"""A pod of this process's: others run the same tests beside us."""
LIMIT = 60.0
"""Seconds after which a test gives up waiting; nothing waits that long when all is well."""


def container(*argv: str, **fields: object) -> ContainerSpec:
    given = {"pod": POD, "container": "main", "attempt": 0, "env": {"PATH": PATH}, "cwd": "/", **fields}
    return msgspec.convert({"argv": argv, **given}, ContainerSpec)


def shell(script: str, **fields: object) -> ContainerSpec:
    return container("sh", "-c", script, **fields)


def python(script: str, **fields: object) -> ContainerSpec:
    return container("python3", "-c", script, **fields)


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Runtime]:
    """A runtime that leaves nothing behind, whatever the test has left running."""
    async with open_runtime(home) as runtime:
        try:
            yield runtime
        finally:
            for pod in runtime.pods():
                await clear(runtime, pod)


async def clear(runtime: Runtime, pod: str) -> None:
    for run in runtime.runs(pod):
        run.stop(0)
        await run.wait()
    await runtime.remove(pod)


async def text(run: Run) -> str:
    return b"".join([piece async for piece in run.log.read()]).decode()


async def ready(run: Run) -> None:
    """Wait until it has written something."""
    async for _ in run.log.read(follow=True):
        return


async def output(runtime: Runtime, spec: ContainerSpec) -> str:
    """Run it to its end; what it wrote."""
    run = await runtime.start(spec)
    await run.wait()
    return await text(run)


async def eventually(holds: Callable[[], object]) -> None:
    """Wait for something that nobody tells us of."""
    async with asyncio.timeout(LIMIT):
        while not holds():  # noqa: ASYNC110 - nobody sets an event for us
            await asyncio.sleep(0.01)


def alive(pod: str = POD) -> list[int]:
    """Processes of a pod, wherever they hide."""
    return [
        pid for pid in process.list_pids() if (stat := process.stat(pid)) and stat.alive and _is_of(pid, pod)
    ]


def _is_of(pid: int, pod: str) -> bool:
    try:
        return f"{MARKER_VARIABLE}={pod}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
