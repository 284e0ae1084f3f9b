"""Requests to an API server: connections, limits, time-outs, credentials, and which failures are tried again.

Tried again is only what was certainly not done, or does no harm twice: 429 always, 401 once there are new
credentials, and reads that the server asks to repeat. Everything else is the caller's to judge.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Final, Literal
from urllib.parse import urlencode

import aiohttp
import msgspec
import yarl

import shoal
from shoal.cluster.errors import ClusterError, InternalError, UnavailableError, from_status
from shoal.cluster.kubernetes.access import Access, AccessError, Credentials
from shoal.cluster.kubernetes.wire import status_of

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"

_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
_FAILED: Final = 400
_SERVER_FAILED: Final = 500
_PATIENCE_WITHOUT_ADVICE: Final = 1.0
"""Seconds to wait when a busy server does not say how long."""

_BUFFER: Final = 2**18
"""Bytes of an answer that may wait to be read: enough to read large lists in few steps."""

Sleep = Callable[[float], Awaitable[None]]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked of a server at once, and how long it may take; times in seconds.

    `silence` is how long a watch may be without a single byte: servers send a bookmark every minute, so that
    a longer silence means a connection that is dead without saying so. `wait` is the longest that a
    request waits because the server asks it to; asked for more, it fails at once.
    """

    concurrent: int = 64
    connect: float = 10.0
    request: float = 60.0
    silence: float = 150.0
    tries: int = 6
    wait: float = 30.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to an API server. `patient`: an answer of 429 is waited for rather than passed on."""

    verb: Verb
    path: str
    query: Query = {}
    body: bytes | None = None
    content: str = JSON
    patient: bool = True

    @property
    def harmless(self) -> bool:
        """Whether it changes nothing."""
        return self.verb == "GET"


class Transport:
    """Speaks to one API server."""

    def __init__(self, access: Access, limits: Limits, sleep: Sleep = asyncio.sleep) -> None:
        self._access: Final = access
        self._limits: Final = limits
        self._sleep: Final = sleep
        self._slots: Final = asyncio.Semaphore(limits.concurrent)
        self._base: Final = access.url.rstrip("/")
        self._whole: Final = aiohttp.ClientTimeout(total=limits.request, sock_connect=limits.connect)
        self._endless: Final = aiohttp.ClientTimeout(sock_connect=limits.connect, sock_read=limits.silence)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def ask(self, request: Request) -> bytes:
        """The answer to a request, when it is good; else the error that it tells of."""
        for tries_left in range(self._limits.tries - 1, -1, -1):
            try:
                return await self._once(request)
            except ClusterError as error:
                wait = self._worth_waiting(request, error)
                if wait is None or not tries_left:
                    raise
            await self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to a request, in pieces as they come. Leaving the block ends it at once."""
        credentials = await self._credentials()
        with self._named_failures():
            response = await self._send(request, credentials, self._endless)
        try:
            if response.status >= _FAILED:
                raise await self._refusal(response, credentials)
            yield self._pieces(response)
        finally:
            response.close()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    # --- one try ------------------------------------------------------------------------------------------

    async def _once(self, request: Request) -> bytes:
        credentials = await self._credentials()
        async with self._slots:
            with self._named_failures():
                response = await self._send(request, credentials, self._whole)
                async with response:
                    if response.status < _FAILED:
                        return await self._body(response)
                    raise await self._refusal(response, credentials)

    async def _send(
        self, request: Request, credentials: Credentials, patience: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {"Content-Type": request.content} if request.body is not None else {}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        return await self._open_session().request(
            request.verb,
            yarl.URL(f"{self._base}{request.path}{query}", encoded=True),
            data=request.body,
            headers=headers,
            ssl=self._context(credentials),
            server_hostname=self._access.server_name or None,
            proxy=self._access.proxy or None,
            timeout=patience,
            allow_redirects=False,
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        if response.content_type != JSON:
            kind = response.content_type
            raise InternalError(f"{self._base} answers in {kind} and not in JSON: is it an API server?")
        return await response.read()

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with self._named_failures():
            async for piece in response.content.iter_any():
                yield piece

    # --- failures -----------------------------------------------------------------------------------------

    async def _refusal(self, response: aiohttp.ClientResponse, credentials: Credentials) -> ClusterError:
        status = status_of(await response.read())
        error = from_status(status, code=response.status, retry_after=_retry_after(response))
        if response.status == _UNAUTHORIZED and self._access.identity.refused(credentials):
            return _StaleCredentialsError(error.message)
        return error

    def _worth_waiting(self, request: Request, error: ClusterError) -> float | None:
        """How long to wait before the next try; None if there must be none."""
        if isinstance(error, _StaleCredentialsError):
            return 0.0
        wait = error.retry_after
        if error.code == _TOO_MANY and request.patient:
            wait = _PATIENCE_WITHOUT_ADVICE if wait is None else wait
        elif error.code < _SERVER_FAILED or not request.harmless:
            return None
        return wait if wait is not None and wait <= self._limits.wait else None

    @contextlib.contextmanager
    def _named_failures(self) -> Iterator[None]:
        """Say what broke in the words of the port."""
        try:
            yield
        except TimeoutError as problem:
            raise UnavailableError(f"{self._base} does not answer in time") from problem
        except (aiohttp.ClientError, ssl.SSLError, OSError) as problem:
            raise UnavailableError(f"{self._base} cannot be reached: {_told(problem)}") from problem
        except RuntimeError as problem:
            if not self._closed:
                raise
            raise UnavailableError("the connection was closed") from problem

    # --- what requests need -------------------------------------------------------------------------------

    async def _credentials(self) -> Credentials:
        return await self._access.identity.credentials()

    def _context(self, credentials: Credentials) -> ssl.SSLContext | bool:
        if not self._base.startswith("https:"):
            return True
        try:
            return self._access.tls.context(credentials.certificate)
        except (OSError, ValueError) as problem:
            raise AccessError(f"the certificates cannot be used: {problem}") from problem

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise UnavailableError("the connection was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # watches are not counted, all else is by us
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "User-Agent": f"shoal/{shoal.__version__}",
                    "Accept": JSON,
                    # To pack and unpack costs both sides more than a network of clusters does.
                    "Accept-Encoding": "identity",
                    **self._access.headers,
                },
                read_bufsize=_BUFFER,
            )
        return self._session


class _StaleCredentialsError(UnavailableError):
    """Raised when the server refuses credentials, and others can be had."""


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _told(problem: Exception) -> str:
    """What an exception says; some say nothing but their name."""
    return str(problem) or type(problem).__name__
