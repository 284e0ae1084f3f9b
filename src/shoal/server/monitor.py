"""The monitor: how a manager is, for probes and for Prometheus. It tells, and takes nothing.

| path | what |
|---|---|
| `/healthz` | 200 as long as the process answers |
| `/readyz` | 200 once everything has been seen, else 503; the answer says what goes wrong just now |
| `/metrics` | the metrics |
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from aiohttp import web

from shoal.apiserver.http.server import listening
from shoal.manager import Manager

Tell = Callable[[web.Request], Awaitable[web.Response]]

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def monitoring(manager: Manager, host: str, port: int) -> AsyncIterator[str]:
    """Tell of a manager until the block ends; the address. ListenError if it cannot be listened on."""
    app = web.Application()
    app.add_routes([web.get(path, tell) for path, tell in _routes(manager).items()])
    runner = web.AppRunner(app, access_log=None)
    with listening(host, port) as listener:
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            name, number = listener.getsockname()[:2]
            yield f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
        finally:
            await runner.cleanup()


def _routes(manager: Manager) -> dict[str, Tell]:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        health = manager.health()
        status = 200 if health.ready else 503
        return web.Response(body=msgspec.json.encode(health), status=status, content_type="application/json")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=manager.metrics.text(), headers={"Content-Type": _TEXT})

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
