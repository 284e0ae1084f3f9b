"""A new daemon adopts running, ended and lost containers, and runs nothing twice."""

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
    POD,
    TIMEOUT,
    clean_runtime,
    container,
    living_processes,
    log_text,
    shell,
    wait_for_output,
    wait_until,
)
from tests.kubelet.runtime.crash_points import EXIT_CODE, spec

REPOSITORY = Path(__file__).parents[3]
HIDDEN = "setsid sh -c 'trap \"\" HUP TERM; setsid sleep 999 & sleep 999' & echo up; sleep 999"
"""A script whose children are in sessions of their own."""


def shim_of(run: Run) -> int:
    record = run.directory.shim()
    assert record
    return record.pid


async def test_running_containers_continue_and_are_adopted(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with open_runtime(tmp_path) as first:
        script = f"echo before; until test -e {go}; do sleep 0.02; done; echo after; exit 6"
        started_run = await first.start(shell(script))
        pid, started = started_run.pid, started_run.started
    async with clean_runtime(tmp_path) as second:
        (run,) = second.runs(POD)
        assert (run.pid, run.started, run.exit) == (pid, started, None)
        assert await second.start(shell("echo another")) is run
        go.touch()
        end = await run.wait()
        assert (end.code, end.reason, end.started) == (6, "Error", started)
        assert await log_text(run) == "before\nafter\n"


async def test_pruned_runs_stay_deleted(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        for attempt in range(3):
            await (await first.start(shell("true", attempt=attempt))).wait()
        await first.start(shell("sleep 999", attempt=3))
        assert [run.spec.attempt for run in await first.prune(POD, "main", before=9)] == [0, 1, 2]
        half = RunDirectory(tmp_path, POD, "main", 0)  # as if killed in the middle of the removal
        half.path.mkdir()
        half.log.touch()
    async with clean_runtime(tmp_path) as second:
        assert [run.spec.attempt for run in second.runs(POD)] == [3]


async def test_exit_codes_of_containers_that_ended_meanwhile(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        await first.start(shell("exit 9"))
        await first.start(container("no-such-command", attempt=1))
        record = first.runs(POD)[0].directory
    await wait_until(lambda: not record.is_locked())
    async with clean_runtime(tmp_path) as second:
        ends = [run.exit for run in second.runs(POD)]
        assert [(end.code, end.reason) for end in ends if end] == [(9, "Error"), (128, "StartError")]


async def test_adopted_containers_can_be_stopped_and_entered(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        await first.start(shell("trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done 2>/dev/null"))
    async with clean_runtime(tmp_path) as second:
        (run,) = second.runs(POD)
        execution = await run.execute(["echo", "inside"])
        assert await execution.stdout.read() == b"inside\n"
        assert await execution.wait() == 0
        await wait_for_output(run)
        run.stop(60)
        assert (await run.wait()).code == 3


async def test_an_unsent_stop_is_sent_by_the_next_daemon(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell("echo up; exec sleep 999"))
        run.directory.write_stop_deadline(1e12)
    async with clean_runtime(tmp_path) as second:
        assert (await second.runs(POD)[0].wait()).code == 143


def is_lost(end: ExitStatus) -> bool:
    return (end.code, end.signal, end.reason, end.message) == (137, 9, "Lost", "the shim died")


async def test_all_processes_of_a_killed_shim_are_killed(tmp_path: Path) -> None:
    async with clean_runtime(tmp_path) as runtime:
        run = await runtime.start(shell(HIDDEN))
        await wait_for_output(run)
        os.kill(shim_of(run), signal.SIGKILL)
        assert is_lost(await run.wait())
        assert not living_processes()
        assert not run.directory.is_locked()
        assert await runtime.start(shell("echo again")) is run


async def test_processes_without_environment_are_found_by_cgroup(tmp_path: Path) -> None:
    async with clean_runtime(tmp_path) as runtime:
        if not runtime.features.cgroups:
            pytest.skip("no cgroups here")
        run = await runtime.start(shell("env -i setsid sh -c 'echo $$; exec sleep 999' & sleep 999"))
        await wait_for_output(run)
        hidden = int(await log_text(run))
        os.kill(shim_of(run), signal.SIGKILL)
        assert is_lost(await run.wait())
        stat = process.stat(hidden)
        assert stat is None or not stat.alive


async def test_a_run_emptied_by_a_power_failure_is_lost(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell("true"))
        await run.wait()
    for name in ("shim.json", "stop.json"):
        (run.directory.path / name).write_bytes(b"")
    (run.directory.path / "exit.json").unlink()
    async with clean_runtime(tmp_path) as second:
        (found,) = second.runs(POD)
        assert is_lost(await found.wait())
        assert await second.start(shell("echo again")) is found


async def test_a_container_that_runs_despite_a_failed_start_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter, go = tmp_path / "counter", tmp_path / "go"
    intent = shell(f"echo x >> {counter}; until test -e {go}; do sleep 0.02; done; exit 6")
    async with clean_runtime(tmp_path / "home") as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pidfd_open", no_descriptors)
            with pytest.raises(OSError, match="Too many open files"):
                await runtime.start(intent)
        try:
            await wait_until(counter.exists)
            run = await runtime.start(intent)
        finally:
            go.touch()
        assert (await run.wait()).code == 6
    assert counter.read_text() == "x\n"


def no_descriptors(_: int) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_shim_does_not_outlive_a_deleted_home(tmp_path: Path) -> None:
    async with clean_runtime(tmp_path) as runtime:
        run = await runtime.start(shell("echo up; exec sleep 999"))
        await wait_for_output(run)
        shim = shim_of(run)
        shutil.rmtree(run.directory.path)
        run.stop(0)
        async with asyncio.timeout(TIMEOUT):
            await run.wait()
        assert process.stat(shim) is None


async def test_an_unreadable_exit_status_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_attempted = asyncio.Event()

    def no_exit(_: RunDirectory) -> ExitStatus | None:
        read_attempted.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with clean_runtime(tmp_path) as runtime, asyncio.timeout(TIMEOUT):
        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "exit", no_exit)
            run = await runtime.start(shell("exit 5"))
            await read_attempted.wait()
        assert (await run.wait()).code == 5


async def test_waiting_for_a_run_that_could_not_be_started_ends(tmp_path: Path) -> None:
    intent = shell("exit 4")
    async with clean_runtime(tmp_path) as runtime:
        directory = RunDirectory.of(tmp_path, intent)
        directory.write_intent(intent)
        lock = directory.lock()
        assert lock is not None
        starting = asyncio.create_task(runtime.start(intent))
        await asyncio.sleep(0)  # let it begin: the run is registered
        runs = runtime.runs(POD)
        with pytest.raises(BlockingIOError):
            await starting
        os.close(lock)
        async with asyncio.timeout(TIMEOUT):
            assert [(await run.wait()).reason for run in runs] == ["StartError"]
        assert (await (await runtime.start(intent)).wait()).code == 4


def test_a_process_that_reuses_a_pid_is_not_killed() -> None:
    with subprocess.Popen(["/bin/sleep", "999"], start_new_session=True) as other:
        try:
            started = process.start_time(other.pid)
            assert started is not None
            record = ShimRecord(process.boot_id(), 1, 0, other.pid, started - 1, None, [])
            assert kill_leftovers(record, "pod/main/0")
            assert other.poll() is None
        finally:
            other.kill()


async def test_a_shim_killed_while_no_daemon_runs(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as first:
        run = await first.start(shell(HIDDEN))
        await wait_for_output(run)
    os.kill(shim_of(run), signal.SIGKILL)
    await wait_until(lambda: not run.directory.is_locked())
    async with clean_runtime(tmp_path) as second:
        assert is_lost(await second.runs(POD)[0].wait())
        assert not living_processes()
    async with clean_runtime(tmp_path) as third:
        assert third.pods() == set()


async def test_a_container_of_another_boot_is_lost_and_no_process_is_killed(tmp_path: Path) -> None:
    async with clean_runtime(tmp_path) as runtime:
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
        assert run.pid in living_processes()


@pytest.mark.parametrize("names", [("shim.json",), ("shim.json", "stop.json"), ("intent.json",)], ids=str)
async def test_torn_files_do_not_stop_a_daemon(tmp_path: Path, names: tuple[str, ...]) -> None:
    async with open_runtime(tmp_path) as runtime:
        run = await runtime.start(shell("exit 2"))
        await run.wait()
        run.directory.path.joinpath("exit.json").unlink()
        for name in names:
            run.directory.path.joinpath(name).write_bytes(b"")
    async with clean_runtime(tmp_path) as later:
        assert [is_lost(await found.wait()) for found in later.runs(POD)] == [True] * (
            "intent.json" not in names
        )


async def test_an_intent_without_a_shim_never_ran(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as runtime:
        run = await runtime.start(shell("exit 2"))
        await run.wait()
        for name in ("shim.json", "exit.json"):
            (run.directory.path / name).unlink()
    async with clean_runtime(tmp_path) as later:
        assert later.runs(POD) == []


# --- crashes at any point ----------------------------------------------------------------------------------


def run_and_crash(directory: Path, *points: int) -> str:
    command = [sys.executable, "-m", "tests.kubelet.runtime.crash_points", str(directory)]
    done = subprocess.run(  # noqa: S603 - a program of ours
        [*command, *map(str, points)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout


async def check(home: Path) -> None:
    """After a crash the container runs once in total, and its exit code is known."""
    async with clean_runtime(home) as runtime:
        run = await runtime.start(spec(home))
        assert (await run.wait()).code == EXIT_CODE
        assert (home / "ran").read_text() == "ran\n"
    assert not living_processes(spec(home).pod)


def crash_points(directory: Path, maximum: int) -> list[int]:
    count = int(run_and_crash(directory))
    assert count > 10
    return sorted(random.Random(count).sample(range(count), min(maximum, count)))


async def test_crashes_neither_repeat_nor_lose_a_run(tmp_path: Path) -> None:
    points = crash_points(tmp_path, 12)
    assert run_and_crash(tmp_path, *points) == ""
    for point in points:
        await check(tmp_path / str(point))


@pytest.mark.soak
async def test_crashes_at_every_point_neither_repeat_nor_lose_a_run(tmp_path: Path) -> None:
    points = crash_points(tmp_path, 1000)
    run_and_crash(tmp_path, *points)
    for point in points:
        await check(tmp_path / str(point))
