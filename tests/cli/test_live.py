"""Commands with a living home behind them: pods that run, write, end and are sent away."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.daemon import up
from tests.cli.inside import Done, inside
from tests.cli.running import SHOAL, SHOAL_IN_SHELL, run, shell

PATIENCE = "120s"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("live") / "home"
    with up(place):
        yield place


def shoal(home: Path, command: str, *more: str, stdin: str = "") -> Done:
    return inside(*command.split(), *more, "--home", str(home), stdin=stdin)


def done(home: Path, command: str, *more: str, stdin: str = "") -> str:
    """What a command that must succeed prints."""
    answer = shoal(home, command, *more, stdin=stdin)
    assert answer.code == 0, answer
    return answer.out


def pod(name: str, script: str, **more: object) -> str:
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **more}
    thing = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    }
    return json.dumps(thing)


def job(name: str, script: str, pods: int) -> str:
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completions": pods, "parallelism": pods, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


@pytest.fixture
def web(home: Path) -> Iterator[str]:
    """A pod that has said something and goes on."""
    done(home, "apply -f -", stdin=pod("web", "echo one; echo two; echo three; sleep 3600"))
    done(home, f"wait pod/web --for=condition=Ready --timeout={PATIENCE}")
    yield "web"
    done(home, "delete pod web --grace-period=1")


# --- logs --------------------------------------------------------------------------------------------------


def test_logs_of_a_job_are_followed_until_it_ends(home: Path) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.2; done"
    done(home, "create -f -", stdin=job("followed", script, pods=3))
    lines = followed(home, "job/followed")
    wanted = sorted(f"[followed-{worker}] line {i}" for worker in range(3) for i in (1, 2, 3))
    assert sorted(lines) == wanted
    for worker in range(3):
        mine = [line for line in lines if line.startswith(f"[followed-{worker}]")]
        assert mine == sorted(mine)


def test_logs_of_a_job_that_has_ended_are_in_the_order_of_time(home: Path) -> None:
    done(home, "create -f -", stdin=job("ended", "echo begun; sleep 0.3; echo over", pods=2))
    done(home, f"wait job/ended --for=condition=Complete --timeout={PATIENCE}")
    stamped = done(home, "logs job/ended --timestamps").splitlines()
    times = [line.split()[1] for line in stamped]
    assert times == sorted(times)
    for lines in (done(home, "logs job/ended").splitlines(), followed(home, "job/ended")):
        assert sorted(lines) == ["[ended-0] begun", "[ended-0] over", "[ended-1] begun", "[ended-1] over"]


def followed(home: Path, job: str) -> list[str]:
    """What `shoal logs -f` prints until it ends; a process of its own, for its threads end with it."""
    ended = run([*SHOAL, "logs", job, "-f", "--home", str(home)])
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


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


def test_what_is_asked_of_a_log(home: Path, web: str) -> None:
    assert web
    assert {command: done(home, command) for command in LOGS} == LOGS


@pytest.mark.parametrize(
    "command, said",
    [
        ("logs nope", 'Error from server (NotFound): pods "nope" not found'),
        ("logs web -c nope", "container nope is not valid for pod web"),
        ("logs web --previous", 'previous terminated container "c" in pod "web" not found'),
        ("logs nopes/web", 'the server doesn\'t have a resource type "nopes"'),
    ],
)
def test_logs_that_there_are_not(home: Path, web: str, command: str, said: str) -> None:
    assert web
    answer = shoal(home, command)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


# --- exec --------------------------------------------------------------------------------------------------


def execute(home: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*SHOAL, "exec", "--home", str(home), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)  # noqa: S603


def test_a_command_ends_as_it_ends_there(home: Path, web: str) -> None:
    ended = execute(home, web, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ended.returncode, ended.stdout) == (7, b"out\n")
    assert ended.stderr == b"err\ncommand terminated with exit code 7\n"


def test_what_is_put_in_comes_out(home: Path, web: str) -> None:
    text = os.urandom(300_000)
    assert execute(home, "-i", web, "-c", "c", "--", "cat", stdin=text).stdout == text


def test_who_has_no_input_puts_nothing_in(home: Path, web: str) -> None:
    ended = shell(f"{SHOAL_IN_SHELL} exec --home '{home}' -i {web} -- sh -c 'cat; echo end' <&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")


def test_a_command_has_a_terminal(home: Path, web: str) -> None:
    """Ctrl-C is the command's, and the size is told."""
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


def test_who_cannot_be_run_is_said(home: Path, web: str) -> None:
    assert execute(home, web, "--", "nope-nope").returncode == 127
    assert b'pods "gone" not found' in execute(home, "gone", "--", "true").stderr


# --- top ---------------------------------------------------------------------------------------------------


def test_what_is_used(home: Path, web: str) -> None:
    assert web
    nodes = done(home, "top nodes").splitlines()
    assert nodes[0].split() == ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    assert len(nodes) == 2
    pods = done(home, "top pods --containers").splitlines()
    assert pods[0].split() == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert ["web", "c"] in [line.split()[:2] for line in pods]
    assert shoal(home, "top node nope").code == 1


def test_pools_with_what_is_really_used(home: Path) -> None:
    drawn = inside("top", "pools", "--usage", "--home", str(home)).out
    assert "ALLOCATABLE" in drawn
    assert "CPU(used)" in drawn


# --- describe, events, explain, scale, drain ---------------------------------------------------------------


def test_a_job_is_described_with_its_pods_and_what_happened(home: Path) -> None:
    done(home, "create -f -", stdin=job("told", "echo hello", pods=2))
    done(home, f"wait job/told --for=condition=Complete --timeout={PATIENCE}")
    told = done(home, "describe job/told")
    assert [line for line in told.splitlines() if line.startswith("Name:")] == ["Name:         told"]
    for part in ("told-0", "told-1", "Complete", "Succeeded", "Events:"):
        assert part in told
    assert "Pod/told-0" in done(home, "events --for pod/told-0")


def test_a_pod_that_waits_is_explained(home: Path) -> None:
    container = {"name": "c", "image": "i", "command": ["true"], "resources": {"requests": {"cpu": "1000"}}}
    done(home, "create -f -", stdin=pod("greedy", "true", containers=[container]))
    try:
        explained = inside("explain", "greedy", "--home", str(home), "-n", "default", "-o", "json")
        assert explained.code == 0
        assert json.loads(explained.out)["job"] == "Pod/default/greedy"
    finally:
        done(home, "delete pod greedy")


def test_a_job_is_scaled(home: Path) -> None:
    done(home, "create -f -", stdin=job("scaled", "sleep 3600", pods=2))
    try:
        assert done(home, "scale job/scaled --replicas=1") == "job.batch/scaled scaled\n"
        assert done(home, "get job scaled -o jsonpath={.spec.parallelism}") == "1"
    finally:
        done(home, "delete job scaled")


def test_a_node_is_drained_when_the_budget_lets_go(home: Path, web: str) -> None:
    assert web
    name = done(home, "get nodes -o jsonpath={.items[0].metadata.name}")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    done(home, "create -f -", stdin=json.dumps(budget))
    try:
        refused = shoal(home, f"drain {name} --force --timeout=1s")
        assert refused.code == 1
        assert "default/web could not be evicted in time" in refused.err
        done(home, "delete pdb keep")
        drained = done(home, f"drain {name} --force --timeout={PATIENCE}")
        assert drained.endswith(f"pod/web evicted\nnode/{name} drained\n")
    finally:
        done(home, "delete pdb keep --ignore-not-found")
        done(home, f"uncordon {name}")
        done(home, "apply -f -", stdin=pod("web", "sleep 3600"))


# --- endings -----------------------------------------------------------------------------------------------


def test_a_watch_shows_changes_and_ends_with_ctrl_c(home: Path) -> None:
    command = [*SHOAL, "get", "cm", "-w", "--home", str(home), "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:  # noqa: S603
        assert watching.stdout
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}}
        done(home, "create -f -", stdin=json.dumps(thing))
        assert watching.stdout.readline().split()[:2] == ["seen", "0"]
        done(home, "delete cm seen")
        assert watching.stdout.readline().split()[:2] == ["seen", "0"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
        assert watching.stderr
        assert watching.stderr.read().strip() == ""


def test_a_reader_that_goes_is_no_news(home: Path) -> None:
    script = f"'{SHOAL[0]}' -c '{SHOAL[2]}' get ns -o json --home '{home}' | head -c 1"
    ended = subprocess.run(["/bin/sh", "-c", script], capture_output=True, timeout=120, check=False)  # noqa: S603
    assert (ended.stdout, ended.stderr) == (b"{", b"")


def test_a_home_that_is_not_running_is_said_in_one_line(tmp_path: Path) -> None:
    with up(tmp_path / "home"):
        pass
    answer = shoal(tmp_path / "home", "get pods")
    assert (answer.code, answer.out) == (1, "")
    assert "is not running" in answer.err
    assert answer.err.endswith("`shoal up -d` starts it\n")
    assert answer.err.count("\n") == 1


# --- watch -------------------------------------------------------------------------------------------------


def test_watch_without_a_terminal_is_one_picture(home: Path, web: str) -> None:
    picture = run([*SHOAL, "watch", "--home", str(home)]).stdout
    assert "█ at home" in picture
    assert any(line.split()[:2] == [web, "default"] for line in picture.splitlines()), picture


def test_watch_until_idle_tells_what_happens_and_ends(home: Path) -> None:
    done(home, "create -f -", stdin=job("watched", "sleep 0.2", pods=2))
    told = run([*SHOAL, "watch", "--until-idle", "--home", str(home)]).stdout
    assert "Completed job/watched: Job completed" in told
    assert any(line.split()[:3] == ["watched", "default", "2/2"] for line in told.splitlines()), told
