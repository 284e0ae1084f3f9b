"""The DI server as an ASGI application: workers of jobs report to it, and ask for more or fewer workers.

| path | methods |
|---|---|
| `/v2alpha1/<job id>/replicas`, `/v2alpha1/job/<job id>/replicas` | GET, POST, DELETE |
| `/v2alpha1/<job id>/profilings`, `/v2alpha1/job/<job id>/profilings` | POST |
| `/v1/<plural>/<namespace>/<name>/trainer-status` | POST |
| `/healthz`, `/readyz`, `/metrics`, `/openapi.json` | GET, without a token |

Every response to a call is a `Reply` whose code is the HTTP status.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from shoal.cluster.errors import (
    ClusterError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
)
from shoal.engine.config import SchedulerConfig
from shoal.server.access import Admission, gone
from shoal.server.callers import Verb
from shoal.server.calls import Call, ReplicaCalls, Reply, report_profilings, report_trainer_status
from shoal.server.job_ids import JobId, exact_job_id, read_job_id
from shoal.server.jobs import JobGoneError, KindJobs, ServedJobs
from shoal.server.metrics import METRICS_TYPE, ServerMetrics
from shoal.server.openapi import openapi_document

_LOG: Final = logging.getLogger(__name__)
_JSON: Final = "application/json"
_HEADERS: Final = {"Cache-Control": "no-store"}
_REPORTS: Final = "v1"
_TRAINER_STATUS: Final = "trainer-status"
_PROFILINGS: Final = "profilings"
_REPLICAS: Final = "replicas"
_PAGE_METHODS: Final = ("GET", "HEAD")
_OTHER: Final = "other"
"""What metrics call a request that is none of the known calls."""


class Route(msgspec.Struct, frozen=True):
    """Where a path leads: the name of the call, the job that it is about, and what each method does."""

    call: str
    own: KindJobs
    readings: Sequence[JobId]
    methods: Mapping[str, Call]


class ServerApp:
    """The application, over the jobs of one cluster."""

    def __init__(
        self, jobs: ServedJobs, admission: Admission, config: SchedulerConfig, metrics: ServerMetrics
    ) -> None:
        self._jobs: Final = jobs
        self._admission: Final = admission
        self._metrics: Final = metrics
        self._replicas: Final = {
            own.kind.version: (own, ReplicaCalls(jobs, own, own.kind.replica_api, config))
            for own in jobs.kinds.values()
            if own.kind.replica_api
        }
        self._pages: Final[dict[str, Callable[[], Response]]] = {
            "/healthz": lambda: PlainTextResponse("ok"),
            "/readyz": self._readiness,
            "/metrics": lambda: Response(metrics.text(), headers={"Content-Type": METRICS_TYPE}),
            "/openapi.json": lambda: Response(self._openapi, media_type=_JSON),
        }
        self._openapi: Final = msgspec.json.encode(openapi_document(list(jobs.kinds)))

    def stop(self) -> None:
        """Let all requests that wait return."""
        for _, calls in self._replicas.values():
            calls.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            response = await self._respond(request)
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time
        started, route = now(), self._route(request.scope["path"])
        with self._metrics.running.track_inprogress():
            response = await self._respond_to(request, route)
        call, method = (route.call, request.method) if route else (_OTHER, _OTHER)
        self._metrics.answered(call, method, response.status_code, now() - started)
        return response

    async def _respond_to(self, request: Request, route: Route | None) -> Response:
        """Return the response to a request; every error becomes a reply."""
        try:
            if route is None:
                return self._page(request)
            return _response(await self._call(request, route))
        except ClusterError as error:
            return _error_response(error)
        except ClientDisconnect:
            raise
        except Exception:  # noqa: BLE001 - an internal error must not close the connection
            _LOG.exception("%s %s failed", request.method, route.call if route else _OTHER)
            return _error_response(InternalError("internal error; see the server's log"))

    def _page(self, request: Request) -> Response:
        page = self._pages.get(request.scope["path"])
        if page is None:
            raise NotFoundError("there is no such path; /openapi.json lists all")
        _require_method(request, _PAGE_METHODS)
        return page()

    async def _call(self, request: Request, route: Route) -> Reply:
        _require_method(request, route.methods)
        verb: Verb = "get" if request.method == "GET" else "update"
        header = request.headers.get("authorization", "")
        try:
            job = await self._admission.admit(header, route.own, route.readings, verb)
            return await route.methods[request.method](request, route.own, job)
        except JobGoneError:  # since it was found
            raise gone(header) from None

    # --- routes -------------------------------------------------------------------------------------------

    def _route(self, path: str) -> Route | None:
        match path.split("/")[1:]:
            case [version, "job", job_id, call] | [version, job_id, call] if version in self._replicas:
                return self._job_route(version, job_id, call)
            case [version, plural, namespace, name, call] if (version, call) == (_REPORTS, _TRAINER_STATUS):
                own = self._jobs.kinds.get(plural)
                if own:
                    methods = {"POST": report_trainer_status}
                    return Route(call, own, exact_job_id(namespace, name), methods)
        return None

    def _job_route(self, version: str, job_id: str, call: str) -> Route | None:
        own, replicas = self._replicas[version]
        methods: dict[str, dict[str, Call]] = {
            _REPLICAS: {"GET": replicas.read, "POST": replicas.add, "DELETE": replicas.remove},
            _PROFILINGS: {"POST": report_profilings},
        }
        return Route(call, own, read_job_id(job_id), methods[call]) if call in methods else None

    def _readiness(self) -> Response:
        ready = self._jobs.is_synced
        body = {"ready": ready, "troubles": self._jobs.troubles}
        return Response(msgspec.json.encode(body), 200 if ready else 503, media_type=_JSON)


class _UnknownMethodError(MethodNotAllowedError):
    """Raised when a path does not have a method; `allowed` are those that it has."""

    def __init__(self, method: str, allowed: Collection[str]) -> None:
        super().__init__(f"{method} is not possible here; use {' or '.join(allowed)}")
        self.allowed: Final = tuple(allowed)


def _require_method(request: Request, allowed: Collection[str]) -> None:
    if request.method not in allowed:
        raise _UnknownMethodError(request.method, allowed)


def _response(reply: Reply, headers: Mapping[str, str] = {}) -> Response:
    return Response(msgspec.json.encode(reply), reply.code, {**_HEADERS, **headers}, _JSON)


def _error_response(error: ClusterError) -> Response:
    reply = Reply(success=False, code=int(error.code), message=error.message, data=None)
    return _response(reply, dict(_error_headers(error)))


def _error_headers(error: ClusterError) -> Iterator[tuple[str, str]]:
    if error.retry_after is not None:
        yield "Retry-After", str(max(round(error.retry_after), 1))
    if error.code == HTTPStatus.UNAUTHORIZED:
        yield "WWW-Authenticate", 'Bearer realm="shoal"'
    if isinstance(error, _UnknownMethodError):
        yield "Allow", ", ".join(error.allowed)
