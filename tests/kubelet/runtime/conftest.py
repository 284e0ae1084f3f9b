"""A runtime in a directory of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from shoal.kubelet.runtime import Runtime
from tests.kubelet.runtime.containers import clean_runtime


@pytest_asyncio.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with clean_runtime(tmp_path / "home") as opened:
        yield opened
