"""`shoal manager`, and the scheduler inside `shoal up`, as separate processes."""

import contextlib
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, Resource, resource_of
from tests import builders
from tests.cli.daemon import up
from tests.cli.process import SHOAL, shoal
from tests.k8s.controlplane import ControlPlane


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[KubernetesCluster]:
    cluster = KubernetesCluster(find_access(str(kubeconfig)))
    try:
        yield cluster
    finally:
        await cluster.close()


async def wait_until_bound(cluster: KubernetesCluster, name: str) -> str:
    """Wait until a pod is bound; its node."""
    async with cluster.watch(PODS, Selector(namespace="default", fields=f"metadata.name={name}")) as events:
        async for event in events:
            if event.object and event.object["spec"].get("nodeName"):
                return str(event.object["spec"]["nodeName"])
    raise AssertionError("the watch ended")


@contextlib.contextmanager
def run_manager(kubeconfig: Path, *options: str) -> Iterator[list[str]]:
    """Run `shoal manager`; the first lines of its output."""
    command = [*SHOAL, "manager", "--kubeconfig", str(kubeconfig), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            assert process.stdout
            yield [process.stdout.readline() for _ in range(1 + ("--monitor" in options))]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0


def runnable(obj: builders.Object) -> builders.Object:
    """Add a command to a pod or a template: the embedded cluster has no images that define one."""
    for container in obj["spec"]["containers"]:
        container["command"] = ["true"]
    return obj


async def test_up_schedules_pods_of_any_scheduler_name(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "1"):
        async with connected(tmp_path / "kubeconfig") as cluster:
            await cluster.create(PODS, runnable(builders.pod("p", scheduler="other")))
            assert await wait_until_bound(cluster, "p") == "node-0"


async def test_manager_schedules_a_real_cluster_and_serves_metrics(
    k8s_alone: ControlPlane, tmp_path: Path
) -> None:
    async with connected(k8s_alone.kubeconfig()) as cluster:
        await cluster.create(NODES, builders.node("n1", cpu=4))
        await cluster.create(PODS, builders.pod("ours", cpu=1))
        options = ("--monitor", "127.0.0.1:0", "--record", str(tmp_path / "cycles"))
        with run_manager(k8s_alone.kubeconfig(), *options) as (_, monitor):
            assert await wait_until_bound(cluster, "ours") == "n1"
            base = monitor.removeprefix("Metrics at ").strip().removesuffix("/metrics")
            assert fetch(f"{base}/healthz") == "ok"
            assert json.loads(fetch(f"{base}/readyz"))["ready"] is True
            assert 'scheduler_pool_nodes{node="n1",pool="default"}' in fetch(f"{base}/metrics")
            with pytest.raises(urllib.error.HTTPError):
                fetch(f"{base}/nonsense")
        assert any((tmp_path / "cycles").iterdir())


def fetch(url: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=60) as answer:
        text: bytes = answer.read()
        return text.decode()


def test_error_of_a_monitor_port_in_use(tmp_path: Path) -> None:
    with up(tmp_path), socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = shoal("manager", "--home", str(tmp_path), "--monitor", address)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: port ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["9090", "here:there", ":1", "127.0.0.1:"])
def test_invalid_monitor_address_is_rejected(address: str) -> None:
    done = shoal("manager", "--monitor", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not an address and a port" in done.stderr


@pytest.mark.parametrize(
    "option, value, problem",
    [
        ("--lease-duration", "soon", "must be a duration such as 30s"),
        ("--lease-duration", "8s", "the renew deadline must be shorter than the lease duration"),
        ("--retry-period", "7s", "1.2 times shorter than the renew deadline"),
    ],
)
def test_invalid_lease_times_are_rejected(option: str, value: str, problem: str) -> None:
    done = shoal("manager", option, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_invalid_configuration_is_rejected_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("maxLoad: 7\nodd: 1\n")
    for command in (["up", "--home", str(tmp_path / "home")], ["manager", "--home", str(tmp_path / "home")]):
        done = shoal(*command, "--config", str(tmp_path / "bad.yaml"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "maxLoad" in done.stderr
        assert "odd" in done.stderr
    assert not (tmp_path / "home").exists()


async def test_status_of_jobs_is_written(tmp_path: Path) -> None:
    shape = runnable(builders.template(cpu=1000))
    with up(tmp_path):
        async with connected(tmp_path / "kubeconfig") as cluster:
            await cluster.create(
                resource_of("TYJob"), builders.tyjob("big", leader=shape, workers={"w": (1, shape)})
            )
            assert await wait_for_schedule_state(cluster, resource_of("TYJob"), "big") == "ScheduledFailed"


async def wait_for_schedule_state(
    cluster: KubernetesCluster, resource: Resource[dict[str, object]], name: str
) -> object:
    async with cluster.watch(resource, Selector(fields=f"metadata.name={name}")) as events:
        async for event in events:
            status = (event.object or {}).get("status")
            if isinstance(status, dict) and status.get("scheduleState"):
                return status["scheduleState"]
    raise AssertionError("the watch ended")


@pytest.mark.parametrize(
    "text", ["shoal-server:8081", "ftp://server", "http://", "http://a b", "http://server/path"]
)
def test_invalid_server_url_is_rejected(text: str) -> None:
    done = shoal("manager", "--server-url", text)
    assert done.returncode == 2
    assert f"'{text}' is not the URL of a server" in done.stderr
