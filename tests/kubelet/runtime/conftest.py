"""A runtime in a directory of its own, on the event loop that the daemon has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from shoal.kubelet.runtime import Runtime
from tests.kubelet.runtime.containers import opened


@pytest_asyncio.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with opened(tmp_path / "home") as found:
        yield found
