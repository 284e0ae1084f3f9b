"""Whatever moment the process dies at: what was acknowledged is there, and nothing is there by half."""

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
from tests.apiserver.storage.crashing import NEVER
from tests.apiserver.storage.scenario import State, history, is_whole, state_at, state_of

ROOT = Path(__file__).parents[3]
ROUNDS = 5
MORE_ROUNDS = 12


def lived(directory: Path, rounds: int, points: Sequence[int] = (), disk: str = "slow") -> str:
    """Live the story in children."""
    command = [sys.executable, "-m", "tests.apiserver.storage.crashing", str(directory), disk, str(rounds)]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, *map(str, points)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(home: Path) -> tuple[int, State]:
    """What is there afterwards: the version and the state, before anything new is written."""

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
    assert is_whole(state)


def crash_everywhere(directory: Path, rounds: int, most: int, disk: str) -> None:
    records = history(rounds)
    count = int(lived(directory, rounds, disk=disk))
    points = sorted(random.Random(count).sample(range(count), min(most, count)))
    lived(directory, rounds, points, disk)
    for point in points:
        check(directory / str(point), records)


@pytest.mark.parametrize("disk", ["quick", "slow"])
def test_nothing_is_lost_or_halved_by_a_crash(tmp_path: Path, disk: str) -> None:
    crash_everywhere(tmp_path, ROUNDS, 50, disk)


@pytest.mark.soak
@pytest.mark.parametrize("disk", ["quick", "slow"])
def test_nothing_is_lost_or_halved_by_a_crash_anywhere(tmp_path: Path, disk: str) -> None:
    crash_everywhere(tmp_path, MORE_ROUNDS, NEVER, disk)


# --- files that are cut short ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A story whose end is not yet in the database itself, only in the log: the process died at its end."""
    directory = tmp_path_factory.mktemp("told")
    count = int(lived(directory, ROUNDS))
    lived(directory, ROUNDS, [count - 1])
    return directory / str(count - 1) / "home", history(ROUNDS)


def copied(home: Path, to: Path, *, cut: str, at: int) -> Path:
    """A copy of a home with one of its files cut short."""
    shutil.copytree(home, to)
    (to / f"{FILE}-shm").unlink(missing_ok=True)
    with (to / cut).open("r+b") as file:
        file.truncate(at)
    return to


def test_a_log_that_is_cut_short_tells_the_story_up_to_there(
    told: tuple[Path, list[Record]], tmp_path: Path
) -> None:
    home, records = told
    size = (home / f"{FILE}-wal").stat().st_size
    versions = set()
    for at in sorted(random.Random(1).sample(range(size), 60)):
        version, state = opened(copied(home, tmp_path / str(at), cut=f"{FILE}-wal", at=at))
        assert state == state_at(records, version)
        assert is_whole(state)
        versions.add(version)
    assert len(versions) > 20


def test_a_database_that_is_cut_short_is_refused_or_whole(
    told: tuple[Path, list[Record]], tmp_path: Path
) -> None:
    home, records = told
    opened(shutil.copytree(home, tmp_path / "closed"))  # closing puts all of the log into the database
    size = (tmp_path / "closed" / FILE).stat().st_size
    refused = 0
    for at in sorted(random.Random(1).sample(range(1, size), 60)):
        damaged = copied(tmp_path / "closed", tmp_path / str(at), cut=FILE, at=at)
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
