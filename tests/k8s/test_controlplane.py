"""The control plane starts, restarts with its data, reports failures, and leaves no processes behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.k8s import assets
from tests.k8s.access import UNPRIVILEGED, Client
from tests.k8s.controlplane import ControlPlane, control_plane
from tests.k8s.fixtures import need_assets, new_namespace
from tests.k8s.processes import until

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, pathlib
from tests.k8s.controlplane import control_plane
with control_plane(pathlib.Path(sys.argv[1])) as plane:
    print(*(process.pid for process in plane.processes), flush=True)
    sys.stdin.read()
"""
"""A program that holds a control plane until it is killed."""


def processes_of(directory: Path) -> list[str]:
    """The command lines that name a directory, of all processes of the machine but this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if str(directory) in command and int(entry.name) != os.getpid():
            found.append(command)
    return found


def test_it_has_the_pinned_version(k8s: ControlPlane) -> None:
    if os.environ.get(assets.ASSETS_VARIABLE):
        pytest.skip(f"{assets.ASSETS_VARIABLE} may have any version")
    reported = json.loads(k8s.kubectl("version", "-o", "json").stdout)
    assert {reported[side]["gitVersion"] for side in ("clientVersion", "serverVersion")} == {assets.version()}


def test_users_are_authenticated_and_only_the_administrator_has_rights(k8s: ControlPlane) -> None:
    assert k8s.client().call("GET", "/api/v1/nodes")[0] == 200
    code, refused = k8s.client(UNPRIVILEGED).call("GET", "/api/v1/nodes")
    assert (code, refused["message"].split(" cannot ")[0]) == (403, 'nodes is forbidden: User "nobody"')
    unknown = Client(k8s.url, "no-such-token", k8s.client().tls)
    assert unknown.call("GET", "/api/v1/nodes")[0] == 401


def test_rights_can_be_granted(k8s: ControlPlane, namespace: str) -> None:
    can_i = ("auth", "can-i", "create", "tyjobs.tyrl.io", "-n", namespace)
    assert k8s.kubectl(*can_i, user="alice").stdout == "no\n"
    k8s.kubectl("create", "role", "jobs", "--verb=create", "--resource=tyjobs.tyrl.io", "-n", namespace)
    k8s.kubectl("create", "rolebinding", "jobs", "--role=jobs", "--group=team-a", "-n", namespace)
    until(lambda: k8s.kubectl(*can_i, user="alice").stdout == "yes\n", "alice has her right")
    assert k8s.kubectl(*can_i, user="bob").stdout == "no\n"


@pytest.mark.parametrize("name", ["etcd", "api_server"])
def test_a_restart_keeps_data_and_address(k8s: ControlPlane, namespace: str, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = k8s.client().create(path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    process = getattr(k8s, name)
    before, pid = k8s.url, process.pid
    k8s.restart(process)
    assert k8s.client().get(f"{path}/kept") == made
    assert k8s.url == before
    assert process.pid != pid
    assert k8s.client().call("POST", path, {"metadata": {"name": "new"}})[0] == 201


def test_the_api_server_is_not_ready_while_it_is_stopped(k8s: ControlPlane) -> None:
    k8s.api_server.stop()
    try:
        assert not k8s.client().ready()
    finally:
        k8s.api_server.start()
        k8s.wait_until_ready()


def test_controllers_create_and_delete_pods(k8s_controllers: ControlPlane) -> None:
    namespace = new_namespace(k8s_controllers)
    client, pods = k8s_controllers.client(), f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "two"}, "spec": {"parallelism": 2, "completions": 2, "template": template}}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    client.create(jobs, job)
    until(lambda: len(client.get(pods)["items"]) == 2, "the Job has its pods")
    client.call("DELETE", f"{jobs}/two?propagationPolicy=Background")
    until(lambda: not client.get(pods)["items"], "the pods went with their Job")


def test_a_failed_start_shows_the_log_and_leaves_no_processes(tmp_path: Path) -> None:
    need_assets("etcd", "kube-apiserver", "kubectl")
    message = r"(?s)kube-apiserver died before the API server is ready.*unknown flag: --no-such-flag"
    with (
        pytest.raises(RuntimeError, match=message),
        control_plane(tmp_path, api_server_flags=["--no-such-flag"]),
    ):
        pass
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "ends"])
def test_processes_end_with_the_process_that_started_them(tmp_path: Path, how: signal.Signals | None) -> None:
    need_assets("etcd", "kube-apiserver", "kubectl")
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        pids = holder.stdout.readline().split()
        assert len(pids) == 2
        assert len(processes_of(tmp_path)) == 3
        if how is None:
            holder.stdin.close()
        else:
            holder.send_signal(how)
    until(lambda: not processes_of(tmp_path), "all processes are gone")
    assert (tmp_path / "etcd.log").exists()
