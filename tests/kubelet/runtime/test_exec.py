"""Commands in running containers: environment, streams, terminals and exit codes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop

from shoal.kubelet.runtime import Mount, Run, Runtime
from shoal.kubelet.shim import process
from tests.kubelet.runtime.containers import clean_runtime, living_processes, shell, wait_until

SPEC = shell("sleep 999", cwd="/usr", env={"PATH": "/usr/bin:/bin", "NAME": "value"})


class Case(NamedTuple):
    """A command with its expected output and exit code."""

    argv: list[str]
    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    stdin: bytes | None = None


CASES = {
    "exit code": Case(["sh", "-c", "exit 3"], code=3),
    "a signal is 128 plus its number": Case(["sh", "-c", "kill -9 $$"], code=137),
    "both streams": Case(["sh", "-c", "echo a; echo b >&2"], b"a\n", b"b\n"),
    "directory and environment of the container": Case(["sh", "-c", "pwd; echo $NAME"], b"/usr\nvalue\n"),
    "input": Case(["cat"], b"x" * 300_000, stdin=b"x" * 300_000),
    "no input by default": Case(["cat"]),
    "no terminal by default": Case(["sh", "-c", "test -t 0 || echo none"], b"none\n"),
    "a missing command": Case(
        ["no-such"], stderr=b'exec: "no-such": executable file not found in $PATH\n', code=127
    ),
    "a file that is not executable": Case(
        ["/etc/passwd"], stderr=b'exec: "/etc/passwd": permission denied\n', code=126
    ),
    "a background process that holds the pipes": Case(["sh", "-c", "sleep 999 & echo a"], b"a\n"),
}


async def check(run: Run, case: Case) -> None:
    execution = await run.execute(case.argv, stdin=case.stdin is not None)
    reading = asyncio.gather(execution.stdout.read(), read_all(execution.stderr))
    if case.stdin is not None:
        assert execution.stdin
        await execution.stdin.write(case.stdin)
        execution.stdin.close()
    assert [*await reading, await execution.wait()] == [case.stdout, case.stderr, case.code]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_command(runtime: Runtime, case: Case) -> None:
    await check(await runtime.start(SPEC), case)


def test_all_cases_on_uvloop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with clean_runtime(tmp_path) as runtime:
            run = await runtime.start(SPEC)
            for case in CASES.values():
                await check(run, case)
            await check_terminal(run)

    uvloop.run(scenario())


async def read_all(reader: asyncio.StreamReader | None) -> bytes:
    return await reader.read() if reader else b""


async def test_a_command_has_the_mounts_and_cgroups_of_the_container(
    runtime: Runtime, tmp_path: Path
) -> None:
    if not runtime.features.mounts:
        pytest.skip("no mounts here")
    tmp_path.joinpath("hosts").write_text("1.2.3.4 there\n")
    run = await runtime.start(shell("sleep 999", mounts=[Mount(str(tmp_path), "/no-such/volume")]))
    assert run.pid
    script = f"cat /no-such/volume/hosts; cmp /proc/self/cgroup /proc/{run.pid}/cgroup && echo same"
    execution = await run.execute(["sh", "-c", script])
    assert await execution.stdout.read() == b"1.2.3.4 there\nsame\n"


async def test_terminal(runtime: Runtime) -> None:
    await check_terminal(await runtime.start(SPEC))


async def check_terminal(run: Run) -> None:
    script = "test -t 0 && stty size && read -r x && echo got $x; stty size; exit 4"
    execution = await run.execute(["sh", "-c", script], tty=True, size=(10, 20))
    assert execution.stdin
    assert execution.stderr is None
    assert await execution.stdout.readline() == b"10 20\r\n"
    execution.resize(30, 40)
    await execution.stdin.write(b"word\n")
    assert (await execution.stdout.read()).splitlines() == [b"word", b"got word", b"30 40"]
    assert await execution.wait() == 4
    with pytest.raises(BrokenPipeError):
        await execution.stdin.write(b"late")


async def test_the_interrupt_key_sends_sigint(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    script = "trap 'echo interrupted; exit 5' INT; echo up; while :; do sleep 0.01; done"
    execution = await run.execute(["sh", "-c", script], tty=True)
    assert execution.stdin
    assert await execution.stdout.readline() == b"up\r\n"
    await execution.stdin.write(b"\x03")
    assert b"interrupted" in await execution.stdout.read()
    assert await execution.wait() == 5


async def test_endless_output_is_not_buffered_without_limit(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    execution = await run.execute(["yes"])
    await execution.stdout.readline()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(execution.stdout._buffer) < 1 << 20  # type: ignore[attr-defined]
    execution.kill()
    assert await execution.wait() == 137


async def test_a_command_ends_with_its_container(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    execution = await run.execute(["sh", "-c", "echo up; exec sleep 999"])
    await execution.stdout.readline()
    run.stop(0)
    assert await execution.wait() == 137
    assert await execution.stdout.read() == b""
    await run.wait()
    with pytest.raises(ProcessLookupError):
        await run.execute(["true"])
    await wait_until(lambda: not living_processes())


DAEMON = """
import asyncio, sys
from pathlib import Path
from shoal.kubelet.runtime import open_runtime
async def main():
    async with open_runtime(Path(sys.argv[1])) as runtime:
        (run,) = runtime.runs(sys.argv[2])
        execution = await run.execute(["sh", "-c", "echo $$; exec sleep 999"])
        print(int(await execution.stdout.readline()), flush=True)
        await execution.wait()
asyncio.run(main())
"""


async def test_a_command_dies_with_the_daemon(runtime: Runtime, tmp_path: Path) -> None:
    run = await runtime.start(SPEC)
    command = [sys.executable, "-c", DAEMON, str(tmp_path / "home"), run.spec.pod]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:  # noqa: ASYNC220, S603 - a program of ours
        assert daemon.stdout
        pid = int(await asyncio.to_thread(daemon.stdout.readline))
        assert process.stat(pid)
        os.kill(daemon.pid, signal.SIGKILL)
    await wait_until(lambda: (stat := process.stat(pid)) is None or not stat.alive)
    assert run.exit is None
