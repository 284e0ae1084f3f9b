"""The ASGI application: authentication, dispatch to handlers, and error responses.

The order for each request: bearer token (except on public paths), server information (health, version,
discovery), then the handler of the object or collection in the path, by method.
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

from shoal.apiserver.http import kubelet as kubelet_handlers
from shoal.apiserver.http import read, reviews, write
from shoal.apiserver.http.discovery import PUBLIC_PATHS, server_info
from shoal.apiserver.http.requests import (
    ATTACH,
    BINDING,
    EVICTION,
    EXEC,
    LOG,
    METRICS_RESOURCES,
    NAME,
    NO_KUBELET,
    PORT_FORWARD,
    REVIEWS,
    Kubelet,
    RequestContext,
    Target,
    parse_path,
)
from shoal.apiserver.http.responses import error_response, json_response, method_not_allowed, not_found
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
_IMPERSONATION_PREFIX: Final = "impersonate-"

_AS_GET: Final = {"type": "http", "method": "GET"}

Handler = Callable[[RequestContext], Awaitable[ASGIApp]]
Pages = Mapping[str, Callable[[], Object]]


class ApiApp:
    """The Kubernetes API of a registry, for clients with the bearer token."""

    def __init__(
        self,
        registry: Registry,
        token: str,
        *,
        kubelet: Kubelet = NO_KUBELET,
        pages: Pages = MappingProxyType({}),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`pages` are additional JSON documents by path."""
        self._registry, self._token, self._kubelet, self._clock = registry, token.encode(), kubelet, clock
        self._pages: Final = pages
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all streaming responses."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(_as_http_scope(scope), receive)
        with contextlib.suppress(ClientDisconnect):
            response = await self._handle(request)
            await response(scope, receive, send)

    async def _handle(self, request: Request) -> ASGIApp:
        """Return the response; every error becomes a Status."""
        target: Target | None = None
        try:
            self._check_token(request)
            if (response := self._server_info(request)) is not None:
                return response
            target = _target(request)
            return await self._handler_for(request, target)(self._context(request, target))
        except ClusterError as error:
            return error_response(error, _error_target(request, target))
        except RecursionError:
            return error_response(BadRequestError("the body of the request is nested too deeply"), target)
        except ClientDisconnect:
            raise
        except Exception:  # noqa: BLE001 - an internal error must not close the connection
            _log.exception("%s %r failed", request.method, request.scope["path"])
            return error_response(InternalError("internal error; see the server's log"), target)

    def _check_token(self, request: Request) -> None:
        """Require the bearer token, except on public paths."""
        if request.scope["path"] in PUBLIC_PATHS:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != _SCHEME or not self._is_valid(token.strip()):
            raise UnauthorizedError("Unauthorized")
        if any(name.startswith(_IMPERSONATION_PREFIX) for name in request.headers):
            raise ForbiddenError(
                "impersonation is not supported: there is a single user, with all permissions"
            )

    def _is_valid(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def _server_info(self, request: Request) -> Response | None:
        page = self._pages.get(request.scope["path"])
        response = server_info(request) if page is None else json_response(page())
        if response is not None and request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return response

    def _context(self, request: Request, target: Target) -> RequestContext:
        return RequestContext(
            request=request,
            target=target,
            registry=self._registry,
            kubelet=self._kubelet,
            clock=self._clock,
            stopping=self._stopping,
        )

    async def _review(self, context: RequestContext) -> Response:
        return await reviews.answer(context, self._is_valid)

    def _handler_for(self, request: Request, target: Target) -> Handler:
        method = request.method
        if method not in target.methods:
            raise method_not_allowed()
        if "subprotocols" in request.scope and target.subresource not in _WEBSOCKET_SUBRESOURCES:
            raise BadRequestError("WebSockets are only supported for exec; use a plain request")
        if target.subresource in _SUBRESOURCE_HANDLERS:
            return _SUBRESOURCE_HANDLERS[target.subresource]
        if target.resource in METRICS_RESOURCES:
            return kubelet_handlers.read_metrics
        if target.resource in REVIEWS:
            return self._review
        if method == "DELETE" and not target.name:
            return write.delete_all
        return _METHOD_HANDLERS[method]


_SUBRESOURCE_HANDLERS: Final[dict[str, Handler]] = {
    BINDING: write.bind,
    EVICTION: write.evict,
    LOG: kubelet_handlers.read_log,
    EXEC: kubelet_handlers.execute,
    ATTACH: kubelet_handlers.attach,
    PORT_FORWARD: kubelet_handlers.port_forward,
}
_WEBSOCKET_SUBRESOURCES: Final = (EXEC, ATTACH, PORT_FORWARD)
_METHOD_HANDLERS: Final[dict[str, Handler]] = {
    "GET": read.read,
    "POST": write.create,
    "PUT": write.update,
    "PATCH": write.patch,
    "DELETE": write.delete,
}


def _as_http_scope(scope: Scope) -> Scope:
    """Treat a WebSocket handshake as a GET; the scope keeps the offered subprotocols."""
    return {**scope, **_AS_GET} if scope["type"] == "websocket" else scope


def _error_target(request: Request, target: Target | None) -> Target | None:
    """Return the target of an error, with the name from the body of a create."""
    name = getattr(request.state, NAME, "")
    return target and msgspec.structs.replace(target, name=target.name or name)


def _target(request: Request) -> Target:
    target = parse_path(request.scope["path"])
    if target is None:
        raise not_found()
    return target
