"""The application: who may ask, what is asked for, and who answers.

A request passes through here in this order: health and version for anybody; the token; what is about the
server; then the object or collection that the path names, by method.
"""

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.apiserver.http import binding, delete, logs, metrics, read, write
from shoal.apiserver.http import exec as exec_
from shoal.apiserver.http.context import NAME, Ask
from shoal.apiserver.http.discovery import OPEN, about
from shoal.apiserver.http.kubelet import NOBODY, Kubelet
from shoal.apiserver.http.requests import (
    ATTACH,
    BINDING,
    EVICTION,
    EXEC,
    LOG,
    MEASURED,
    PORT_FORWARD,
    Target,
    target_of,
)
from shoal.apiserver.http.responses import failure, json_answer, not_allowed, not_found
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import (
    BadRequestError,
    ClusterError,
    ForbiddenError,
    InternalError,
    UnauthorizedError,
)
from shoal.cluster.resources import Object

_log: Final = logging.getLogger(__name__)
_SCHEME: Final = "bearer"
_AS_SOMEBODY_ELSE: Final = "impersonate-"

_HANDSHAKE: Final = {"type": "http", "method": "GET"}

Answer = Callable[[Ask], Awaitable[ASGIApp]]
Pages = Mapping[str, Callable[[], Object]]


class Api:
    """The API over a registry, for whoever has the token."""

    def __init__(
        self,
        registry: Registry,
        token: str,
        *,
        kubelet: Kubelet = NOBODY,
        pages: Pages = MappingProxyType({}),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`pages` are what else there is to know, by path: for whoever serves the API."""
        self._registry, self._token, self._kubelet, self._clock = registry, token.encode(), kubelet, clock
        self._pages: Final = pages
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let all streams end."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(_asked(scope), receive)
        with contextlib.suppress(ClientDisconnect):
            response = await self._answer(request)
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        """The answer, whatever happens: no error is without a Status."""
        target: Target | None = None
        try:
            self._check_token(request)
            if (found := self._about(request)) is not None:
                return found
            target = _target(request)
            return await self._answered_by(request, target)(self._ask(request, target))
        except ClusterError as error:
            return failure(error, _meant(request, target))
        except RecursionError:
            return failure(BadRequestError("the body of the request is nested too deeply"), target)
        except ClientDisconnect:
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must not take the connection down
            _log.exception("%s %r failed", request.method, request.scope["path"])
            return failure(InternalError("an error on the server: its log says more"), target)

    def _check_token(self, request: Request) -> None:
        """Whoever asks must know the token, but for what anybody may know."""
        if request.scope["path"] in OPEN:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        if scheme.lower() != _SCHEME or not hmac.compare_digest(given, self._token):
            raise UnauthorizedError("Unauthorized")
        if any(name.startswith(_AS_SOMEBODY_ELSE) for name in request.headers):
            raise ForbiddenError("nobody can be impersonated: there is one user, who may do everything")

    def _about(self, request: Request) -> Response | None:
        page = self._pages.get(request.scope["path"])
        found = about(request) if page is None else json_answer(page())
        if found is not None and request.method not in ("GET", "HEAD"):
            raise not_allowed()
        return found

    def _ask(self, request: Request, target: Target) -> Ask:
        return Ask(
            request=request,
            target=target,
            registry=self._registry,
            kubelet=self._kubelet,
            clock=self._clock,
            stopping=self._stopping,
        )

    def _answered_by(self, request: Request, target: Target) -> Answer:
        method = request.method
        if method not in target.methods:
            raise not_allowed()
        if "subprotocols" in request.scope and target.part not in _OVER_SOCKETS:
            raise BadRequestError("WebSockets are for commands in pods only: ask without one")
        if target.part in _BY_PART:
            return _BY_PART[target.part]
        if target.resource in MEASURED:
            return metrics.read
        if method == "DELETE" and not target.name:
            return delete.delete_all
        return _BY_METHOD[method]


_BY_PART: Final[dict[str, Answer]] = {
    BINDING: binding.bind,
    EVICTION: binding.evict,
    LOG: logs.read,
    EXEC: exec_.execute,
    ATTACH: exec_.attach,
    PORT_FORWARD: exec_.forward,
}
_OVER_SOCKETS: Final = (EXEC, ATTACH, PORT_FORWARD)
_BY_METHOD: Final[dict[str, Answer]] = {
    "GET": read.read,
    "POST": write.create,
    "PUT": write.update,
    "PATCH": write.patch,
    "DELETE": delete.delete,
}


def _asked(scope: Scope) -> Scope:
    """What is asked for: a WebSocket too begins as a GET, and says which protocols it could speak."""
    return {**scope, **_HANDSHAKE} if scope["type"] == "websocket" else scope


def _meant(request: Request, target: Target | None) -> Target | None:
    """What an error is about: an object that was to be made has its name from itself."""
    name = getattr(request.state, NAME, "")
    return target and msgspec.structs.replace(target, name=target.name or name)


def _target(request: Request) -> Target:
    target = target_of(request.scope["path"])
    if target is None:
        raise not_found()
    return target
