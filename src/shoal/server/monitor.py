"""The monitoring endpoints of a manager, for probes and for Prometheus. They are read-only.

| path | response |
|---|---|
| `/healthz` | 200 as long as the process answers |
| `/readyz` | 200 once the caches are synced, also while standing by; else 503. The body lists errors |
| `/metrics` | the metrics, in the text format of Prometheus |
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from shoal.apiserver.http.server import listening, make_server, run_server
from shoal.manager import NOT_STARTED, Manager

Endpoint = Callable[[Request], Awaitable[Response]]

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def monitoring(current: Callable[[], Manager | None], host: str, port: int) -> AsyncIterator[str]:
    """Serve the endpoints of the current manager until the block ends, and yield their URL.

    While there is none (it lost its lease, and the next one is being started) the process is not ready.

    Raises ListenError if the address cannot be listened on.
    """
    app = Router([Route(path, endpoint) for path, endpoint in _endpoints(current).items()])
    with listening(host, port) as listener:
        async with run_server(make_server(app), listener):
            name, number = listener.getsockname()[:2]
            yield f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def _endpoints(current: Callable[[], Manager | None]) -> dict[str, Endpoint]:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        manager = current()
        health = manager.health() if manager else NOT_STARTED
        status = 200 if health.ready else 503
        return Response(msgspec.json.encode(health), status, media_type="application/json")

    async def metrics(_: Request) -> Response:
        manager = current()
        return Response(manager.metrics.text() if manager else b"", headers={"Content-Type": _METRICS_TYPE})

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
