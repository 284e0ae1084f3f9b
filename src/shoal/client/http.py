"""Requests to an API server, one after another over one connection; streams have connections of their own.

Tried again is only what was certainly not done, or does no harm twice: what the server asks to try later
(429), reads on a connection that had gone stale, and once with new credentials what it did not let in.
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
from shoal.client.connection import Answer, Connection, NonsenseError
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
_BUFFER: Final = 2**16
_OF_THE_READER: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What goes wrong where an answer is put that is being read, and never with the reading."""

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
        self._kept: tuple[Connection, float] | None = None

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
    def stream(self, request: Request, *, silence: float | None = None) -> Iterator[io.BufferedReader]:
        """An answer that is read as it comes; `silence` is how long it may say nothing, in seconds."""
        credentials = self.credentials()
        with contextlib.closing(Connection(self.access, credentials, silence)) as connection:
            with self._told():
                answer = self._send(connection, request, credentials)
                if answer.status >= _FAILED:
                    _check(answer, answer.read())
            with self._told(but=_OF_THE_READER):
                yield io.BufferedReader(answer, _BUFFER)

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
                with contextlib.suppress(ConnectionError):
                    return self._read(kept, request, credentials)
                kept = None
            return self._read(kept or Connection(self.access, credentials, _ANSWER), request, credentials)

    def _take(self) -> Connection | None:
        """The connection of last time, if it is sure to be open still."""
        kept, self._kept = self._kept, None
        if kept is None or time.monotonic() - kept[1] < _STALE:
            return kept and kept[0]
        kept[0].close()
        return None

    def _read(self, connection: Connection, request: Request, credentials: Credentials) -> bytes:
        try:
            answer = self._send(connection, request, credentials)
            text = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.reusable:
            self._kept = (connection, time.monotonic())
        else:
            connection.close()
        _check(answer, text)
        return text

    def _send(self, connection: Connection, request: Request, credentials: Credentials) -> Answer:
        body = None if request.body is None else msgspec.json.encode(request.body)
        base = urlsplit(self.access.url).path.rstrip("/")
        headers = {**request.headers(), **self.headers(credentials)}
        return connection.ask(request.method, base + request.address, headers, body)

    @contextlib.contextmanager
    def _told(self, but: Container[int | None] = ()) -> Iterator[None]:
        """Say in one line why a server cannot be reached; errors of these numbers are none of its."""
        try:
            yield
        except TimeoutError as problem:
            raise UnreachableError(f"{self.access.url} does not answer") from problem
        except ssl.SSLError as problem:
            why = getattr(problem, "verify_message", "") or problem.reason or str(problem)
            raise UnreachableError(f"{self.access.url} is not whom it claims to be: {why}") from problem
        except (OSError, NonsenseError) as problem:
            if getattr(problem, "errno", None) in but:
                raise
            why = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            raise UnreachableError(f"{self.access.url} cannot be reached: {why}") from problem


async def _issued(access: Access) -> Credentials:
    return await access.identity.credentials()


def _check(answer: Answer, text: bytes) -> None:
    """Raise what an answer says, if that is an error."""
    if answer.status >= _FAILED:
        said = answer.headers.get("retry-after", "")
        later = float(said) if said.isdigit() else None
        raise from_status(status_of(text), code=answer.status, retry_after=later)


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
