"""Container logs through the API, with kubectl and with HTTP clients."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.http.pods import Playground, kubectl, playground, wait_until

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|\+00:00)"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with playground(tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="module")
def written(ground: Playground) -> str:
    """A namespace with a pod whose containers have written logs and terminated; the first has run twice."""
    ground.api.client().create("/api/v1/namespaces", {"metadata": {"name": "written"}})
    ground.pod("written", "two", "echo first", "echo other")
    again = ground.run("written", "two", "a", "echo one; echo two; echo three")
    for run in (again, ground.kubelet.find_run("written", "two", "b")):
        ground.ended(run)
    return "written"


OF_A = "".join(rf"\[pod/two/a\] {line}\n" for line in ("one", "two", "three"))
OF_B = r"\[pod/two/b\] other\n"
"""kubectl reads containers in any order."""

READINGS = {
    "logs two": "one\ntwo\nthree\n",
    "logs two -c b": "other\n",
    "logs two --tail=2": "two\nthree\n",
    "logs two --tail=0": "",
    "logs two --previous": "first\n",
    "logs two -f": "one\ntwo\nthree\n",
    "logs two --limit-bytes=5": "one\nt",
    "logs two --since=1h": "one\ntwo\nthree\n",
    "logs two --since-time=2100-01-01T00:00:00Z": "",
    "logs two --since-time=2020-01-01T00:00:00+02:00 --tail=1": "three\n",
    "logs two --timestamps": f"{TIME} one\n{TIME} two\n{TIME} three\n",
    "logs two --all-containers": "(one\ntwo\nthree\nother|other\none\ntwo\nthree)\n",
    "logs two --all-containers --prefix": f"({OF_A}{OF_B}|{OF_B}{OF_A})",
    "logs -l app=x -c b": "other\n",
    "logs -l app=y": "",
}


@pytest.mark.parametrize("command", READINGS)
def test_kubectl_reads(ground: Playground, written: str, command: str) -> None:
    done = ground.api.kubectl("-n", written, *command.split())
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(READINGS[command], done.stdout), done.stdout


REFUSALS = {
    "logs two --previous -c b": 'previous terminated container "b" in pod "two" not found',
    "logs two -c nope": "container nope is not valid for pod two",
    "get --raw /api/v1/namespaces/written/pods/two/log": "choose one of: [a b]",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&sinceSeconds=0": "must be greater than 0",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&limitBytes=0": "must be greater than 0",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&tailLines=-1": "tailLines must be",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&sinceTime=noon": "sinceTime must be",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&stream=Stdout": "stored in one log",
    "get --raw /api/v1/namespaces/written/pods/two/log?container=a&sinceTime=2026-01-01T00:00:00Z"
    "&sinceSeconds=1": "is forbidden with sinceSeconds",
}


@pytest.mark.parametrize("command", REFUSALS)
def test_kubectl_is_refused(ground: Playground, written: str, command: str) -> None:
    done = ground.api.kubectl("-n", written, *command.split())
    assert done.returncode == 1
    assert REFUSALS[command] in done.stderr


def test_followed_logs_stream_lines_as_they_are_written(ground: Playground, written: str) -> None:
    waiting = "until [ -e go ]; do sleep 0.01; done"
    ground.pod(written, "slow", f"echo before; {waiting}; echo after")
    with follower(ground, written, "slow") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        (ground.place / "go").touch()
        assert following.stdout.read() == "after\n"
    assert following.returncode == 0


def test_log_files_are_closed_when_followers_disconnect(ground: Playground, written: str) -> None:
    ground.pod(written, "endless", "echo here; touch running; exec sleep 1000")
    wait_until((ground.place / "running").exists, "the container runs")
    before = open_files(ground)
    with follower(ground, written, "endless") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "here\n"
        assert open_files(ground) > before
        following.kill()
    wait_until(lambda: open_files(ground) <= before, "the log is closed")


def test_many_followers_do_not_block_other_requests(ground: Playground, written: str) -> None:
    ground.pod(written, "popular", "echo one; until [ -e enough ]; do sleep 0.01; done; echo two")
    followers = [follower(ground, written, "popular") for _ in range(8)]
    for following in followers:
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"
    assert ground.api.ask("GET", f"/api/v1/namespaces/{written}/pods").code == 200
    (ground.place / "enough").touch()
    for following in followers:
        with following:
            assert following.stdout is not None
            assert following.stdout.read() == "two\n"


def follower(ground: Playground, space: str, pod: str) -> subprocess.Popen[str]:
    """A running `kubectl logs -f`."""
    command = kubectl(ground, "-n", space, "logs", "-f", pod)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command


def open_files(ground: Playground) -> int:
    """Number of open files of the home in this process, which the API is part of."""
    home = str(ground.place.parent / "home")
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += str(link.readlink()).startswith(home)
        except FileNotFoundError:
            continue
    return found
