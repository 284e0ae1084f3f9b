"""Several `shoal manager` on a real API server, with the rights of examples/kubernetes/rbac.yaml and no more.

The audit log of the API server tells which manager has written, and which rights were missing.
"""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import builders
from tests.cli.process import SHOAL
from tests.k8s.access import ADMIN
from tests.k8s.controlplane import ControlPlane, control_plane
from tests.k8s.fixtures import install_crds, need_assets
from tests.k8s.processes import until

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "examples" / "kubernetes" / "rbac.yaml"
GROUP = "shoal:managers"
USERS = {ADMIN: ("system:masters",), **dict.fromkeys(("manager-a", "manager-b", "limited"), (GROUP,))}
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
TIMES = ("--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s")
READS = ("get", "list", "watch")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with an audit log, our CRDs, and the roles of the example, bound to a group of users."""
    need_assets("etcd", "kube-apiserver", "kubectl")
    directory = tmp_path_factory.mktemp("k8s-managers")
    policy = directory / "audit.yaml"
    policy.write_text(json.dumps(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={directory / 'audit.log'}")
    with control_plane(directory, users=USERS, api_server_flags=flags) as plane:
        install_crds(plane)
        grant(plane, bound_to_group())
        plane.client().create("/api/v1/nodes", builders.node("n1", cpu=64))
        yield plane


def grant(plane: ControlPlane, roles: Sequence[Object]) -> None:
    applied = plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
    assert applied.returncode == 0, applied.stderr


def bound_to_group(*without: str) -> list[Object]:
    """The objects of the example, bound to the group instead of the service account."""
    objects = list(yaml.safe_load_all(RBAC.read_text()))
    for one in objects:
        if "subjects" in one:
            one["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}]
        if "rules" in one:
            one["rules"] = [rule for rule in one["rules"] if not set(without) & set(rule["resources"])]
    return objects


class RunningManager:
    """A `shoal manager` process with its log."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process, self.log = process, log

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        until(lambda: self.text().count(text) >= times, f"{text!r} in the log", explain=self.text)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextlib.contextmanager
def managing(plane: ControlPlane, user: str, log: Path, *options: str) -> Iterator[RunningManager]:
    command = [*SHOAL, "manager", "--kubeconfig", str(plane.kubeconfig(user)), *TIMES, *options]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:  # noqa: S603 - our own
        try:
            yield RunningManager(process, log)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait()


def submit(plane: ControlPlane, name: str) -> None:
    plane.client().create("/api/v1/namespaces/default/pods", builders.pod(name, cpu=1))


def wait_until_bound(plane: ControlPlane, name: str, *managers: RunningManager) -> None:
    def bound() -> bool:
        pod = plane.client().get(f"/api/v1/namespaces/default/pods/{name}")
        return bool(pod["spec"].get("nodeName"))

    until(bound, f"{name} is bound", explain=lambda: "\n".join(one.text() for one in managers))


def audited(plane: ControlPlane, *users: str) -> list[Object]:
    """The requests of users, in the order in which they were completed."""
    lines = (plane.directory / "audit.log").read_text().splitlines()
    events = (json.loads(line) for line in lines if line.endswith("}"))
    return [
        event
        for event in events
        if event["user"]["username"] in users and event["stage"] == "ResponseComplete"
    ]


def turns(events: Sequence[Object]) -> list[str]:
    """The users that have written, each once for all that it wrote before another one did."""
    writers = (
        event["user"]["username"]
        for event in events
        if event["verb"] not in READS and event["objectRef"]["resource"] != "leases"
    )
    return [user for user, _ in groupby(writers)]


def denied(events: Sequence[Object]) -> set[str]:
    return {
        f"{event['verb']} {event['objectRef']['resource']}/{event['objectRef'].get('subresource', '')}"
        for event in events
        if event["responseStatus"]["code"] == 403
    }


def test_frozen_and_killed_leaders_are_replaced_and_write_nothing_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """One leads and is frozen, the other takes over and is killed, the first one takes over again."""
    pools = "/apis/resource.aibee.cn/v1alpha1/pools"
    plane.client().create(
        pools, builders.pool("a") | {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool"}
    )
    with managing(plane, "manager-a", tmp_path / "a.log") as a:
        submit(plane, "p1")
        wait_until_bound(plane, "p1", a)
        with managing(plane, "manager-b", tmp_path / "b.log") as b:
            b.wait_for("standing by")
            a.send(signal.SIGSTOP)
            submit(plane, "p2")
            wait_until_bound(plane, "p2", a, b)
            a.send(signal.SIGCONT)
            a.wait_for("standing by")
            submit(plane, "p3")
            wait_until_bound(plane, "p3", a, b)
            b.send(signal.SIGKILL)
            submit(plane, "p4")
            wait_until_bound(plane, "p4", a, b)
    events = audited(plane, "manager-a", "manager-b")
    assert turns(events) == ["manager-a", "manager-b", "manager-a"], a.text() + b.text()
    assert denied(events) == set()


def test_jobs_run_with_the_rights_of_the_example(plane: ControlPlane, tmp_path: Path) -> None:
    shape = builders.template(cpu=1, scheduler="shoal")
    jobs = [
        (builders.tyjob("ty", leader=shape, workers={"w": (1, shape)}), "tyrl.io/v1alpha1", "tyjobs"),
        (builders.dijob("di", shape, replicas=(2, 2)), "diengine.opendilab.org/v2alpha1", "dijobs"),
    ]
    with managing(plane, "limited", tmp_path / "jobs.log") as manager:
        for job, version, plural in jobs:
            path = f"/apis/{version}/namespaces/default/{plural}"
            plane.client().create(path, job)
            name = job["metadata"]["name"]
            until(
                lambda: bool(bound_pods(plane, name)),  # noqa: B023 - called at once
                f"a pod of {name} is bound: there is no kubelet, and others may wait for the first one",
                explain=manager.text,
            )
    assert denied(audited(plane, "limited")) == set(), manager.text()


def bound_pods(plane: ControlPlane, job: str) -> list[str]:
    """The pods of a job that have a node."""
    return [
        pod["metadata"]["name"]
        for pod in plane.client().get("/api/v1/namespaces/default/pods")["items"]
        if pod["metadata"]["name"].startswith(f"{job}-") and pod["spec"].get("nodeName")
    ]


def test_a_missing_right_is_one_message_and_everything_else_goes_on(
    plane: ControlPlane, tmp_path: Path
) -> None:
    grant(plane, bound_to_group("events", "pods/status"))
    with managing(plane, "limited", tmp_path / "c.log", "--lease-name", "shoal-manager") as manager:
        plane.client().create("/api/v1/namespaces/default/pods", builders.pod("huge", cpu=5000))
        submit(plane, "p5")
        wait_until_bound(plane, "p5", manager)
        manager.wait_for('cannot patch resource "pods/status"')
        manager.wait_for('cannot create resource "events"')
        submit(plane, "p6")
        wait_until_bound(plane, "p6", manager)
    assert manager.text().count('cannot create resource "events"') == 1
    assert manager.text().count('cannot patch resource "pods/status"') == 1


def test_without_the_right_to_list_a_collection_it_waits_and_says_so(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """It begins as soon as the right is granted."""
    grant(plane, bound_to_group("nodes"))
    with managing(plane, "limited", tmp_path / "d.log") as manager:
        manager.wait_for('cannot list resource "nodes"')
        submit(plane, "p7")
        grant(plane, bound_to_group())
        wait_until_bound(plane, "p7", manager)
    assert "nodes: followed again" in manager.text()
