"""The monitoring endpoints of a manager."""

import asyncio
import json
import socket
import urllib.error
import urllib.request

import pytest

from shoal.apiserver.http.server import ListenError
from shoal.apiserver.registry.registry import Registry
from shoal.engine.config import SchedulerConfig
from shoal.manager import Manager, running
from shoal.server.monitor import monitoring

ANYWHERE = ("127.0.0.1", 0)


def fetch(url: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Return the status code, the content type and the body of a response."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method), timeout=60) as response:  # noqa: S310 - http
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


async def test_the_endpoints_of_a_ready_manager() -> None:
    async with Registry() as registry, running(registry, SchedulerConfig()) as manager:
        await manager.ready()
        async with monitoring(lambda: manager, *ANYWHERE) as url:
            health = await asyncio.to_thread(fetch, f"{url}/healthz")
            code, kind, body = await asyncio.to_thread(fetch, f"{url}/readyz")
            metrics = await asyncio.to_thread(fetch, f"{url}/metrics")
    assert health == (200, "text/plain; charset=utf-8", b"ok")
    assert (code, kind) == (200, "application/json")
    assert json.loads(body)["ready"] is True
    assert metrics[:2] == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"workqueue_depth" in metrics[2]


async def test_a_manager_that_is_not_synced_is_alive_and_not_ready() -> None:
    async with Registry() as registry:
        manager = Manager(registry, SchedulerConfig())
        async with monitoring(lambda: manager, *ANYWHERE) as url:
            code, _, body = await asyncio.to_thread(fetch, f"{url}/readyz")
            assert (await asyncio.to_thread(fetch, f"{url}/healthz"))[0] == 200
    assert code == 503
    health = {"ready": False, "leading": True, "cycles": 0, "troubles": [], "unreadable": {}}
    assert json.loads(body) == health


async def test_before_there_is_a_manager_the_process_is_alive_and_not_ready() -> None:
    async with monitoring(lambda: None, *ANYWHERE) as url:
        answers = [
            (await asyncio.to_thread(fetch, f"{url}/{page}"))[0] for page in ("healthz", "readyz", "metrics")
        ]
    assert answers == [200, 503, 200]


@pytest.mark.parametrize("path, method, expected", [("/nothing", "GET", 404), ("/healthz", "POST", 405)])
async def test_other_requests_are_refused(path: str, method: str, expected: int) -> None:
    async with monitoring(lambda: None, *ANYWHERE) as url:
        assert (await asyncio.to_thread(fetch, f"{url}{path}", method))[0] == expected


async def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(ANYWHERE) as taken:
        async with Registry() as registry:
            manager = Manager(registry, SchedulerConfig())
            with pytest.raises(ListenError, match="in use"):
                async with monitoring(lambda: manager, *taken.getsockname()[:2]):
                    pass
