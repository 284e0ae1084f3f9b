"""Requests one after another: what is retried, what is never sent twice, and which errors are raised."""

import asyncio
import errno
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from shoal.client.client import Client
from shoal.cluster.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from shoal.cluster.kubernetes.access import Credentials, token_access
from shoal.cluster.resources import PODS
from tests.cluster.kubernetes.scripted_server import (
    ABORT,
    ResponseScript,
    ScriptedServer,
    error_response,
    response,
)

T = TypeVar("T")
FOUND = response(200, {"kind": "Pod", "metadata": {"name": "a"}})


async def run(script: list[ResponseScript], do: Callable[[Client], T]) -> tuple[T, list[str]]:
    """Run requests against a server with this script; return the result and the request lines."""
    async with ScriptedServer(script).serving() as server:
        client = Client(token_access(server.url, "t"))
        try:
            return await asyncio.to_thread(do, client), server.request_lines
        finally:
            client.close()


def get(client: Client) -> str:
    return str(client.get(PODS, "a", "ns")["metadata"]["name"])


def create(client: Client) -> str:
    return str(client.create(PODS, {"metadata": {"name": "a"}}, "ns")["metadata"]["name"])


async def test_get() -> None:
    assert await run([FOUND], get) == ("a", ["GET /api/v1/namespaces/ns/pods/a"])


async def test_names_are_quoted() -> None:
    _, requests = await run([FOUND], lambda client: client.get(PODS, "a/../b?c", "n s"))
    assert requests == ["GET /api/v1/namespaces/n%20s/pods/a%2F..%2Fb%3Fc"]


async def test_a_busy_server_is_retried() -> None:
    found, requests = await run([error_response(429, Retry_After="0"), FOUND], get)
    assert (found, len(requests)) == ("a", 2)


async def test_a_retry_after_that_is_too_long_is_an_error() -> None:
    with pytest.raises(TooManyRequestsError):
        await run([error_response(429, Retry_After="3600")], get)


async def test_an_eviction_is_not_retried() -> None:
    with pytest.raises(TooManyRequestsError):
        await run(
            [error_response(429, Retry_After="0"), FOUND], lambda client: client.evict("a", "ns", options={})
        )


ERRORS: dict[int, type[ClusterError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    503: UnavailableError,
}


@pytest.mark.parametrize("code, error", ERRORS.items())
async def test_error_responses(code: int, error: type[ClusterError]) -> None:
    with pytest.raises(error, match="no"):
        await run([error_response(code)], get)


async def test_a_broken_connection_is_reported_in_one_line() -> None:
    with pytest.raises(UnavailableError, match="cannot be reached") as caught:
        await run([[ABORT]], create)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
async def test_an_error_of_the_output_is_not_translated(number: int) -> None:
    def copy(client: Client) -> None:
        with client.stream("/api/v1/namespaces/ns/pods/a/log", {}):
            raise OSError(number, "of the output")

    with pytest.raises(OSError, match="of the output"):
        await run([FOUND], copy)


async def test_a_read_is_retried_if_the_kept_connection_was_closed() -> None:
    def twice(client: Client) -> str:
        return get(client) + get(client)

    found, requests = await run([FOUND, [ABORT], FOUND], twice)
    assert (found, len(requests)) == ("aa", 3)


async def test_a_write_is_never_retried() -> None:
    def read_then_write(client: Client) -> str:
        return get(client) + create(client)

    async with ScriptedServer([FOUND, [ABORT], FOUND]).serving() as server:
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(read_then_write, Client(token_access(server.url, "t")))
    assert [line.split()[0] for line in server.request_lines] == ["GET", "POST"]


class RenewingCredentials:
    """Credentials of a plugin, which issues others when they are rejected."""

    def __init__(self) -> None:
        self.issued = 0

    async def credentials(self) -> Credentials:
        await asyncio.sleep(0)
        return Credentials(f"Bearer {self.issued}")

    def reject(self, credentials: Credentials) -> bool:
        assert credentials.authorization == f"Bearer {self.issued}"
        self.issued += 1
        return self.issued == 1


@pytest.mark.parametrize("script, tokens", [([FOUND], ["0"]), ([error_response(401), FOUND], ["0", "1"])])
async def test_credentials_are_renewed_once(script: list[ResponseScript], tokens: list[str]) -> None:
    async with ScriptedServer(list(script)).serving() as server:
        access = msgspec.structs.replace(
            token_access(server.url, ""), credential_source=RenewingCredentials()
        )
        client = Client(access)
        assert await asyncio.to_thread(get, client) == "a"
        client.close()
    assert [one.headers["Authorization"] for one in server.requests] == [
        f"Bearer {number}" for number in tokens
    ]


async def test_rejected_twice_is_an_error() -> None:
    async with ScriptedServer([error_response(401)]).serving() as server:
        client = Client(
            msgspec.structs.replace(token_access(server.url, ""), credential_source=RenewingCredentials())
        )
        with pytest.raises(UnauthorizedError):
            await asyncio.to_thread(get, client)
        client.close()


def test_an_unreachable_server() -> None:
    client = Client(token_access("http://127.0.0.1:1", "t"))
    with pytest.raises(UnavailableError, match=r"http://127.0.0.1:1 cannot be reached: Connection refused"):
        get(client)
