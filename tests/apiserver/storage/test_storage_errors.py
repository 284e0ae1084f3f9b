"""Storage errors: one clear message, and no data is destroyed."""

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.sqlite import FILE
from shoal.cluster.errors import StorageError
from shoal.cluster.resources import CONFIG_MAPS
from shoal.embedded.store import open_home
from tests.apiserver.registry.objects import config_map, names
from tests.apiserver.storage.failing_process import fill

ROOT = Path(__file__).parents[3]


async def made(home: Path) -> None:
    async with open_home(home) as registry:
        await registry.create(CONFIG_MAPS, config_map("kept"))


def run_failing_process(kind: str, home: Path) -> Any:  # noqa: ANN401 - what the child says
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.apiserver.storage.failing_process", kind, str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


# --- a full disk -------------------------------------------------------------------------------------------


async def check_acknowledged(report: Any, home: Path) -> None:  # noqa: ANN401 - what the child says
    assert report["safe"][:-1], "something was kept before the disk was full"
    assert 1 <= len(report["refused"]) <= 3
    assert all("cannot be written" in message for message in report["refused"])
    assert report["still"] == []
    assert sorted(report["shown"]) == sorted(set(report["safe"]) - {"later"})
    async with open_home(home) as registry:
        assert sorted(await names(registry, CONFIG_MAPS)) == sorted(report["safe"])


async def test_a_file_size_limit(tmp_path: Path) -> None:
    await check_acknowledged(run_failing_process("limit", tmp_path / "home"), tmp_path / "home")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, if the system permits the mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "shoal-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        pytest.skip(f"no small disk to be had: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)  # noqa: S603, S607 - our own command


async def test_a_full_disk(small_disk: Path) -> None:
    def grow() -> None:
        subprocess.run(  # noqa: S603 - our own command
            ["mount", "-o", "remount,size=8m", str(small_disk)],  # noqa: S607
            check=True,
        )

    async with open_home(small_disk / "home") as registry:
        report = await fill(registry, grow)
    await check_acknowledged(report, small_disk / "home")


# --- what cannot be opened ---------------------------------------------------------------------------------


def a_file_in_its_place(home: Path) -> None:
    shutil.rmtree(home)
    home.write_text("something else")


def garbage(home: Path) -> None:
    (home / FILE).write_bytes(b"not a database at all, but long enough to look like one" * 100)


def a_damaged_page(home: Path) -> None:
    with (home / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def a_damaged_object(home: Path) -> None:
    text = (home / FILE).read_bytes()
    (home / FILE).write_bytes(text.replace(b'{"apiVersion"', b'{"apiVersion?'))


def a_missing_object(home: Path) -> None:
    end = "INSERT INTO records VALUES (99, 0, 'configmaps', 'default', 'never', x'7b7d', 1)"
    with sqlite3.connect(home / FILE) as connection:
        connection.execute(end)
    connection.close()


def a_newer_format(home: Path) -> None:
    with sqlite3.connect(home / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def another_program(home: Path) -> None:
    (home / FILE).unlink()
    with sqlite3.connect(home / FILE) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


TROUBLES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file where the directory should be": (a_file_in_its_place, "cannot be used: File exists"),
    "a file that is not a database": (garbage, "it is damaged"),
    "a corrupt page": (a_damaged_page, "damaged"),
    "a corrupt object": (a_damaged_object, "contains damaged objects"),
    "a deletion of an object that never existed": (
        a_missing_object,
        "configmaps/default/never is deleted but was never created",
    ),
    "a newer format": (a_newer_format, "written by a newer version of Shoal (format 99"),
    "a database of another program": (another_program, "another program"),
}


@pytest.mark.parametrize("case", TROUBLES)
async def test_damaged_homes_are_reported_and_kept(case: str, tmp_path: Path) -> None:
    prepare, text = TROUBLES[case]
    home = tmp_path / "home"
    await made(home)
    prepare(home)
    file = home / FILE if home.is_dir() else home
    before = file.read_bytes()
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            async with open_home(home):
                pass
        assert text in caught.value.message
        assert "\n" not in caught.value.message
        assert str(home) in caught.value.message
    assert file.read_bytes() == before


def writable(path: Path) -> None:
    """Make a directory read-only, and restore its mode afterwards."""
    path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) | 0o555)


@pytest.mark.parametrize("exists", [True, False], ids=["with a stored state", "without a stored state"])
async def test_a_read_only_directory(exists: bool) -> None:  # noqa: FBT001 - a parameter of the test
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        home.mkdir()
        if exists:
            await made(home)
        for path in (Path(place), home, *home.iterdir()):
            writable(path)
        report = run_failing_process("nobody", home)
        assert len(report["refused"]) == 1
        assert str(home) in report["refused"][0]
        for path in (Path(place), home):
            path.chmod(0o700)
        if exists:
            for path in home.iterdir():
                path.chmod(0o600)
            async with open_home(home) as registry:
                assert await names(registry, CONFIG_MAPS) == ["kept"]
