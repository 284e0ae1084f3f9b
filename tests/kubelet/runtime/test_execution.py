"""Another command in a container: where it runs, what it reads and writes, and how it ends."""

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
from tests.kubelet.runtime.containers import alive, eventually, opened, shell

SPEC = shell("sleep 999", cwd="/usr", env={"PATH": "/usr/bin:/bin", "NAME": "value"})


class Case(NamedTuple):
    """A command, and what comes of it."""

    argv: list[str]
    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    stdin: bytes | None = None


CASES = {
    "its exit code is returned": Case(["sh", "-c", "exit 3"], code=3),
    "a signal is 128 and its number": Case(["sh", "-c", "kill -9 $$"], code=137),
    "both streams are read": Case(["sh", "-c", "echo a; echo b >&2"], b"a\n", b"b\n"),
    "it has the directory and the environment": Case(["sh", "-c", "pwd; echo $NAME"], b"/usr\nvalue\n"),
    "it reads what is written to it": Case(["cat"], b"x" * 300_000, stdin=b"x" * 300_000),
    "nothing is to be read otherwise": Case(["cat"]),
    "it has no terminal": Case(["sh", "-c", "test -t 0 || echo none"], b"none\n"),
    "a command that is not there": Case(
        ["no-such"], stderr=b'exec: "no-such": executable file not found in $PATH\n', code=127
    ),
    "a file that is no command": Case(
        ["/etc/passwd"], stderr=b'exec: "/etc/passwd": permission denied\n', code=126
    ),
    "who keeps its pipes open does not keep us": Case(["sh", "-c", "sleep 999 & echo a"], b"a\n"),
}


async def check(run: Run, case: Case) -> None:
    execution = await run.execute(case.argv, stdin=case.stdin is not None)
    reading = asyncio.gather(execution.stdout.read(), drained(execution.stderr))
    if case.stdin is not None:
        assert execution.stdin
        await execution.stdin.write(case.stdin)
        execution.stdin.close()
    assert [*await reading, await execution.wait()] == [case.stdout, case.stderr, case.code]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_command(runtime: Runtime, case: Case) -> None:
    await check(await runtime.start(SPEC), case)


def test_all_of_them_on_the_loop_that_the_daemon_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as runtime:
            run = await runtime.start(SPEC)
            for case in CASES.values():
                await check(run, case)
            await check_terminal(run)

    uvloop.run(scenario())


async def drained(reader: asyncio.StreamReader | None) -> bytes:
    return await reader.read() if reader else b""


async def test_it_sees_what_the_container_sees(runtime: Runtime, tmp_path: Path) -> None:
    if not runtime.features.mounts:
        pytest.skip("no mounts here")
    tmp_path.joinpath("hosts").write_text("1.2.3.4 there\n")
    run = await runtime.start(shell("sleep 999", mounts=[Mount(str(tmp_path), "/no-such/volume")]))
    assert run.pid
    script = f"cat /no-such/volume/hosts; cmp /proc/self/cgroup /proc/{run.pid}/cgroup && echo same"
    execution = await run.execute(["sh", "-c", script])
    assert await execution.stdout.read() == b"1.2.3.4 there\nsame\n"


async def test_a_terminal(runtime: Runtime) -> None:
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


async def test_the_interrupt_key_interrupts(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    script = "trap 'echo told; exit 5' INT; echo up; while :; do sleep 0.01; done"
    execution = await run.execute(["sh", "-c", script], tty=True)
    assert execution.stdin
    assert await execution.stdout.readline() == b"up\r\n"
    await execution.stdin.write(b"\x03")
    assert b"told" in await execution.stdout.read()
    assert await execution.wait() == 5


async def test_a_command_that_writes_without_end_waits_for_who_reads(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    execution = await run.execute(["yes"])
    await execution.stdout.readline()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(execution.stdout._buffer) < 1 << 20  # type: ignore[attr-defined]
    execution.kill()
    assert await execution.wait() == 137


async def test_it_ends_with_its_container(runtime: Runtime) -> None:
    run = await runtime.start(SPEC)
    execution = await run.execute(["sh", "-c", "echo up; exec sleep 999"])
    await execution.stdout.readline()
    run.stop(0)
    assert await execution.wait() == 137
    assert await execution.stdout.read() == b""
    await run.wait()
    with pytest.raises(ProcessLookupError):
        await run.execute(["true"])
    await eventually(lambda: not alive())


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


async def test_it_dies_with_the_daemon(runtime: Runtime, tmp_path: Path) -> None:
    run = await runtime.start(SPEC)
    command = [sys.executable, "-c", DAEMON, str(tmp_path / "home"), run.spec.pod]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:  # noqa: ASYNC220, S603 - our own program
        assert daemon.stdout
        pid = int(await asyncio.to_thread(daemon.stdout.readline))
        assert process.stat(pid)
        os.kill(daemon.pid, signal.SIGKILL)
    await eventually(lambda: (stat := process.stat(pid)) is None or not stat.alive)
    assert run.exit is None
