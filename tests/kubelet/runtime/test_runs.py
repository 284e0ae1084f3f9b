"""Runs of containers: start, stop, exit status, limits, users, mounts and clean-up."""

import asyncio
import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.kubelet.runtime import ContainerSpec, Limits, Mount, Runtime
from tests.kubelet.runtime.containers import (
    POD,
    container,
    living_processes,
    log_text,
    python,
    remove_pod,
    run_output,
    shell,
    wait_for_output,
    wait_until,
)

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
NOTICING = STUBBORN.replace("signal.SIG_IGN", "lambda *_: print('SIGTERM', flush=True)")


class Expected(NamedTuple):
    """The expected end of a run."""

    code: int
    signal: int | None
    reason: str
    log: str = ""
    message: str = ""


EXITS: dict[str, tuple[ContainerSpec, Expected]] = {
    "success": (container("true"), Expected(0, None, "Completed")),
    "an exit code": (shell("echo a; exit 7"), Expected(7, None, "Error", "a\n")),
    "a signal is 128 plus its number": (shell("kill -SEGV $$"), Expected(139, 11, "Error")),
    "a kill from outside is an error, not a lost container": (shell("kill -9 $$"), Expected(137, 9, "Error")),
    "both streams are in the log": (
        shell("echo a; sleep 0.2; echo b >&2"),
        Expected(0, None, "Completed", "a\nb\n"),
    ),
    "a last line without end": (shell("printf a"), Expected(0, None, "Completed", "a")),
    "environment": (
        container("env", env={"PATH": "/usr/bin:/bin", "A": "b c"}),
        Expected(0, None, "Completed", f"PATH=/usr/bin:/bin\nA=b c\nSHOAL_RUN={POD}/main/0\n"),
    ),
    "working directory": (
        container("pwd", cwd="/usr"),
        Expected(0, None, "Completed", "/usr\n"),
    ),
    "no input and no other open files": (
        shell("cat; ls /proc/self/fd"),
        Expected(0, None, "Completed", "0\n1\n2\n3\n"),
    ),
    "default signal handling": (
        shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | sed 's/.*\\(.......\\)$/\\1/'"),
        Expected(0, None, "Completed", "0000000\n0000000\n"),
    ),
    "session and process group leader": (
        shell("ps -o pid=,pgid=,sid= -p $$ | awk '{print ($1==$2 && $2==$3)}'"),
        Expected(0, None, "Completed", "1\n"),
    ),
    "a missing command": (
        container("no-such-command"),
        Expected(128, None, "StartError", "", 'exec: "no-such-command": executable file not found in $PATH'),
    ),
    "a missing path": (
        container("/no/such"),
        Expected(128, None, "StartError", "", 'exec: "/no/such": no such file or directory'),
    ),
    "a path that is not executable": (
        container("/etc/passwd"),
        Expected(128, None, "StartError", "", 'exec: "/etc/passwd": permission denied'),
    ),
    "a missing working directory": (
        container("true", cwd="/no/such"),
        Expected(
            128, None, "StartError", "", "cannot change to the directory /no/such: No such file or directory"
        ),
    ),
    "a missing volume": (
        container("true", mounts=[Mount("/no/such", "/mnt")]),
        Expected(
            128,
            None,
            "StartError",
            "",
            "cannot mount the container's volumes: No such file or directory (/no/such)",
        ),
    ),
    "processes that outlive the first one are killed": (
        shell("(trap '' TERM HUP; setsid sleep 999) & sleep 0.2; echo a"),
        Expected(0, None, "Completed", "a\n"),
    ),
}


@pytest.mark.parametrize("spec, expected", EXITS.values(), ids=EXITS.keys())
async def test_exit_status(runtime: Runtime, spec: ContainerSpec, expected: Expected) -> None:
    run = await runtime.start(spec)
    end = await run.wait()
    assert Expected(end.code, end.signal, end.reason, await log_text(run), end.message) == expected
    assert (end.started is None) == (end.reason == "StartError")
    assert (end.started or 0) <= end.finished
    assert not living_processes()


class Stop(NamedTuple):
    """A command that writes a line when it is ready, and how it ends when it is stopped."""

    spec: ContainerSpec
    grace: float
    code: int
    log: str


STOPS = {
    "SIGTERM expected it": Stop(shell("echo up; exec sleep 999"), 60, 143, "up\n"),
    "it may use its grace period": Stop(
        shell("trap 'sleep 0.3; echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done 2>/dev/null"),
        60,
        3,
        "up\nbye\n",
    ),
    "SIGTERM goes to the process group": Stop(
        shell(
            "sh -c 'trap \"echo child; exit\" TERM; echo up; while :; do sleep 0.01; done' 2>/dev/null & "
            "trap 'wait; exit 4' TERM; wait"
        ),
        60,
        4,
        "up\nchild\n",
    ),
    "killed after the grace period": Stop(python(STUBBORN), 0.2, 137, "up\n"),
    "processes in other sessions are killed too": Stop(
        shell(
            "setsid setsid sh -c 'trap \"\" TERM; sleep 999 & sleep 999' & trap '' TERM; echo up; sleep 999"
        ),
        0.2,
        137,
        "up\n",
    ),
    "no grace period": Stop(python(STUBBORN), 0, 137, "up\n"),
}


@pytest.mark.parametrize("case", STOPS.values(), ids=STOPS.keys())
async def test_stopping(runtime: Runtime, case: Stop) -> None:
    run = await runtime.start(case.spec)
    await wait_for_output(run)
    run.stop(case.grace)
    end = await run.wait()
    assert (end.code, await log_text(run)) == (case.code, case.log)
    assert not living_processes()


async def test_a_later_stop_can_only_shorten_the_deadline(runtime: Runtime) -> None:
    run = await runtime.start(python(STUBBORN))
    await wait_for_output(run)
    for grace in (3600, 0.1, 3600):
        run.stop(grace)
    assert (await run.wait()).code == 137


async def test_a_second_stop_sends_no_second_signal(runtime: Runtime) -> None:
    run = await runtime.start(python(NOTICING))
    await wait_for_output(run)
    run.stop(3600)
    lines = run.log.read(follow=True)
    async for piece in lines:
        if b"SIGTERM" in piece:
            break
    run.stop(3000)
    run.stop(0.1)
    await run.wait()
    assert await log_text(run) == "up\nSIGTERM\n"


async def test_a_container_stopped_before_its_start_ends(runtime: Runtime) -> None:
    starting = asyncio.create_task(runtime.start(shell("sleep 999")))
    await wait_until(lambda: runtime.runs(POD))
    runtime.runs(POD)[0].stop(30)
    assert (await (await starting).wait()).code == 143


async def test_a_foreign_sigterm_uses_the_grace_period_of_the_container(runtime: Runtime) -> None:
    run = await runtime.start(python(STUBBORN, grace=0.1))
    await wait_for_output(run)
    shim = run.directory.shim()
    assert shim
    os.kill(shim.pid, signal.SIGTERM)
    assert (await run.wait()).code == 137


async def test_the_same_run_is_never_started_twice(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    spec = shell(f"echo ran >> {file}")
    runs = await asyncio.gather(*(runtime.start(spec) for _ in range(5)))
    await runs[0].wait()
    assert len({id(run) for run in (*runs, await runtime.start(spec))}) == 1
    assert file.read_text() == "ran\n"
    again = await runtime.start(shell(f"echo again >> {file}", attempt=1))
    await again.wait()
    assert file.read_text() == "ran\nagain\n"
    assert [run.spec.attempt for run in runtime.runs(POD)] == [0, 1]


async def test_many_concurrent_starts(runtime: Runtime) -> None:
    specs = [shell(f"exit {number}", container=f"c{number:02}") for number in range(40)]
    runs = await asyncio.gather(*map(runtime.start, specs))
    assert [(await run.wait()).code for run in runs] == list(range(40))
    assert [run.spec.container for run in runtime.runs(POD)] == [spec.container for spec in specs]


async def test_a_pod_can_be_removed_when_none_of_its_containers_runs(runtime: Runtime) -> None:
    run = await runtime.start(shell("sleep 999"))
    assert runtime.pods() == {POD}
    with pytest.raises(RuntimeError):
        await runtime.remove(POD)
    assert run.pid in living_processes()
    await remove_pod(runtime, POD)
    assert runtime.pods() == set()
    assert runtime.runs(POD) == []
    await (await runtime.start(container("true"))).wait()


async def test_files_of_runs_are_private(runtime: Runtime) -> None:
    run = await runtime.start(shell("echo secret"))
    await run.wait()
    files = list(run.directory.path.iterdir())
    assert {path.stat().st_mode & 0o077 for path in [*files, run.directory.path]} == {0}


# --- features that need root -------------------------------------------------------------------------------


@ROOT
async def test_limits_and_usage(runtime: Runtime) -> None:
    if not runtime.features.cgroups:
        pytest.skip("no cgroups here")
    hungry = "import time; x = bytearray(64 << 20); print('up', flush=True); time.sleep(1e4)"
    run = await runtime.start(python(hungry, limits=Limits(memory=256 << 20)))
    await wait_for_output(run)
    used = run.usage()
    assert used
    assert used.memory >= 64 << 20
    assert used.cpu > 0
    greedy = await runtime.start(python(hungry, container="greedy", limits=Limits(0.5, 32 << 20)))
    end = await greedy.wait()
    assert (end.code, end.signal, end.reason) == (137, 9, "OOMKilled")
    assert greedy.usage() is None


async def test_usage_is_summed_over_processes_without_cgroups(runtime: Runtime) -> None:
    runtime._cgroups._bases = ()
    hungry = "x = bytearray(64 << 20); print('up', flush=True); input()"
    run = await runtime.start(shell(f'sleep 999 | setsid python3 -c "{hungry}"'))
    await wait_for_output(run)
    used = run.usage()
    assert used
    assert used.memory >= 64 << 20
    assert used.cpu > 0


@ROOT
async def test_another_user(runtime: Runtime) -> None:
    spec = shell("id -u; id -g; id -G", user=65534, group=65533, groups=[65532])
    assert await run_output(runtime, spec) == "65534\n65533\n65533 65532\n"


MOUNTS = {
    "over an existing file": (["a:/etc/hosts"], "cat /etc/hosts", "a\n"),
    "a directory at a missing path": (["d:/srv/no/such"], "ls /srv/no/such", "in-d\n"),
    "a missing path in the root directory": (
        ["d:/no-such/deep"],
        "ls /no-such/deep; cat /etc/hostname | wc -l",
        "in-d\n1\n",
    ),
    "a file at a missing path": (
        ["a:/etc/no/such/file"],
        "cat /etc/no/such/file; test -e /etc/passwd",
        "a\n",
    ),
    "two in one new directory": (
        ["d:/no-such/x", "a:/no-such/y"],
        "ls /no-such /no-such/x; cat /no-such/y",
        "/no-such:\nx\ny\n\n/no-such/x:\nin-d\na\n",
    ),
    "one inside another": (["d:/mnt", "a:/mnt/in-d"], "cat /mnt/in-d; ls /mnt", "a\nin-d\n"),
    "writes reach the source": (["d:/no-such"], "echo x > /no-such/new", ""),
    "read-only": (
        ["d:/no-such:ro"],
        "touch /no-such/x 2>/dev/null || echo rejected",
        "rejected\n",
    ),
    "neighbours of the target stay unchanged": (
        ["a:/usr/no-such"],
        "ls /usr/bin | wc -l; ls -ld /usr/lib/.. | cut -c1-10",
        None,
    ),
}


def exists_on_host(path: str) -> bool:
    return Path(path).exists()


@ROOT
@pytest.mark.parametrize("mounts, script, expected_output", MOUNTS.values(), ids=MOUNTS.keys())
async def test_mounts(
    runtime: Runtime, tmp_path: Path, mounts: list[str], script: str, expected_output: str | None
) -> None:
    tmp_path.joinpath("a").write_text("a\n")
    tmp_path.joinpath("d").mkdir()
    tmp_path.joinpath("d", "in-d").touch()
    requested = [mount.split(":") for mount in mounts]
    made = [Mount(str(tmp_path / source), target, bool(more)) for source, target, *more in requested]
    expected = (
        await run_output(runtime, shell(script, container="plain"))
        if expected_output is None
        else expected_output
    )
    assert await run_output(runtime, shell(script, mounts=made)) == expected
    assert tmp_path.joinpath("d", "new").exists() == ("new" in script)
    assert not any(exists_on_host(target) for _, target, *_ in requested if "no" in target)
