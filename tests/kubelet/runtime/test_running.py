"""A container runs as it is asked to, ends as it is told to, and leaves nothing behind."""

import asyncio
import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.kubelet.runtime import ContainerSpec, Limits, Mount, Runtime
from tests.kubelet.runtime.containers import (
    POD,
    alive,
    clear,
    container,
    eventually,
    output,
    python,
    ready,
    shell,
    text,
)

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
NOTICING = STUBBORN.replace("signal.SIG_IGN", "lambda *_: print('told', flush=True)")


class Ends(NamedTuple):
    """How a run is to end."""

    code: int
    signal: int | None
    reason: str
    log: str = ""
    message: str = ""


ENDINGS: dict[str, tuple[ContainerSpec, Ends]] = {
    "all is well": (container("true"), Ends(0, None, "Completed")),
    "an exit code is kept": (shell("echo a; exit 7"), Ends(7, None, "Error", "a\n")),
    "a signal is 128 and its number": (shell("kill -SEGV $$"), Ends(139, 11, "Error")),
    "a kill from outside is an error, not a lost container": (shell("kill -9 $$"), Ends(137, 9, "Error")),
    "both streams are in the log": (
        shell("echo a; sleep 0.2; echo b >&2"),
        Ends(0, None, "Completed", "a\nb\n"),
    ),
    "the last line needs no end": (shell("printf a"), Ends(0, None, "Completed", "a")),
    "the environment is what is asked for": (
        container("env", env={"PATH": "/usr/bin:/bin", "A": "b c"}),
        Ends(0, None, "Completed", f"PATH=/usr/bin:/bin\nA=b c\nSHOAL_RUN={POD}/main/0\n"),
    ),
    "the working directory is what is asked for": (
        container("pwd", cwd="/usr"),
        Ends(0, None, "Completed", "/usr\n"),
    ),
    "nothing is to be read, and nothing else is open": (
        shell("cat; ls /proc/self/fd"),
        Ends(0, None, "Completed", "0\n1\n2\n3\n"),
    ),
    "signals are as a program expects them": (
        shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | sed 's/.*\\(.......\\)$/\\1/'"),
        Ends(0, None, "Completed", "0000000\n0000000\n"),
    ),
    "it leads a session and a group": (
        shell("ps -o pid=,pgid=,sid= -p $$ | awk '{print ($1==$2 && $2==$3)}'"),
        Ends(0, None, "Completed", "1\n"),
    ),
    "a command that is not there": (
        container("no-such-command"),
        Ends(128, None, "StartError", "", 'exec: "no-such-command": executable file not found in $PATH'),
    ),
    "a path that is not there": (
        container("/no/such"),
        Ends(128, None, "StartError", "", 'exec: "/no/such": no such file or directory'),
    ),
    "a path that is no program": (
        container("/etc/passwd"),
        Ends(128, None, "StartError", "", 'exec: "/etc/passwd": permission denied'),
    ),
    "a directory that is not there": (
        container("true", cwd="/no/such"),
        Ends(
            128, None, "StartError", "", "cannot change to the directory /no/such: No such file or directory"
        ),
    ),
    "a volume that is not there": (
        container("true", mounts=[Mount("/no/such", "/mnt")]),
        Ends(
            128,
            None,
            "StartError",
            "",
            "cannot mount the container's volumes: No such file or directory (/no/such)",
        ),
    ),
    "whom the first process leaves behind is ended": (
        shell("(trap '' TERM HUP; setsid sleep 999) & sleep 0.2; echo a"),
        Ends(0, None, "Completed", "a\n"),
    ),
}


@pytest.mark.parametrize("spec, ends", ENDINGS.values(), ids=ENDINGS.keys())
async def test_ending(runtime: Runtime, spec: ContainerSpec, ends: Ends) -> None:
    run = await runtime.start(spec)
    end = await run.wait()
    assert Ends(end.code, end.signal, end.reason, await text(run), end.message) == ends
    assert (end.started is None) == (end.reason == "StartError")
    assert (end.started or 0) <= end.finished
    assert not alive()


class Stop(NamedTuple):
    """A command that writes a line when it is ready, and what becomes of it when it is told to stop."""

    spec: ContainerSpec
    grace: float
    code: int
    log: str


STOPS = {
    "SIGTERM ends it": Stop(shell("echo up; exec sleep 999"), 60, 143, "up\n"),
    "it may take its time": Stop(
        shell("trap 'sleep 0.3; echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done 2>/dev/null"),
        60,
        3,
        "up\nbye\n",
    ),
    "the whole group is told": Stop(
        shell(
            "sh -c 'trap \"echo child; exit\" TERM; echo up; while :; do sleep 0.01; done' 2>/dev/null & "
            "trap 'wait; exit 4' TERM; wait"
        ),
        60,
        4,
        "up\nchild\n",
    ),
    "who does not listen is killed after the grace": Stop(python(STUBBORN), 0.2, 137, "up\n"),
    "and so is whom it has hidden": Stop(
        shell(
            "setsid setsid sh -c 'trap \"\" TERM; sleep 999 & sleep 999' & trap '' TERM; echo up; sleep 999"
        ),
        0.2,
        137,
        "up\n",
    ),
    "no grace at all": Stop(python(STUBBORN), 0, 137, "up\n"),
}


@pytest.mark.parametrize("case", STOPS.values(), ids=STOPS.keys())
async def test_stopping(runtime: Runtime, case: Stop) -> None:
    run = await runtime.start(case.spec)
    await ready(run)
    run.stop(case.grace)
    end = await run.wait()
    assert (end.code, await text(run)) == (case.code, case.log)
    assert not alive()


async def test_a_later_stop_can_hurry_and_never_delay(runtime: Runtime) -> None:
    run = await runtime.start(python(STUBBORN))
    await ready(run)
    for grace in (3600, 0.1, 3600):
        run.stop(grace)
    assert (await run.wait()).code == 137


async def test_a_second_stop_sends_no_second_signal(runtime: Runtime) -> None:
    run = await runtime.start(python(NOTICING))
    await ready(run)
    run.stop(3600)
    lines = run.log.read(follow=True)
    async for piece in lines:
        if b"told" in piece:
            break
    run.stop(3000)
    run.stop(0.1)
    await run.wait()
    assert await text(run) == "up\ntold\n"


async def test_what_is_stopped_before_it_has_started_ends(runtime: Runtime) -> None:
    starting = asyncio.create_task(runtime.start(shell("sleep 999")))
    await eventually(lambda: runtime.runs(POD))
    runtime.runs(POD)[0].stop(30)
    assert (await (await starting).wait()).code == 143


async def test_a_signal_from_somebody_else_has_the_grace_of_the_container(runtime: Runtime) -> None:
    run = await runtime.start(python(STUBBORN, grace=0.1))
    await ready(run)
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


async def test_many_at_once(runtime: Runtime) -> None:
    specs = [shell(f"exit {number}", container=f"c{number:02}") for number in range(40)]
    runs = await asyncio.gather(*map(runtime.start, specs))
    assert [(await run.wait()).code for run in runs] == list(range(40))
    assert [run.spec.container for run in runtime.runs(POD)] == [spec.container for spec in specs]


async def test_a_pod_is_removed_once_nothing_of_it_lives(runtime: Runtime) -> None:
    run = await runtime.start(shell("sleep 999"))
    assert runtime.pods() == {POD}
    with pytest.raises(RuntimeError):
        await runtime.remove(POD)
    assert run.pid in alive()
    await clear(runtime, POD)
    assert runtime.pods() == set()
    assert runtime.runs(POD) == []
    await (await runtime.start(container("true"))).wait()


async def test_others_cannot_read_what_is_kept(runtime: Runtime) -> None:
    run = await runtime.start(shell("echo secret"))
    await run.wait()
    files = list(run.directory.path.iterdir())
    assert {path.stat().st_mode & 0o077 for path in [*files, run.directory.path]} == {0}


# --- what root can give ------------------------------------------------------------------------------------


@ROOT
async def test_limits_and_what_is_used(runtime: Runtime) -> None:
    if not runtime.features.cgroups:
        pytest.skip("no cgroups here")
    hungry = "import time; x = bytearray(64 << 20); print('up', flush=True); time.sleep(1e4)"
    run = await runtime.start(python(hungry, limits=Limits(memory=256 << 20)))
    await ready(run)
    used = run.usage()
    assert used
    assert used.memory >= 64 << 20
    assert used.cpu > 0
    greedy = await runtime.start(python(hungry, container="greedy", limits=Limits(0.5, 32 << 20)))
    end = await greedy.wait()
    assert (end.code, end.signal, end.reason) == (137, 9, "OOMKilled")
    assert greedy.usage() is None


async def test_what_is_used_is_added_up_where_there_are_no_cgroups(runtime: Runtime) -> None:
    runtime._cgroups._bases = ()
    hungry = "x = bytearray(64 << 20); print('up', flush=True); input()"
    run = await runtime.start(shell(f'sleep 999 | setsid python3 -c "{hungry}"'))
    await ready(run)
    used = run.usage()
    assert used
    assert used.memory >= 64 << 20
    assert used.cpu > 0


@ROOT
async def test_another_user(runtime: Runtime) -> None:
    spec = shell("id -u; id -g; id -G", user=65534, group=65533, groups=[65532])
    assert await output(runtime, spec) == "65534\n65533\n65533 65532\n"


MOUNTS = {
    "over what is there": (["a:/etc/hosts"], "cat /etc/hosts", "a\n"),
    "a directory where there is none": (["d:/srv/no/such"], "ls /srv/no/such", "in-d\n"),
    "at the top": (["d:/no-such/deep"], "ls /no-such/deep; cat /etc/hostname | wc -l", "in-d\n1\n"),
    "a file where there is none": (
        ["a:/etc/no/such/file"],
        "cat /etc/no/such/file; test -e /etc/passwd",
        "a\n",
    ),
    "two in one new place": (
        ["d:/no-such/x", "a:/no-such/y"],
        "ls /no-such /no-such/x; cat /no-such/y",
        "/no-such:\nx\ny\n\n/no-such/x:\nin-d\na\n",
    ),
    "one inside another": (["d:/mnt", "a:/mnt/in-d"], "cat /mnt/in-d; ls /mnt", "a\nin-d\n"),
    "what is written arrives": (["d:/no-such"], "echo x > /no-such/new", ""),
    "read-only is read-only": (
        ["d:/no-such:ro"],
        "touch /no-such/x 2>/dev/null || echo refused",
        "refused\n",
    ),
    "its neighbours stay as they are": (
        ["a:/usr/no-such"],
        "ls /usr/bin | wc -l; ls -ld /usr/lib/.. | cut -c1-10",
        None,
    ),
}


def on_the_host(path: str) -> bool:
    return Path(path).exists()


@ROOT
@pytest.mark.parametrize("mounts, script, wrote", MOUNTS.values(), ids=MOUNTS.keys())
async def test_mounts(
    runtime: Runtime, tmp_path: Path, mounts: list[str], script: str, wrote: str | None
) -> None:
    tmp_path.joinpath("a").write_text("a\n")
    tmp_path.joinpath("d").mkdir()
    tmp_path.joinpath("d", "in-d").touch()
    asked = [mount.split(":") for mount in mounts]
    made = [Mount(str(tmp_path / source), target, bool(more)) for source, target, *more in asked]
    expected = await output(runtime, shell(script, container="plain")) if wrote is None else wrote
    assert await output(runtime, shell(script, mounts=made)) == expected
    assert tmp_path.joinpath("d", "new").exists() == ("new" in script)
    assert not any(on_the_host(target) for _, target, *_ in asked if "no" in target)
