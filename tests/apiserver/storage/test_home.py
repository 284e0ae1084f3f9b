"""A home in a directory: durability, file modes and locking."""

import stat
from pathlib import Path

import pytest

from shoal.cluster.errors import StorageError
from shoal.cluster.resources import PODS
from shoal.embedded.store import open_home
from tests.apiserver.registry.objects import pod


async def test_objects_survive_a_restart(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home") as registry:
        made = await registry.create(PODS, pod())
        await registry.create(PODS, pod("b"))
        await registry.delete(PODS, "b")
        version = registry.version
    async with open_home(tmp_path / "home") as registry:
        page = await registry.list(PODS)
        assert (page.items, page.version) == ([made], version)
        async with registry.watch(PODS, version=made["metadata"]["resourceVersion"], timeout=0) as events:
            assert [event.type async for event in events] == ["ADDED", "DELETED"]


async def test_files_are_private(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home"):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()}
        assert set(modes.values()) == {0o600}
        assert "state.db-wal" in modes
        assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


async def test_a_directory_is_locked_by_one_process(tmp_path: Path) -> None:
    async with open_home(tmp_path):
        with pytest.raises(StorageError, match="is in use by another process"):
            async with open_home(tmp_path):
                pass
    async with open_home(tmp_path):
        pass
