"""Requests to an API server, one after another over one connection; each stream has its own connection.

A request is retried only if it was certainly not executed, or may be executed twice: when the server asks to
retry later (429), a read on a kept connection that was closed meanwhile, and once after 401 if there are new
credentials.
"""

import contextlib
import errno
import io
import ssl
import time
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

import shoal
from shoal.client.connection import Connection, ProtocolError, Response, UnreachableError
from shoal.cluster.errors import TooManyRequestsError, UnauthorizedError, from_status
from shoal.cluster.kubernetes.access import Access, Credentials, StaticCredentials, TokenFileCredentials
from shoal.cluster.kubernetes.wire import JSON, parse_retry_after, parse_status

STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_FIRST_ERROR: Final = 400
_MAX_RETRIES: Final = 6
_MAX_RETRY_AFTER: Final = 30.0
"""Longest delay, in seconds, that a server may ask for before a retry."""
_DEFAULT_RETRY_AFTER: Final = 1.0
"""Seconds to wait after 429 without a Retry-After."""
_RESPONSE_TIMEOUT: Final = 60.0
"""Seconds that a server may send nothing while a response is read."""
_KEEPALIVE_TIMEOUT: Final = 2.0
"""Seconds after which a kept connection is not used again: servers close idle ones."""
_BUFFER_SIZE: Final = 2**16
_OUTPUT_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing a stream to its destination, never of reading it from the server."""

Query = Mapping[str, str | int | bool]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `retry_busy`: retry after 429, rather than raise."""

    method: str = "GET"
    path: str
    query: Query = {}
    body: Any = None
    media: str = JSON
    accept: str = JSON
    retry_busy: bool = True

    @property
    def target(self) -> str:
        """Path and query of the URL."""
        query = {key: _to_string(value) for key, value in self.query.items() if value not in ("", None)}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    def headers(self) -> dict[str, str]:
        """Return the headers, without credentials."""
        headers = {"Accept": self.accept, "User-Agent": f"shoal/{shoal.__version__}"}
        return headers if self.body is None else {**headers, "Content-Type": self.media}


class HttpClient:
    """Sends requests to one API server."""

    def __init__(self, access: Access) -> None:
        self.access: Final = access
        self._kept: tuple[Connection, float] | None = None
        """The connection of the last request, and when it was used."""

    def request(self, request: Request) -> bytes:
        """Send a request and return the body of the response; ClusterError if it fails."""
        for _ in range(_MAX_RETRIES):
            try:
                return self._authenticate_and_send(request)
            except TooManyRequestsError as error:
                if not request.retry_busy or (error.retry_after or 0) > _MAX_RETRY_AFTER:
                    raise
                time.sleep(_DEFAULT_RETRY_AFTER if error.retry_after is None else error.retry_after)
        return self._authenticate_and_send(request)

    @contextlib.contextmanager
    def stream(self, request: Request, *, idle_timeout: float | None = None) -> Iterator[io.BufferedReader]:
        """Send a request and yield the response, to be read as it arrives.

        `idle_timeout` is the number of seconds that the server may send nothing; None for no limit.
        """
        credentials = self.credentials()
        with contextlib.closing(Connection(self.access, credentials, idle_timeout)) as connection:
            with self._translate_errors():
                response = self._send(connection, request, credentials)
                if response.status >= _FIRST_ERROR:
                    _check(response, response.read())
            with self._translate_errors(but=_OUTPUT_ERRORS):
                yield io.BufferedReader(response, _BUFFER_SIZE)

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    def credentials(self) -> Credentials:
        """Return the credentials that are valid now. Only plugins need an event loop, and import one."""
        source = self.access.credential_source
        if isinstance(source, StaticCredentials | TokenFileCredentials):
            return source.read()
        import asyncio  # noqa: PLC0415 - slow to import, and rarely needed

        return asyncio.run(_request_credentials(self.access))

    def headers(self, credentials: Credentials) -> dict[str, str]:
        """Return the headers of the access and its credentials."""
        headers = dict(self.access.headers)
        return (
            {**headers, "Authorization": credentials.authorization} if credentials.authorization else headers
        )

    # --- connections --------------------------------------------------------------------------------------

    def _authenticate_and_send(self, request: Request) -> bytes:
        credentials = self.credentials()
        try:
            return self._send_and_read(request, credentials)
        except UnauthorizedError:
            if not self.access.credential_source.reject(credentials):
                raise
        return self._send_and_read(request, self.credentials())

    def _send_and_read(self, request: Request, credentials: Credentials) -> bytes:
        """Send a request once; a read is sent again if the kept connection turns out to be closed."""
        with self._translate_errors():
            kept = self._take_kept()
            if kept is not None and request.method == "GET":
                with contextlib.suppress(ConnectionError):
                    return self._exchange(kept, request, credentials)
                kept = None
            connection = kept or Connection(self.access, credentials, _RESPONSE_TIMEOUT)
            return self._exchange(connection, request, credentials)

    def _take_kept(self) -> Connection | None:
        """Take the connection of the last request, if it is recent enough to be still open."""
        kept, self._kept = self._kept, None
        if kept is None or time.monotonic() - kept[1] < _KEEPALIVE_TIMEOUT:
            return kept and kept[0]
        kept[0].close()
        return None

    def _exchange(self, connection: Connection, request: Request, credentials: Credentials) -> bytes:
        try:
            response = self._send(connection, request, credentials)
            text = response.read()
        except BaseException:
            connection.close()
            raise
        if response.reusable:
            self._kept = (connection, time.monotonic())
        else:
            connection.close()
        _check(response, text)
        return text

    def _send(self, connection: Connection, request: Request, credentials: Credentials) -> Response:
        body = None if request.body is None else msgspec.json.encode(request.body)
        base = urlsplit(self.access.url).path.rstrip("/")
        headers = {**request.headers(), **self.headers(credentials)}
        return connection.request(request.method, base + request.target, headers, body)

    @contextlib.contextmanager
    def _translate_errors(self, but: Container[int | None] = ()) -> Iterator[None]:
        """Translate connection errors to UnreachableError; errors with these numbers are not about it."""
        try:
            yield
        except TimeoutError as error:
            raise UnreachableError(f"{self.access.url} does not answer") from error
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or str(error)
            raise UnreachableError(f"{self.access.url} cannot be verified: {why}") from error
        except (OSError, ProtocolError) as error:
            if getattr(error, "errno", None) in but:
                raise
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnreachableError(f"{self.access.url} cannot be reached: {why}") from error


async def _request_credentials(access: Access) -> Credentials:
    return await access.credential_source.credentials()


def _check(response: Response, text: bytes) -> None:
    """Raise the error of a failed response."""
    if response.status >= _FIRST_ERROR:
        retry_after = parse_retry_after(response.headers.get("retry-after", ""))
        raise from_status(parse_status(text), code=response.status, retry_after=retry_after)


def _to_string(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
