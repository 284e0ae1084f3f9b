"""Which proxy leads to a server, by the environment: `HTTPS_PROXY`, `NO_PROXY` and the like.

Requests to an API server: connections, limits, time-outs, credentials, and which failures are tried again.

Tried again is only what was certainly not done, or does no harm twice: 429 always, 401 once there are new
credentials, and reads that the server asks to repeat. Everything else is the caller's to judge.
"""

import asyncio
import contextlib
import io
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Final, Literal, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
import yarl

import shoal
from shoal.cluster.errors import ClusterError, InternalError, UnauthorizedError, UnavailableError, from_status
from shoal.cluster.kubernetes.access import Access, AccessError, Credentials
from shoal.cluster.kubernetes.wire import status_of

_LOCAL: Final = "localhost"
_NAMES: Final = "_proxy"
"""How the variables end that name proxies, in whatever case."""


def proxy_for(url: str) -> str:
    """The proxy to ask for a server; empty if it is reached directly, as everything on this machine is."""
    parts = urlsplit(url)
    if _is_here(parts.hostname or "") or not any(name.lower().endswith(_NAMES) for name in os.environ):
        return ""
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415 - slow, and for few

    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return getproxies_environment().get(parts.scheme, "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL


Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"

_TOO_MANY: Final = 429
_FAILED: Final = 400
_SERVER_FAILED: Final = 500
_PATIENCE_WITHOUT_ADVICE: Final = 1.0
"""Seconds to wait when a busy server does not say how long."""

_LARGE: Final = 2**20
_BUFFER: Final = 2**18
"""Bytes of an answer that may wait to be read: enough to read large lists in few steps."""

_IDLE: Final = 60.0
"""Seconds that a connection is kept for the next request: API servers close theirs after 90."""

_HEADERS: Final = (
    ("User-Agent", f"shoal/{shoal.__version__}"),
    ("Accept", JSON),
    ("Accept-Encoding", "identity"),  # to pack and unpack costs more than the networks of clusters do
)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]


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


Attempt = Callable[[Request, Credentials], Awaitable[T]]


class Transport:
    """Speaks to one API server."""

    def __init__(self, access: Access, limits: Limits, sleep: Sleep) -> None:
        self._access: Final = access
        self._limits: Final = limits
        self._sleep: Final = sleep
        self._slots: Final = asyncio.Semaphore(limits.concurrent)
        self._base: Final = access.url.rstrip("/")
        self._whole: Final = aiohttp.ClientTimeout(total=limits.request, sock_connect=limits.connect)
        self._endless: Final = aiohttp.ClientTimeout(sock_connect=limits.connect, sock_read=limits.silence)
        self._session: aiohttp.ClientSession | None = None
        self._streams: Final[set[aiohttp.ClientResponse]] = set()
        self._closed = False

    async def ask(self, request: Request) -> bytes:
        """The answer to a request, when it is good; else the error that it tells of."""
        return await self._patiently(request, self._answer)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to a request, in pieces as they come. Leaving the block ends it at once."""
        response = await self._patiently(request, self._beginning)
        self._streams.add(response)
        try:
            yield self._pieces(response)
        finally:
            self._streams.discard(response)
            response.close()

    async def close(self) -> None:
        """Let go of all connections; who still reads a stream is told so."""
        self._closed = True
        for response in self._streams:
            response.content.set_exception(aiohttp.ClientConnectionError("it was closed by us"))
        if self._session is not None:
            await self._session.close()

    # --- trying -------------------------------------------------------------------------------------------

    async def _patiently(self, request: Request, attempt: Attempt[T]) -> T:
        """Try until it is done or hopeless."""
        tries, renewed = 1, False
        while True:
            credentials = await self._access.identity.credentials()
            try:
                return await attempt(request, credentials)
            except UnauthorizedError:
                if renewed or not self._access.identity.refused(credentials):
                    raise
                renewed = True
            except ClusterError as error:
                wait = self._worth_waiting(request, error)
                if wait is None or tries == self._limits.tries:
                    raise
                tries += 1
                await self._sleep(wait)

    def _worth_waiting(self, request: Request, error: ClusterError) -> float | None:
        """How long to wait before the next try; None if there must be none."""
        wait = error.retry_after
        if error.code == _TOO_MANY and request.patient:
            wait = _PATIENCE_WITHOUT_ADVICE if wait is None else wait
        elif error.code < _SERVER_FAILED or not request.harmless:
            return None
        return wait if wait is not None and wait <= self._limits.wait else None

    # --- one try ------------------------------------------------------------------------------------------

    async def _answer(self, request: Request, credentials: Credentials) -> bytes:
        async with self._slots:
            with self._named_failures():
                async with await self._send(request, credentials, self._whole) as response:
                    await self._check(response)
                    return await response.read()

    async def _beginning(self, request: Request, credentials: Credentials) -> aiohttp.ClientResponse:
        with self._named_failures():
            response = await self._send(request, credentials, self._endless)
            try:
                await self._check(response)
            except BaseException:
                response.close()
                raise
        return response

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
            data=_payload(request.body),
            headers=headers,
            ssl=self._context(credentials),
            server_hostname=self._access.server_name or None,
            proxy=self._access.proxy or None,
            timeout=patience,
            allow_redirects=False,
        )

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise what a bad answer tells."""
        if response.status >= _FAILED:
            status = status_of(await response.read())
            raise from_status(status, code=response.status, retry_after=_retry_after(response))
        if response.content_type != JSON:
            kind = response.content_type
            raise InternalError(f"{self._base} answers in {kind} and not in JSON: is it an API server?")

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with self._named_failures():
            async for piece in response.content.iter_any():
                yield piece

    @contextlib.contextmanager
    def _named_failures(self) -> Iterator[None]:
        """Say what broke in the words of the port."""
        try:
            yield
        except TimeoutError as problem:
            raise UnavailableError(f"{self._base} does not answer in time") from problem
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise UnavailableError(f"{self._base} cannot be reached: {_told(problem)}") from problem
        except RuntimeError as problem:
            if not self._closed:
                raise
            raise UnavailableError("the connection was closed") from problem

    # --- what requests need -------------------------------------------------------------------------------

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
                # Watches are not counted, and all else is by us.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=[*_HEADERS, *self._access.headers],
                read_bufsize=_BUFFER,
            )
        return self._session


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _told(problem: Exception) -> str:
    """What an exception says; some say nothing but their name."""
    return str(problem) or type(problem).__name__


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """A large body is handed over in pieces, so that others get their turn in between."""
    return io.BytesIO(body) if body is not None and len(body) > _LARGE else body
