"""HTTP requests to an API server: connections, limits, timeouts, credentials and retries.

A request is retried only if it was certainly not executed, or may be executed twice: always after 429, after
401 if there are new credentials, and reads that the server asks to repeat. Every other failure is left to the
caller.
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Final, Literal, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
import yarl
from aiohttp.abc import AbstractStreamWriter

import shoal
from shoal.cluster.errors import ClusterError, InternalError, UnauthorizedError, UnavailableError, from_status
from shoal.cluster.kubernetes.access import Access, AccessError, Credentials
from shoal.cluster.kubernetes.connections import ConnectionTracker, TrackingConnector
from shoal.cluster.kubernetes.wire import JSON, parse_retry_after, parse_status

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str]

_TOO_MANY_REQUESTS: Final = 429
_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_DEFAULT_RETRY_AFTER: Final = 1.0
"""Seconds to wait after 429 without a Retry-After."""

_LARGE_BODY: Final = 2**20
"""Bytes from which a body is sent in pieces."""
_BUFFER: Final = 2**18
"""Bytes of a response that are buffered: enough to read large lists in few steps."""

_KEEPALIVE_TIMEOUT: Final = 60.0
"""Seconds for which an idle connection is kept: API servers close theirs after 90."""

_HEADERS: Final = (
    ("User-Agent", f"shoal/{shoal.__version__}"),
    ("Accept", JSON),
    ("Accept-Encoding", "identity"),  # compression costs more than networks in clusters do
)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]


class TransportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of concurrency, time and retries; times in seconds.

    `watch_idle` is how long a watch may be without a single byte: servers send a bookmark every minute, so
    that a longer silence means a dead connection. `max_retry_after` is the longest delay that a server may
    ask for before a retry; if it asks for more, the request fails at once.
    """

    concurrent: int = 64
    connect: float = 10.0
    request: float = 60.0
    watch_idle: float = 150.0
    attempts: int = 6
    max_retry_after: float = 30.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to an API server. `retry_busy`: retry after 429, rather than raise."""

    method: Method
    path: str
    query: Query = {}
    body: bytes | None = None
    content: str = JSON
    retry_busy: bool = True

    @property
    def is_read(self) -> bool:
        """Whether the request changes nothing."""
        return self.method == "GET"


Attempt = Callable[[Request, Credentials], Awaitable[T]]

WriteGuard = Callable[[], None]
"""Called right before a write is sent; a ClusterError that it raises is raised instead of sending it."""


class _GuardedBody(aiohttp.BytesIOPayload):
    """The body of a write, which is sent only if a guard allows it.

    A request may wait long before it is sent: for its turn, for credentials, for a connection. Its headers
    are buffered until the body is written.
    """

    def __init__(self, body: bytes, guard: WriteGuard) -> None:
        super().__init__(io.BytesIO(body))
        self._guard: Final = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._guard()
        await super().write_with_length(writer, content_length)


class Transport:
    """Sends requests to one API server."""

    def __init__(
        self, access: Access, limits: TransportLimits, sleep: Sleep, guard: WriteGuard | None = None
    ) -> None:
        self._access: Final = access
        self._guard: Final = guard
        self._limits: Final = limits
        self._sleep: Final = sleep
        self._semaphore: Final = asyncio.Semaphore(limits.concurrent)
        self._url: Final = access.url.rstrip("/")
        self._request_timeout: Final = aiohttp.ClientTimeout(
            total=limits.request, sock_connect=limits.connect
        )
        self._watch_timeout: Final = aiohttp.ClientTimeout(
            sock_connect=limits.connect, sock_read=limits.watch_idle
        )
        self._connections: Final = ConnectionTracker()
        self._session: aiohttp.ClientSession | None = None
        self._open_responses: Final[set[aiohttp.ClientResponse]] = set()
        self._closed = False

    async def request(self, request: Request) -> bytes:
        """Send a request and return the body of the response; ClusterError if it fails."""
        return await self._with_retries(request, self._send_and_read)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request and yield the response in chunks as they arrive. Leaving the block closes it."""
        response = await self._with_retries(request, self._send_and_open)
        self._open_responses.add(response)
        try:
            yield self._chunks(response)
        finally:
            self._open_responses.discard(response)
            response.close()

    async def close(self) -> None:
        """Close all connections; open streams fail with UnavailableError."""
        self._closed = True
        for response in self._open_responses:
            response.content.set_exception(aiohttp.ClientConnectionError("closed by the client"))
        if self._session is not None:
            await self._session.close()
            await self._connections.abort()

    # --- retries ------------------------------------------------------------------------------------------

    async def _with_retries(self, request: Request, attempt: Attempt[T]) -> T:
        """Send a request until it succeeds, or must not be retried."""
        attempts, renewed = 1, False
        while True:
            credentials = await self._access.credential_source.credentials()
            try:
                return await attempt(request, credentials)
            except UnauthorizedError:
                if renewed or not self._access.credential_source.reject(credentials):
                    raise
                renewed = True
            except ClusterError as error:
                delay = self._retry_delay(request, error)
                if delay is None or attempts == self._limits.attempts:
                    raise
                attempts += 1
                await self._sleep(delay)

    def _retry_delay(self, request: Request, error: ClusterError) -> float | None:
        """Return the seconds until the next attempt; None if there must be none."""
        delay = error.retry_after
        if error.code == _TOO_MANY_REQUESTS and request.retry_busy:
            delay = _DEFAULT_RETRY_AFTER if delay is None else delay
        elif error.code < _FIRST_SERVER_ERROR or not request.is_read:
            return None
        return delay if delay is not None and delay <= self._limits.max_retry_after else None

    # --- one attempt --------------------------------------------------------------------------------------

    async def _send_and_read(self, request: Request, credentials: Credentials) -> bytes:
        async with self._semaphore:
            with self._translate_errors():
                async with await self._send(request, credentials, self._request_timeout) as response:
                    await self._check(response)
                    return await response.read()

    async def _send_and_open(self, request: Request, credentials: Credentials) -> aiohttp.ClientResponse:
        with self._translate_errors():
            response = await self._send(request, credentials, self._watch_timeout)
            try:
                await self._check(response)
            except BaseException:
                response.close()
                raise
        return response

    async def _send(
        self, request: Request, credentials: Credentials, deadline: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {"Content-Type": request.content} if request.body is not None else {}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        return await self._open_session().request(
            request.method,
            yarl.URL(f"{self._url}{request.path}{query}", encoded=True),
            data=self._payload(request.body),
            headers=headers,
            ssl=self._tls_context(credentials),
            server_hostname=self._access.server_name or None,
            proxy=self._access.proxy or None,
            timeout=deadline,
            allow_redirects=False,
        )

    def _payload(self, body: bytes | None) -> bytes | io.BytesIO | aiohttp.Payload | None:
        """Return a body as it is sent: a large one in pieces, with other tasks between."""
        if body is not None and self._guard is not None:
            return _GuardedBody(body, self._guard)
        return io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise the error of a failed response."""
        if response.status >= _FIRST_ERROR:
            status = parse_status(await response.read())
            retry_after = parse_retry_after(response.headers.get("Retry-After", ""))
            raise from_status(status, code=response.status, retry_after=retry_after)
        if response.content_type != JSON:
            content_type = response.content_type
            raise InternalError(f"{self._url} answers with {content_type}, not JSON: is it an API server?")

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with self._translate_errors():
            async for chunk in response.content.iter_any():
                yield chunk

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of the HTTP library into errors of the port."""
        try:
            yield
        except TimeoutError as error:
            raise UnavailableError(f"{self._url} does not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error.__cause__, ClusterError):  # raised by the guard
                raise error.__cause__ from None
            raise UnavailableError(f"{self._url} cannot be reached: {_describe(error)}") from error
        except RuntimeError as error:
            if not self._closed:
                raise
            raise UnavailableError("the connection was closed") from error

    # --- connections --------------------------------------------------------------------------------------

    def _tls_context(self, credentials: Credentials) -> ssl.SSLContext | bool:
        if not self._url.startswith("https:"):
            return True
        try:
            return self._access.tls.context(credentials.certificate)
        except (OSError, ValueError) as error:
            raise AccessError(f"invalid certificates: {error}") from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise UnavailableError("the connection was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=TrackingConnector(self._connections, keepalive=_KEEPALIVE_TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=[*_HEADERS, *self._access.headers],
                read_bufsize=_BUFFER,
            )
        return self._session


def _describe(error: Exception) -> str:
    """Return the message of an exception, or its type if it has none."""
    return str(error) or type(error).__name__
