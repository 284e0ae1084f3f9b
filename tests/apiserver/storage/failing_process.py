"""A program with storage failures: `python -m tests.apiserver.storage.failing_process TROUBLE DIRECTORY`.

`limit` writes until a file size limit is reached; `nobody` opens a home as a user without permissions. The
outcome is printed as JSON.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import StorageError
from shoal.cluster.resources import CONFIG_MAPS, Object
from shoal.embedded.store import open_home
from tests.apiserver.registry.objects import config_map

NOBODY = 65534
_ROOM = 400 * 1024
_PIECE = "x" * 20_000


async def fill(registry: Registry, relieve: Callable[[], object]) -> Object:
    """Write until the storage is full; then free space, and write again."""
    safe: list[str] = []
    refused: list[str] = []

    async def write(name: str) -> None:
        try:
            await registry.create(CONFIG_MAPS, config_map(name, {"data": _PIECE}))
            safe.append(name)
        except StorageError as problem:
            refused.append(problem.message)

    for i in range(100):
        if refused:
            break
        await asyncio.gather(*(write(f"c{i}-{k}") for k in range(3)))
    shown = [obj["metadata"]["name"] for obj in (await registry.list(CONFIG_MAPS)).items]
    relieve()
    before = len(refused)
    await write("later")
    return {"safe": safe, "shown": shown, "refused": refused[:before], "still": refused[before:]}


async def _with_a_limit(directory: Path) -> Object:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_home(directory) as registry:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_ROOM, hard))
        return await fill(registry, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


async def _without_privileges(directory: Path) -> Object:
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        async with open_home(directory):
            return {"refused": []}
    except StorageError as problem:
        return {"refused": [problem.message]}


if __name__ == "__main__":
    _TROUBLES = {"limit": _with_a_limit, "nobody": _without_privileges}
    sys.stdout.write(json.dumps(asyncio.run(_TROUBLES[sys.argv[1]](Path(sys.argv[2])))))
