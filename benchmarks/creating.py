"""Creates in a real API server: the Kubernetes home, compared with a bare aiohttp loop."""

import asyncio
import itertools
import ssl
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import msgspec

from clusters import Raw, new_pods
from measuring import Row, best_times, throughput_row
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import PODS
from tests.k8s.controlplane import ControlPlane, NoAssetsError, control_plane

_AT_ONCE = 32


async def creates(place: Path, count: int) -> Row:
    """Create pods with 32 concurrent writers."""
    try:
        with control_plane(place / "plane") as plane:
            return await _creates(plane, count)
    except NoAssetsError:
        return Row("no API server here", "-", "-", "≥ 0.8")


async def _creates(plane: ControlPlane, count: int) -> Row:
    numbers = itertools.count()

    def pods() -> list[Raw]:
        return [*new_pods(itertools.islice(numbers, count))]

    home = KubernetesCluster(find_access(str(plane.kubeconfig())))
    plain = aiohttp.TCPConnector(limit=_AT_ONCE, ssl=_trust(plane))
    async with aiohttp.ClientSession(plane.url, headers=_headers(plane), connector=plain) as session:
        await _through_home(home, pods())
        taken, floor = await best_times(lambda: _through_home(home, pods()), lambda: _bare(session, pods()))
    await home.close()
    return throughput_row(count, taken, floor, "creates", "≥ 0.8")


async def _through_home(home: KubernetesCluster, pods: Sequence[Raw]) -> None:
    waiting = iter(pods)

    async def write() -> None:
        for pod in waiting:
            await home.create(PODS, pod)

    await asyncio.gather(*(write() for _ in range(_AT_ONCE)))


async def _bare(session: aiohttp.ClientSession, pods: Sequence[Raw]) -> None:
    waiting = iter(pods)

    async def write() -> None:
        for pod in waiting:
            async with session.post(PODS.path("default"), data=msgspec.json.encode(pod)) as answer:
                msgspec.json.decode(await answer.read())
                assert answer.status == 201

    await asyncio.gather(*(write() for _ in range(_AT_ONCE)))


def _trust(plane: ControlPlane) -> ssl.SSLContext:
    return plane.client().tls


def _headers(plane: ControlPlane) -> dict[str, str]:
    return {"Authorization": f"Bearer {plane.client().token}", "Content-Type": "application/json"}
