"""A daemon that comes later finds what runs, what has ended and what was lost, and runs nothing twice."""

import asyncio
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shoal.kubelet.runtime import ExitStatus, Run, open_runtime
from shoal.kubelet.runtime.processes import kill_leftovers
from shoal.kubelet.runtime.records import RunDirectory, ShimRecord
from shoal.kubelet.shim import process
from tests.kubelet.runtime.containers import (
    LIMIT,
    POD,
    alive,
    container,
    eventually,
    opened,
    ready,
    shell,
    text,
)
from tests.kubelet.runtime.crashing import CODE, spec

REPOSITORY = Path(__file__).parents[3]
HIDDEN = "setsid sh -c 'trap \"\" HUP TERM; setsid sleep 999 & sleep 999' & echo up; sleep 999"
"""Has children in sessions of their own."""


def shim_of(run: Run) -> int:
    record = run.directory.shim()
    assert record
    return record.pid


async def test_what_runs_goes_on_and_is_found(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with open_runtime(tmp_path) as first:
        script = f"echo before; until test -e {go}; do sleep 0.02; done; echo after; exit 6"
        begun = await first.start(shell(script))
        pid, started = begun.pid, begun.started
    async with opened(tmp_path) as second:
        (run,) = second.runs(POD)
        assert (run.pid, run.started, run.exit) == (pid, started, None)
        assert await second.start(shell("echo another")) is run
        go.touch()
        end = await run.wait()
        assert (end.code, end.reason, end.started) == (6, "Error", started)
        assert await text(run) == "before\nafter\n"


async def test_what_is_forgotten_is_gone_and_stays_so(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        for attempt in range(3):
            await (await first.start(shell("true", attempt=attempt))).wait()
        await first.start(shell("sleep 999", attempt=3))
        assert [run.spec.attempt for run in await first.prune(POD, "main", before=9)] == [0, 1, 2]
        half = RunDirectory(tmp_path, POD, "main", 0)  # as if killed while it was removed
        half.path.mkdir()
        half.log.touch()
    async with opened(tmp_path) as second:
        assert [run.spec.attempt for run in second.runs(POD)] == [3]


async def test_what_ended_meanwhile_has_its_exit_code(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        await first.start(shell("exit 9"))
        await first.start(container("no-such-command", attempt=1))
        record = first.runs(POD)[0].directory
    await eventually(lambda: not record.is_locked())
    async with opened(tmp_path) as second:
        ends = [run.exit for run in second.runs(POD)]
        assert [(end.code, end.reason) for end in ends if end] == [(9, "Error"), (128, "StartError")]


async def test_an_adopted_container_is_stopped_and_entered_like_any_other(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        await first.start(shell("trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done 2>/dev/null"))
    async with opened(tmp_path) as second:
        (run,) = second.runs(POD)
        execution = await run.execute(["echo", "inside"])
        assert await execution.stdout.read() == b"inside\n"
        assert await execution.wait() == 0
        await ready(run)
        run.stop(60)
        assert (await run.wait()).code == 3


async def test_a_stop_that_was_not_sent_is_sent_by_the_next_daemon(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell("echo up; exec sleep 999"))
        run.directory.write_stop_deadline(1e12)
    async with opened(tmp_path) as second:
        assert (await second.runs(POD)[0].wait()).code == 143


def is_lost(end: ExitStatus) -> bool:
    return (end.code, end.signal, end.reason, end.message) == (137, 9, "Lost", "the shim died")


async def test_a_shim_that_is_killed_takes_everything_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        run = await runtime.start(shell(HIDDEN))
        await ready(run)
        os.kill(shim_of(run), signal.SIGKILL)
        assert is_lost(await run.wait())
        assert not alive()
        assert not run.directory.is_locked()
        assert await runtime.start(shell("echo again")) is run


async def test_not_even_a_process_without_an_environment_escapes_a_cgroup(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        if not runtime.features.cgroups:
            pytest.skip("no cgroups here")
        run = await runtime.start(shell("env -i setsid sh -c 'echo $$; exec sleep 999' & sleep 999"))
        await ready(run)
        hidden = int(await text(run))
        os.kill(shim_of(run), signal.SIGKILL)
        assert is_lost(await run.wait())
        stat = process.stat(hidden)
        assert stat is None or not stat.alive


async def test_what_a_power_cut_has_left_of_a_run_is_a_run_that_was_lost(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell("true"))
        await run.wait()
    for name in ("shim.json", "stop.json"):
        (run.directory.path / name).write_bytes(b"")
    (run.directory.path / "exit.json").unlink()
    async with opened(tmp_path) as second:
        (found,) = second.runs(POD)
        assert is_lost(await found.wait())
        assert await second.start(shell("echo again")) is found


async def test_what_runs_although_its_start_was_said_to_have_failed_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter, go = tmp_path / "counter", tmp_path / "go"
    wanted = shell(f"echo x >> {counter}; until test -e {go}; do sleep 0.02; done; exit 6")
    async with opened(tmp_path / "home") as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pidfd_open", refuse)
            with pytest.raises(OSError, match="Too many open files"):
                await runtime.start(wanted)
        try:
            await eventually(counter.exists)
            run = await runtime.start(wanted)
        finally:
            go.touch()
        assert (await run.wait()).code == 6
    assert counter.read_text() == "x\n"


def refuse(_: int) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_shim_does_not_outlive_a_home_that_was_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        run = await runtime.start(shell("echo up; exec sleep 999"))
        await ready(run)
        shim = shim_of(run)
        shutil.rmtree(run.directory.path)
        run.stop(0)
        async with asyncio.timeout(LIMIT):
            await run.wait()
        assert process.stat(shim) is None


async def test_an_end_that_cannot_be_read_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    def no_exit(_: RunDirectory) -> ExitStatus | None:
        asked.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with opened(tmp_path) as runtime, asyncio.timeout(LIMIT):
        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "exit", no_exit)
            run = await runtime.start(shell("exit 5"))
            await asked.wait()
        assert (await run.wait()).code == 5


async def test_who_waits_for_a_run_that_could_not_be_started_waits_no_longer(tmp_path: Path) -> None:
    wanted = shell("exit 4")
    async with opened(tmp_path) as runtime:
        directory = RunDirectory.of(tmp_path, wanted)
        directory.write_intent(wanted)
        lock = directory.lock()
        assert lock is not None
        starting = asyncio.create_task(runtime.start(wanted))
        await asyncio.sleep(0)  # it has begun: the run is known
        runs = runtime.runs(POD)
        with pytest.raises(BlockingIOError):
            await starting
        os.close(lock)
        async with asyncio.timeout(LIMIT):
            assert [(await run.wait()).reason for run in runs] == ["StartError"]
        assert (await (await runtime.start(wanted)).wait()).code == 4


def test_another_who_has_the_number_of_a_container_by_now_is_left_alone() -> None:
    with subprocess.Popen(["/bin/sleep", "999"], start_new_session=True) as other:
        try:
            started = process.start_time(other.pid)
            assert started is not None
            record = ShimRecord(process.boot_id(), 1, 0, other.pid, started - 1, None, [])
            assert kill_leftovers(record, "nobody/main/0")
            assert other.poll() is None
        finally:
            other.kill()


async def test_a_shim_that_was_killed_while_nobody_looked(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell(HIDDEN))
        await ready(run)
    os.kill(shim_of(run), signal.SIGKILL)
    await eventually(lambda: not run.directory.is_locked())
    async with opened(tmp_path) as second:
        assert is_lost(await second.runs(POD)[0].wait())
        assert not alive()
    async with opened(tmp_path) as third:
        assert third.pods() == set()


async def test_a_container_of_another_boot_is_lost_and_nobody_is_killed_for_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        run = await runtime.start(shell("exec sleep 999"))
        record = run.directory.shim()
        assert record
        earlier = RunDirectory(tmp_path, POD, "main", 1)
        earlier.write_intent(shell("true", attempt=1))
        strange = msgspec.structs.replace(record, boot="an earlier one")
        earlier.path.joinpath("shim.json").write_bytes(msgspec.json.encode(strange))
        lost = Run(earlier, shell("true", attempt=1))
        assert await lost.adopt()
        assert is_lost(await lost.wait())
        assert run.exit is None
        assert run.pid in alive()


@pytest.mark.parametrize("names", [("shim.json",), ("shim.json", "stop.json"), ("intent.json",)], ids=str)
async def test_files_that_a_power_cut_has_torn_stop_nobody(tmp_path: Path, names: tuple[str, ...]) -> None:
    async with open_runtime(tmp_path) as runtime:
        run = await runtime.start(shell("exit 2"))
        await run.wait()
        run.directory.path.joinpath("exit.json").unlink()
        for name in names:
            run.directory.path.joinpath(name).write_bytes(b"")
    async with opened(tmp_path) as later:
        assert [is_lost(await found.wait()) for found in later.runs(POD)] == [True] * (
            "intent.json" not in names
        )


async def test_an_intent_without_a_shim_never_ran(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as runtime:
        run = await runtime.start(shell("exit 2"))
        await run.wait()
        for name in ("shim.json", "exit.json"):
            (run.directory.path / name).unlink()
    async with opened(tmp_path) as later:
        assert later.runs(POD) == []


# --- wherever the daemon is killed -------------------------------------------------------------------------


def lived(directory: Path, *points: int) -> str:
    command = [sys.executable, "-m", "tests.kubelet.runtime.crashing", str(directory)]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, *map(str, points)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout


async def check(home: Path) -> None:
    """Whatever the daemon left: the container runs once, in all, and its exit code is known."""
    async with opened(home) as runtime:
        run = await runtime.start(spec(home))
        assert (await run.wait()).code == CODE
        assert (home / "ran").read_text() == "ran\n"
    assert not alive(spec(home).pod)


def crash_points(directory: Path, most: int) -> list[int]:
    count = int(lived(directory))
    assert count > 10
    return sorted(random.Random(count).sample(range(count), min(most, count)))


async def test_never_twice_and_never_lost(tmp_path: Path) -> None:
    points = crash_points(tmp_path, 12)
    assert lived(tmp_path, *points) == ""
    for point in points:
        await check(tmp_path / str(point))


@pytest.mark.soak
async def test_never_twice_and_never_lost_at_any_point(tmp_path: Path) -> None:
    points = crash_points(tmp_path, 1000)
    lived(tmp_path, *points)
    for point in points:
        await check(tmp_path / str(point))
