"""The homes that the suite runs against. Add a home as a row of HOMES."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.server import serving
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Cluster
from shoal.embedded.store import open_home
from shoal.simulator import Connection, FaultInjector, Schedule, SimulatedCluster, WallClock

Opening = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Cluster]]


@dataclass(frozen=True)
class Home:
    """An implementation of the cluster port: how to open it without and with controllers.

    The embedded store collects garbage itself; Kubernetes does so only with its controllers.
    """

    name: str
    open: Opening
    open_with_controllers: Opening


@contextlib.asynccontextmanager
async def _embedded(request: pytest.FixtureRequest) -> AsyncIterator[Registry]:
    """A store that was opened before, and has compacted its first history."""
    directory: Path = request.getfixturevalue("tmp_path_factory").mktemp("embedded")
    async with open_home(directory, retention=Retention(changes=1)) as earlier:
        await earlier.clean_up()
    async with open_home(directory) as registry:
        yield registry


@contextlib.asynccontextmanager
async def _https(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """The same store over our HTTPS API, with the Kubernetes client."""
    directory: Path = request.getfixturevalue("tmp_path_factory").mktemp("credentials")
    credentials = Credentials(directory)
    async with (
        _embedded(request) as registry,
        serving(registry, credentials) as url,
        _client(credentials.write_kubeconfig(url)) as cluster,
    ):
        yield cluster


@contextlib.asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[Cluster]:
    cluster = KubernetesCluster(find_access(str(kubeconfig)))
    try:
        yield cluster
    finally:
        await cluster.close()


@contextlib.asynccontextmanager
async def _simulated(_: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """The store of simulated runs, on the suite's loop; its first history is compacted."""
    clock = WallClock(asyncio.get_running_loop().time)
    async with SimulatedCluster(clock=clock, rng=random.Random(1)) as cluster:
        clock.jump(3600)
        await cluster.clean_up()
        yield cluster


@contextlib.asynccontextmanager
async def _connected(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """The same store through a connection without faults, which must not change the behaviour."""
    faults = FaultInjector(Schedule(), WallClock(asyncio.get_running_loop().time))
    async with _simulated(request) as store:
        yield Connection(store, faults)


def _api_server(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Cluster]:
    return _client(request.getfixturevalue("k8s").kubeconfig())


def _api_server_with_controllers(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Cluster]:
    return _client(request.getfixturevalue("k8s_controllers").kubeconfig())


HOMES: Final = (
    Home("embedded", _embedded, _embedded),
    Home("https", _https, _https),
    Home("simulated", _simulated, _simulated),
    Home("connected", _connected, _connected),
    Home("kubernetes", _api_server, _api_server_with_controllers),
)
