"""Requests to an API server, one after another over one connection; streams have connections of their own.

Tried again is only what was certainly not done, or does no harm twice: what the server asks to try later
(429), reads on a connection that had gone stale, and once with new credentials what it did not let in.
"""

import contextlib
import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

import shoal
from shoal.client.errors import UnreachableError
from shoal.cluster.errors import TooManyRequestsError, UnauthorizedError, from_status
from shoal.cluster.kubernetes.access import Access, Constant, Credentials, TokenFile
from shoal.cluster.kubernetes.wire import status_of

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_FAILED: Final = 400
_TRIES: Final = 6
_PATIENCE: Final = 30.0
"""The longest that a request waits because the server asks it to, in seconds."""
_ANSWER: Final = 60.0
"""The longest that an answer may take."""
_STALE: Final = 2.0
"""Seconds after which a connection is not trusted to be open still: servers close those that are idle."""

Query = Mapping[str, str | int | bool]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `patient` if it is worth trying again when the server says later."""

    method: str = "GET"
    path: str
    query: Query = {}
    body: Any = None
    media: str = JSON
    accept: str = JSON
    patient: bool = True

    @property
    def address(self) -> str:
        """Path and query, as HTTP has them."""
        said = {key: _as_text(value) for key, value in self.query.items() if value not in ("", None)}
        return f"{self.path}?{urlencode(said)}" if said else self.path

    def headers(self) -> dict[str, str]:
        """What is said beside it, whoever asks."""
        made = {"Accept": self.accept, "User-Agent": f"shoal/{shoal.__version__}"}
        return made if self.body is None else {**made, "Content-Type": self.media}


class Http:
    """Speaks to one API server."""

    def __init__(self, access: Access) -> None:
        self.access: Final = access
        self._kept: tuple[http.client.HTTPConnection, float] | None = None

    def ask(self, request: Request) -> bytes:
        """The answer, whole; ClusterError if it is an error, or does not come."""
        for _ in range(_TRIES):
            try:
                return self._answer(request)
            except TooManyRequestsError as later:
                if not request.patient or (later.retry_after or 0) > _PATIENCE:
                    raise
                time.sleep(1.0 if later.retry_after is None else later.retry_after)
        return self._answer(request)

    @contextlib.contextmanager
    def stream(self, request: Request, *, silence: float | None = None) -> Iterator[http.client.HTTPResponse]:
        """An answer that is read as it comes; `silence` is how long it may say nothing, in seconds."""
        credentials = self.credentials()
        with contextlib.closing(connect(self.access, credentials, silence)) as connection, self._told():
            answer = self._send(connection, request, credentials)
            if answer.status >= _FAILED:
                _check(answer, answer.read())
            yield answer

    def close(self) -> None:
        """Let go of the connection."""
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    def credentials(self) -> Credentials:
        """Who we are now. Plugins need an event loop to be asked; nobody else pays for one."""
        identity = self.access.identity
        if isinstance(identity, Constant | TokenFile):
            return identity.at_once()
        import asyncio  # noqa: PLC0415 - slow, and for few

        return asyncio.run(_issued(self.access))

    def headers(self, credentials: Credentials) -> dict[str, str]:
        """What tells the server who we are."""
        said = dict(self.access.headers)
        return {**said, "Authorization": credentials.authorization} if credentials.authorization else said

    # --- connections --------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> bytes:
        credentials = self.credentials()
        try:
            return self._whole(request, credentials)
        except UnauthorizedError:
            if not self.access.identity.refused(credentials):
                raise
        return self._whole(request, self.credentials())

    def _whole(self, request: Request, credentials: Credentials) -> bytes:
        """One try; a read is made once more if the connection that was kept had gone."""
        with self._told():
            kept = self._take()
            if kept is not None and request.method == "GET":
                with contextlib.suppress(http.client.BadStatusLine, ConnectionError):
                    return self._read(kept, request, credentials)
                kept = None
            return self._read(kept or connect(self.access, credentials, _ANSWER), request, credentials)

    def _take(self) -> http.client.HTTPConnection | None:
        """The connection of last time, if it is sure to be open still."""
        kept, self._kept = self._kept, None
        if kept is None or time.monotonic() - kept[1] < _STALE:
            return kept and kept[0]
        kept[0].close()
        return None

    def _read(
        self, connection: http.client.HTTPConnection, request: Request, credentials: Credentials
    ) -> bytes:
        try:
            answer = self._send(connection, request, credentials)
            text = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._kept = (connection, time.monotonic())
        _check(answer, text)
        return text

    def _send(
        self, connection: http.client.HTTPConnection, request: Request, credentials: Credentials
    ) -> http.client.HTTPResponse:
        body = None if request.body is None else msgspec.json.encode(request.body)
        base = urlsplit(self.access.url).path.rstrip("/")
        headers = {**request.headers(), **self.headers(credentials)}
        connection.request(request.method, base + request.address, body, headers)
        return connection.getresponse()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one line why a server cannot be reached."""
        try:
            yield
        except TimeoutError as problem:
            raise UnreachableError(f"{self.access.url} does not answer") from problem
        except ssl.SSLError as problem:
            why = getattr(problem, "verify_message", "") or problem.reason or str(problem)
            raise UnreachableError(f"{self.access.url} is not whom it claims to be: {why}") from problem
        except (OSError, http.client.HTTPException) as problem:
            why = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            raise UnreachableError(f"{self.access.url} cannot be reached: {why}") from problem


class _Tls(http.client.HTTPSConnection):
    """A connection to a server whose certificate may say another name than its address."""

    def __init__(
        self, host: str, port: int, *, name: str, context: ssl.SSLContext, timeout: float | None
    ) -> None:
        super().__init__(host, port, context=context, timeout=timeout)
        self._name, self._tls = name, context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def connect(access: Access, credentials: Credentials, silence: float | None) -> http.client.HTTPConnection:
    """A connection to a server, through its proxy if it has one; it is made when something is sent."""
    place, proxy = urlsplit(access.url), urlsplit(access.proxy)
    near = proxy if access.proxy else place
    host, port = near.hostname or "", near.port or (443 if near.scheme == "https" else 80)
    if access.proxy and proxy.scheme != "http":
        raise UnreachableError(f"a proxy such as {access.proxy!r} is not spoken to; http://… are")
    if place.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=silence)
    else:
        context = access.tls.context(credentials.certificate)
        name = access.server_name or place.hostname or ""
        connection = _Tls(host, port, name=name, context=context, timeout=silence)
    if access.proxy:
        connection.set_tunnel(place.hostname or "", place.port or 443)
    return connection


async def _issued(access: Access) -> Credentials:
    return await access.identity.credentials()


def _check(answer: http.client.HTTPResponse, text: bytes) -> None:
    """Raise what an answer says, if that is an error."""
    if answer.status >= _FAILED:
        said = answer.headers.get("Retry-After", "")
        later = float(said) if said.isdigit() else None
        raise from_status(status_of(text), code=answer.status, retry_after=later)


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
