"""Commands against a running embedded cluster: logs, exec, top, describe, drain, watch."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.daemon import up
from tests.cli.in_process import Result, invoke
from tests.cli.process import SHOAL, SHOAL_IN_SHELL, run, shell

TIMEOUT = "120s"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("live") / "home"
    with up(place):
        yield place


def shoal(home: Path, command: str, *more: str, stdin: str = "") -> Result:
    return invoke(*command.split(), *more, "--home", str(home), stdin=stdin)


def succeed(home: Path, command: str, *more: str, stdin: str = "") -> str:
    """Run a command that must succeed; its output."""
    result = shoal(home, command, *more, stdin=stdin)
    assert result.code == 0, result
    return result.out


def pod(name: str, script: str, **more: object) -> str:
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **more}
    config_map = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    }
    return json.dumps(config_map)


def job(name: str, script: str, pods: int) -> str:
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completions": pods, "parallelism": pods, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


@pytest.fixture
def web(home: Path) -> Iterator[str]:
    """A running pod with three lines in its log."""
    succeed(home, "apply -f -", stdin=pod("web", "echo one; echo two; echo three; sleep 3600"))
    succeed(home, f"wait pod/web --for=condition=Ready --timeout={TIMEOUT}")
    yield "web"
    succeed(home, "delete pod web --grace-period=1")


# --- logs --------------------------------------------------------------------------------------------------


def test_logs_follows_a_job_until_it_finishes(home: Path) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.2; done"
    succeed(home, "create -f -", stdin=job("followed", script, pods=3))
    lines = follow_logs(home, "job/followed")
    wanted = sorted(f"[followed-{worker}] line {i}" for worker in range(3) for i in (1, 2, 3))
    assert sorted(lines) == wanted
    for worker in range(3):
        mine = [line for line in lines if line.startswith(f"[followed-{worker}]")]
        assert mine == sorted(mine)


def test_logs_of_a_finished_job_are_merged_by_time(home: Path) -> None:
    succeed(home, "create -f -", stdin=job("ended", "echo begun; sleep 0.3; echo over", pods=2))
    succeed(home, f"wait job/ended --for=condition=Complete --timeout={TIMEOUT}")
    stamped = succeed(home, "logs job/ended --timestamps").splitlines()
    times = [line.split()[1] for line in stamped]
    assert times == sorted(times)
    for lines in (succeed(home, "logs job/ended").splitlines(), follow_logs(home, "job/ended")):
        assert sorted(lines) == ["[ended-0] begun", "[ended-0] over", "[ended-1] begun", "[ended-1] over"]


def follow_logs(home: Path, job: str) -> list[str]:
    """The output of `shoal logs -f`, in a separate process, because its threads end only with it."""
    finished = run([*SHOAL, "logs", job, "-f", "--home", str(home)])
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines()


LOGS = {
    "logs web": "one\ntwo\nthree\n",
    "logs pod/web": "one\ntwo\nthree\n",
    "logs web c": "one\ntwo\nthree\n",
    "logs web -c c --tail=1": "three\n",
    "logs web --tail=0": "",
    "logs web --limit-bytes=5": "one\nt",
    "logs web --prefix --tail=1": "[web] three\n",
    "logs -l app=web": "one\ntwo\nthree\n",
    "logs web --since=1h": "one\ntwo\nthree\n",
}


def test_log_options(home: Path, web: str) -> None:
    assert web
    assert {command: succeed(home, command) for command in LOGS} == LOGS


@pytest.mark.parametrize(
    "command, message",
    [
        ("logs nope", 'Error from server (NotFound): pods "nope" not found'),
        ("logs web -c nope", "container nope is not valid for pod web"),
        ("logs web --previous", 'previous terminated container "c" in pod "web" not found'),
        ("logs nopes/web", 'the server doesn\'t have a resource type "nopes"'),
    ],
)
def test_log_errors(home: Path, web: str, command: str, message: str) -> None:
    assert web
    result = shoal(home, command)
    assert (result.code, result.out) == (1, "")
    assert message in result.err


# --- exec --------------------------------------------------------------------------------------------------


def execute(home: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*SHOAL, "exec", "--home", str(home), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)  # noqa: S603


def test_exec_returns_output_and_exit_code(home: Path, web: str) -> None:
    finished = execute(home, web, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (finished.returncode, finished.stdout) == (7, b"out\n")
    assert finished.stderr == b"err\ncommand terminated with exit code 7\n"


def test_exec_forwards_stdin(home: Path, web: str) -> None:
    text = os.urandom(300_000)
    assert execute(home, "-i", web, "-c", "c", "--", "cat", stdin=text).stdout == text


def test_exec_with_closed_stdin(home: Path, web: str) -> None:
    finished = shell(f"{SHOAL_IN_SHELL} exec --home '{home}' -i {web} -- sh -c 'cat; echo end' <&-")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "end\n", "")


def test_exec_with_a_terminal(home: Path, web: str) -> None:
    """The command receives Ctrl-C, and the size of the terminal."""
    ours, theirs = pty.openpty()
    command = [*SHOAL, "exec", "--home", str(home), "-it", web, "--", "sh", "-c", "tty && echo ready && cat"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as running:  # noqa: S603 - our own command
        assert running.stdout
        assert running.stdout.readline().startswith(b"/dev/pts/")
        assert running.stdout.readline().strip() == b"ready"
        os.write(ours, b"\x03")
        assert running.wait(60) == 130
    for end in (ours, theirs):
        os.close(end)


def test_exec_errors(home: Path, web: str) -> None:
    assert execute(home, web, "--", "nope-nope").returncode == 127
    assert b'pods "gone" not found' in execute(home, "gone", "--", "true").stderr


# --- top ---------------------------------------------------------------------------------------------------


def test_top_nodes_and_pods(home: Path, web: str) -> None:
    assert web
    nodes = succeed(home, "top nodes").splitlines()
    assert nodes[0].split() == ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    assert len(nodes) == 2
    pods = succeed(home, "top pods --containers").splitlines()
    assert pods[0].split() == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert ["web", "c"] in [line.split()[:2] for line in pods]
    assert shoal(home, "top node nope").code == 1


def test_top_pools_with_usage(home: Path) -> None:
    output = invoke("top", "pools", "--usage", "--home", str(home)).out
    assert "ALLOCATABLE" in output
    assert "CPU(used)" in output


# --- describe, events, explain, scale, drain ---------------------------------------------------------------


def test_describe_job_shows_pods_and_events(home: Path) -> None:
    succeed(home, "create -f -", stdin=job("described", "echo hello", pods=2))
    succeed(home, f"wait job/described --for=condition=Complete --timeout={TIMEOUT}")
    output = succeed(home, "describe job/described")
    assert [line for line in output.splitlines() if line.startswith("Name:")] == ["Name:         described"]
    for part in ("described-0", "described-1", "Complete", "Succeeded", "Events:"):
        assert part in output
    assert "Pod/described-0" in succeed(home, "events --for pod/described-0")


def test_explain_waiting_pod(home: Path) -> None:
    container = {"name": "c", "image": "i", "command": ["true"], "resources": {"requests": {"cpu": "1000"}}}
    succeed(home, "create -f -", stdin=pod("greedy", "true", containers=[container]))
    try:
        explained = invoke("explain", "greedy", "--home", str(home), "-n", "default", "-o", "json")
        assert explained.code == 0
        assert json.loads(explained.out)["job"] == "Pod/default/greedy"
    finally:
        succeed(home, "delete pod greedy")


def test_scale_job(home: Path) -> None:
    succeed(home, "create -f -", stdin=job("scaled", "sleep 3600", pods=2))
    try:
        assert succeed(home, "scale job/scaled --replicas=1") == "job.batch/scaled scaled\n"
        assert succeed(home, "get job scaled -o jsonpath={.spec.parallelism}") == "1"
    finally:
        succeed(home, "delete job scaled")


def test_drain_waits_for_the_disruption_budget(home: Path, web: str) -> None:
    assert web
    name = succeed(home, "get nodes -o jsonpath={.items[0].metadata.name}")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    succeed(home, "create -f -", stdin=json.dumps(budget))
    try:
        refused = shoal(home, f"drain {name} --force --timeout=1s")
        assert refused.code == 1
        assert "default/web could not be evicted in time" in refused.err
        succeed(home, "delete pdb keep")
        drained = succeed(home, f"drain {name} --force --timeout={TIMEOUT}")
        assert drained.endswith(f"pod/web evicted\nnode/{name} drained\n")
    finally:
        succeed(home, "delete pdb keep --ignore-not-found")
        succeed(home, f"uncordon {name}")
        succeed(home, "apply -f -", stdin=pod("web", "sleep 3600"))


# --- interruptions and errors ------------------------------------------------------------------------------


def test_get_watch_prints_changes_until_ctrl_c(home: Path) -> None:
    command = [*SHOAL, "get", "cm", "-w", "--home", str(home), "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:  # noqa: S603
        assert watching.stdout
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}}
        succeed(home, "create -f -", stdin=json.dumps(config_map))
        assert watching.stdout.readline().split()[:2] == ["seen", "0"]
        succeed(home, "delete cm seen")
        assert watching.stdout.readline().split()[:2] == ["seen", "0"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
        assert watching.stderr
        assert watching.stderr.read().strip() == ""


def test_a_closed_pipe_is_no_error(home: Path) -> None:
    script = f"'{SHOAL[0]}' -c '{SHOAL[2]}' get ns -o json --home '{home}' | head -c 1"
    finished = subprocess.run(["/bin/sh", "-c", script], capture_output=True, timeout=120, check=False)  # noqa: S603
    assert (finished.stdout, finished.stderr) == (b"{", b"")


def test_error_of_a_stopped_home_is_one_line(tmp_path: Path) -> None:
    with up(tmp_path / "home"):
        pass
    result = shoal(tmp_path / "home", "get pods")
    assert (result.code, result.out) == (1, "")
    assert "is not running" in result.err
    assert result.err.endswith("`shoal up -d` starts it\n")
    assert result.err.count("\n") == 1


# --- watch -------------------------------------------------------------------------------------------------


def test_watch_without_a_terminal_prints_once(home: Path, web: str) -> None:
    output = run([*SHOAL, "watch", "--home", str(home)]).stdout
    assert "█ at home" in output
    assert any(line.split()[:2] == [web, "default"] for line in output.splitlines()), output


def test_watch_until_idle_prints_events_and_exits(home: Path) -> None:
    succeed(home, "create -f -", stdin=job("watched", "sleep 0.2", pods=2))
    output = run([*SHOAL, "watch", "--until-idle", "--home", str(home)]).stdout
    assert "Completed job/watched: Job completed" in output
    assert any(line.split()[:3] == ["watched", "default", "2/2"] for line in output.splitlines()), output
