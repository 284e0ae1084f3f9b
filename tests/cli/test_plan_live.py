"""`shoal plan` of a live cluster: the same plan as for its objects in files."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import Object, by_kind
from tests import builders
from tests.apiserver.http.api_server import embedded_api
from tests.cli.daemon import up
from tests.cli.process import shoal
from tests.k8s.controlplane import ControlPlane

NOW = "2030-01-01T00:00:00Z"
WORLD: list[Object] = [
    builders.node("n1", cpu=4, memory="8Gi"),
    builders.node("n2", cpu=8, memory="8Gi", labels={"team": "a"}),
    builders.pool("a", selector={"team": "a"}),
    builders.tyjob(
        "big",
        leader=builders.template(cpu=1),
        workers={"worker": (3, builders.template(cpu=2))},
        min_workers=1,
        pool="a",
    ),
    builders.pod("runs", cpu=1, node="n1"),
    builders.pod("waits", cpu=6),
]
MORE = builders.pod("more", cpu=3)


async def create_world(kubeconfig: Path) -> None:
    """Create the world through the API; statuses are written through the subresource."""
    cluster = KubernetesCluster(find_access(str(kubeconfig)))
    for thing in WORLD:
        resource = by_kind()[thing["apiVersion"], thing["kind"]]
        made = await cluster.create(resource, thing)
        if "status" in thing:
            name, namespace = made["metadata"]["name"], made["metadata"].get("namespace", "")
            await cluster.patch_status(resource, name, namespace, patch={"status": thing["status"]})
    await cluster.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster without a scheduler."""
    with embedded_api(tmp_path_factory.mktemp("home")) as api:
        asyncio.run(create_world(api.kubeconfig()))
        yield api.kubeconfig().parent


def run_plan(*arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    done = shoal("plan", "-o", "json", "--now", NOW, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def placements(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(placement["pod"], placement["node"]) for placement in plan["placements"]]


def test_a_live_cluster_is_planned_like_its_objects_in_a_file(home: Path) -> None:
    live = run_plan("--home", str(home))
    filed = run_plan("-f", "-", stdin=yaml.safe_dump_all(WORLD).encode())
    assert placements(live) == placements(filed)
    assert placements(live)
    assert [job["reasons"] for job in live["jobs"]] == [job["reasons"] for job in filed["jobs"]]


def test_files_are_added_to_a_named_cluster(home: Path, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(MORE))
    more = ("-f", str(tmp_path / "more.yaml"))
    both = run_plan("--kubeconfig", str(home / "kubeconfig"), *more)
    assert ("default/more", "n1") in placements(both)
    assert len(placements(both)) == len(placements(run_plan("--home", str(home)))) + 1
    assert [pod for pod, _ in placements(run_plan(*more))] == []


def test_explain_job_of_a_live_cluster(home: Path) -> None:
    done = shoal("plan", "--home", str(home), "--explain", "waits", "--now", NOW)
    assert done.returncode == 0
    assert "waits" in done.stdout


def test_error_of_an_unreachable_cluster_is_one_line(tmp_path: Path) -> None:
    with up(tmp_path):
        pass
    done = shoal("plan", "--home", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: https://127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_error_of_a_missing_context(home: Path) -> None:
    done = shoal("plan", "--kubeconfig", str(home / "kubeconfig"), "--context", "moon")
    assert done.returncode == 1
    assert "has no context 'moon'" in done.stderr


async def test_a_real_cluster_can_be_planned(k8s: ControlPlane) -> None:
    plan = run_plan("--kubeconfig", str(k8s.kubeconfig()))
    assert "default" in [pool["pool"] for pool in plan["pools"]]


def test_error_without_permission_to_list(k8s: ControlPlane) -> None:
    done = shoal("plan", "--kubeconfig", str(k8s.kubeconfig("nobody")))
    assert (done.returncode, done.stdout) == (1, "")
    assert "is forbidden" in done.stderr


def test_error_without_any_cluster_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "SHOAL_HOME"):
        monkeypatch.delenv(name, raising=False)
    done = shoal("plan")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("; start a cluster with `shoal up`, or name one with --kubeconfig\n")
