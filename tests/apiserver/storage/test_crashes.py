"""Crashes at any moment: acknowledged writes survive, and transactions are atomic."""

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.apiserver.registry.records import Record
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.sqlite import FILE, SqliteJournal
from shoal.cluster.errors import StorageError
from tests.apiserver.storage.crashing_process import NEVER
from tests.apiserver.storage.scenario import State, history, is_consistent, state_at, state_of

ROOT = Path(__file__).parents[3]
ROUNDS = 5
MORE_ROUNDS = 12


def run_in_children(directory: Path, rounds: int, points: Sequence[int] = (), disk: str = "slow") -> str:
    """Run the scenario in child processes."""
    command = [
        sys.executable,
        "-m",
        "tests.apiserver.storage.crashing_process",
        str(directory),
        disk,
        str(rounds),
    ]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, *map(str, points)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(home: Path) -> tuple[int, State]:
    """Return version and state of a home before new writes."""

    async def look() -> tuple[int, State]:
        registry = Registry(SqliteJournal(home))
        try:
            return int(registry.version), await state_of(registry)
        finally:
            await registry.close()

    return asyncio.run(look())


def check(directory: Path, records: Sequence[Record]) -> None:
    version, state = opened(directory / "home")
    acknowledged = (directory / "acknowledged").read_text().split()
    assert state == state_at(records, version)
    assert version >= int(["0", *acknowledged][-1])
    assert is_consistent(state)


def crash_at_every_point(directory: Path, rounds: int, most: int, disk: str) -> None:
    records = history(rounds)
    count = int(run_in_children(directory, rounds, disk=disk))
    points = sorted(random.Random(count).sample(range(count), min(most, count)))
    run_in_children(directory, rounds, points, disk)
    for point in points:
        check(directory / str(point), records)


@pytest.mark.parametrize("disk", ["quick", "slow"])
def test_crashes_lose_no_acknowledged_write(tmp_path: Path, disk: str) -> None:
    crash_at_every_point(tmp_path, ROUNDS, 50, disk)


@pytest.mark.soak
@pytest.mark.parametrize("disk", ["quick", "slow"])
def test_crashes_anywhere_lose_no_acknowledged_write(tmp_path: Path, disk: str) -> None:
    crash_at_every_point(tmp_path, MORE_ROUNDS, NEVER, disk)


# --- files that are cut short ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unfinished_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A home whose last writes are only in the write-ahead log: the process was killed at the end."""
    directory = tmp_path_factory.mktemp("told")
    count = int(run_in_children(directory, ROUNDS))
    run_in_children(directory, ROUNDS, [count - 1])
    return directory / str(count - 1) / "home", history(ROUNDS)


def truncated_copy(home: Path, to: Path, *, cut: str, at: int) -> Path:
    """Copy a home and truncate one of its files."""
    shutil.copytree(home, to)
    (to / f"{FILE}-shm").unlink(missing_ok=True)
    with (to / cut).open("r+b") as file:
        file.truncate(at)
    return to


def test_a_truncated_log_is_read_up_to_the_cut(
    unfinished_home: tuple[Path, list[Record]], tmp_path: Path
) -> None:
    home, records = unfinished_home
    size = (home / f"{FILE}-wal").stat().st_size
    versions = set()
    for at in sorted(random.Random(1).sample(range(size), 60)):
        version, state = opened(truncated_copy(home, tmp_path / str(at), cut=f"{FILE}-wal", at=at))
        assert state == state_at(records, version)
        assert is_consistent(state)
        versions.add(version)
    assert len(versions) > 20


def test_a_truncated_database_is_refused_or_complete(
    unfinished_home: tuple[Path, list[Record]], tmp_path: Path
) -> None:
    home, records = unfinished_home
    opened(shutil.copytree(home, tmp_path / "closed"))  # closing checkpoints the log into the database
    size = (tmp_path / "closed" / FILE).stat().st_size
    refused = 0
    for at in sorted(random.Random(1).sample(range(1, size), 60)):
        damaged = truncated_copy(tmp_path / "closed", tmp_path / str(at), cut=FILE, at=at)
        before = (damaged / FILE).read_bytes()
        found = opened_or_refused(damaged)
        if isinstance(found, str):
            assert "damaged" in found
            assert (damaged / FILE).read_bytes() == before
            refused += 1
        else:
            assert found[1] == state_at(records, found[0])
    assert refused > 50


def opened_or_refused(home: Path) -> tuple[int, State] | str:
    try:
        return opened(home)
    except StorageError as problem:
        return problem.message
