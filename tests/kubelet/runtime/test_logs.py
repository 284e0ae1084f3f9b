"""Logs of containers: complete, in order, rotated, and readable in every way."""

import asyncio
import os
import re
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kubelet.runtime import Runtime
from shoal.kubelet.runtime.logs import Log
from shoal.kubelet.shim.logfile import MAX_LINE, LogFile, Stream, timestamp
from tests.kubelet.runtime.containers import clean_runtime, log_text, python, shell

ENDED = asyncio.Event()
ENDED.set()
FILES = 5


def write_log(directory: Path, pieces: list[bytes], size: int) -> Log:
    """A log to which these pieces were written one after another."""
    file = LogFile(str(directory / "log"), size, FILES)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    stream = Stream("stdout", reader, file)
    for piece in pieces:
        os.write(writer, piece)
        stream.pump()
    os.close(writer)
    os.close(reader)
    stream.flush()
    return Log(directory / "log", FILES, ENDED)


def read(log: Log, **options: object) -> bytes:
    async def whole() -> bytes:
        return b"".join([piece async for piece in log.read(**options)])  # type: ignore[arg-type]

    return asyncio.run(whole())


def last_lines(text: bytes, count: int) -> bytes:
    """The last lines of a text; a partial last line counts."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    return b"".join(lines[-count:] if count else [])


PIECES = st.lists(
    st.binary(max_size=30) | st.sampled_from([b"\n", b"a\n", b"x" * (MAX_LINE + 5)]), max_size=20
)


@given(pieces=PIECES, tail=st.integers(0, 6))
def test_reading_returns_the_output(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], tail: int
) -> None:
    log = write_log(tmp_path_factory.mktemp("log"), pieces, 10**9)
    whole = b"".join(pieces)
    assert read(log) == whole
    assert read(log, tail=tail) == last_lines(whole, tail)
    assert read(log, limit=7) == whole[:7]


@given(
    lines=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    size=st.integers(200, 2000),
    tail=st.integers(1, 9),
)
def test_rotation_keeps_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int], size: int, tail: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    pieces = [f"{number} {'x' * length}\n".encode() for number, length in enumerate(lines)]
    log = write_log(directory, pieces, size)
    found = read(log)
    assert b"".join(pieces).endswith(found)
    assert found
    assert read(log, tail=tail) == last_lines(found, tail)
    files = list(directory.iterdir())
    assert len(files) <= FILES
    assert all(file.stat().st_size <= max(size, 500) for file in files)


def test_timestamps_and_since(tmp_path: Path) -> None:
    lines = [(1000, "F", "a"), (2000, "P", "b"), (3000, "F", "c"), (4000, "F", "d")]
    text = "".join(f"{timestamp(second * 10**9)} stdout {tag} {word}\n" for second, tag, word in lines)
    tmp_path.joinpath("log").write_text(text)
    log = Log(tmp_path / "log", FILES, ENDED)
    assert read(log) == b"a\nbc\nd\n"
    assert read(log, since=3500) == b"d\n"
    first, second, fourth = (timestamp(second * 10**9).encode() for second in (1000, 2000, 4000))
    assert read(log, timestamps=True) == b"%b a\n%b bc\n%b d\n" % (first, second, fourth)


async def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", FILES, ENDED)
    assert [piece async for piece in log.read(follow=True, tail=3)] == []


async def test_following_continues_across_rotations(runtime: Runtime) -> None:
    script = "for number in range(20000): print(number, 'x' * 50)"
    spec = python(script, log_size=100_000, log_files=50)
    run = await runtime.start(spec)
    found = b"".join([piece async for piece in run.log.read(follow=True)])
    assert found.decode().split()[::2] == [str(number) for number in range(20000)]
    assert len(list(run.directory.path.glob("log.*"))) > 1


async def test_following_shows_partial_lines(runtime: Runtime) -> None:
    run = await runtime.start(shell("printf 'name? '; sleep 999"))
    pieces: AsyncIterator[bytes] = run.log.read(follow=True)
    assert await anext(pieces) == b"name? "


async def test_a_file_size_limit_costs_lines_but_not_the_container(runtime: Runtime) -> None:
    """The limit applies to the shim: a write fails, and after a rotation later ones succeed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        spec = python("for number in range(5000): print(number, flush=True)", log_size=50_000)
        run = await runtime.start(spec)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    end = await run.wait()
    assert end.code == 0
    kept = [int(line) for line in (await log_text(run)).splitlines() if not line.startswith("shoal: ")]
    assert kept == sorted(set(kept))
    assert end.message == f"{5000 - len(kept)} lines of the log were dropped: File too large"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "shoal-test", disk], check=True)  # noqa: S603, S607
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # noqa: S603, S607


def test_lines_dropped_by_a_full_disk_are_reported_later(small_disk: Path) -> None:
    log = LogFile(str(small_disk / "log"), 10**9, FILES)
    ballast = small_disk / "ballast"
    log.write("stdout", [b"first"], ended=True)
    with ballast.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                break
    for _ in range(5):
        log.write("stdout", [b"y" * 2000, b"z"], ended=True)
    dropped = log.dropped_total
    assert dropped > 0
    ballast.unlink()
    log.write("stdout", [b"last"], ended=True)
    found = read(Log(small_disk / "log", FILES, ENDED)).decode().splitlines()
    assert found[0] == "first"
    assert found[-2:] == [f"shoal: {dropped} lines were dropped: No space left on device", "last"]


async def test_a_full_disk_does_not_affect_the_container_or_its_exit_code(small_disk: Path) -> None:
    async with clean_runtime(small_disk) as runtime:
        run = await runtime.start(python("for number in range(9000): print(number)\nraise SystemExit(4)"))
        end = await run.wait()
        assert end.code == 4
        assert "lines of the log were dropped: No space left on device" in end.message
