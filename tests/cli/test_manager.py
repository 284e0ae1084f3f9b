"""`shoal manager` and the scheduler within `shoal up`, as processes of their own."""

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

from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, TYJOBS, Resource
from tests import builders
from tests.cli.daemon import up
from tests.cli.running import SHOAL, shoal
from tests.k8s.controlplane import ControlPlane


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[KubernetesCluster]:
    cluster = KubernetesCluster(find_access(str(kubeconfig)))
    try:
        yield cluster
    finally:
        await cluster.close()


async def until_bound(cluster: KubernetesCluster, name: str) -> str:
    """The node that a pod is given."""
    async with cluster.watch(PODS, Selector(namespace="default", fields=f"metadata.name={name}")) as events:
        async for event in events:
            if event.object and event.object["spec"].get("nodeName"):
                return str(event.object["spec"]["nodeName"])
    raise AssertionError("the watch ended")


@contextlib.contextmanager
def managing(kubeconfig: Path, *options: str) -> Iterator[list[str]]:
    """`shoal manager` at work; what it said first, as many lines as are expected of it."""
    command = [*SHOAL, "manager", "--kubeconfig", str(kubeconfig), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            assert process.stdout
            yield [process.stdout.readline() for _ in range(1 + ("--monitor" in options))]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0


def runnable(thing: builders.Object) -> builders.Object:
    """A pod or a template with a command: the embedded home has no images to take one from."""
    for container in thing["spec"]["containers"]:
        container["command"] = ["true"]
    return thing


async def test_up_gives_pods_nodes_whatever_scheduler_they_name(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "1"):
        async with connected(tmp_path / "kubeconfig") as cluster:
            await cluster.create(PODS, runnable(builders.pod("p", scheduler="anybody")))
            assert await until_bound(cluster, "p") == "node-0"


async def test_a_manager_schedules_a_real_cluster_and_tells_of_it(
    k8s_alone: ControlPlane, tmp_path: Path
) -> None:
    async with connected(k8s_alone.kubeconfig()) as cluster:
        await cluster.create(NODES, builders.node("n1", cpu=4))
        await cluster.create(PODS, builders.pod("ours", cpu=1))
        options = ("--monitor", "127.0.0.1:0", "--record", str(tmp_path / "cycles"))
        with managing(k8s_alone.kubeconfig(), *options) as (_, monitor):
            assert await until_bound(cluster, "ours") == "n1"
            base = monitor.removeprefix("Metrics at ").strip().removesuffix("/metrics")
            assert fetched(f"{base}/healthz") == "ok"
            assert json.loads(fetched(f"{base}/readyz"))["ready"] is True
            assert 'scheduler_pool_nodes{node="n1",pool="default"}' in fetched(f"{base}/metrics")
            with pytest.raises(urllib.error.HTTPError):
                fetched(f"{base}/nonsense")
        assert any((tmp_path / "cycles").iterdir())


def fetched(url: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=60) as answer:
        text: bytes = answer.read()
        return text.decode()


def test_a_monitor_whose_port_is_in_use_is_said(tmp_path: Path) -> None:
    with up(tmp_path), socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = shoal("manager", "--home", str(tmp_path), "--monitor", address)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: port ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["9090", "here:there", ":1", "127.0.0.1:"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    done = shoal("manager", "--monitor", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not an address and a port" in done.stderr


def test_a_bad_configuration_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("maxLoad: 7\nodd: 1\n")
    for command in (["up", "--home", str(tmp_path / "home")], ["manager", "--home", str(tmp_path / "home")]):
        done = shoal(*command, "--config", str(tmp_path / "bad.yaml"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "maxLoad" in done.stderr
        assert "odd" in done.stderr
    assert not (tmp_path / "home").exists()


async def test_jobs_are_told_how_they_stand(tmp_path: Path) -> None:
    shape = runnable(builders.template(cpu=1000))
    with up(tmp_path):
        async with connected(tmp_path / "kubeconfig") as cluster:
            await cluster.create(TYJOBS, builders.tyjob("big", leader=shape, workers={"w": (1, shape)}))
            assert await told(cluster, TYJOBS, "big") == "ScheduledFailed"


async def told(cluster: KubernetesCluster, resource: Resource[dict[str, object]], name: str) -> object:
    async with cluster.watch(resource, Selector(fields=f"metadata.name={name}")) as events:
        async for event in events:
            status = (event.object or {}).get("status")
            if isinstance(status, dict) and status.get("scheduleState"):
                return status["scheduleState"]
    raise AssertionError("the watch ended")
