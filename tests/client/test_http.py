"""Requests one after another: what is tried again, what is said, and what is never done twice."""

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
from tests.cluster.kubernetes.scripted import ABORT, Answer, Scripted, answer, refusal

T = TypeVar("T")
FOUND = answer(200, {"kind": "Pod", "metadata": {"name": "a"}})


async def told(script: list[Answer], do: Callable[[Client], T]) -> tuple[T, list[str]]:
    """What came of asking a server that answers like this, and what it was asked."""
    async with Scripted(script).serving() as server:
        client = Client(token_access(server.url, "t"))
        try:
            return await asyncio.to_thread(do, client), server.lines
        finally:
            client.close()


def get(client: Client) -> str:
    return str(client.get(PODS, "a", "ns")["metadata"]["name"])


def make(client: Client) -> str:
    return str(client.create(PODS, {"metadata": {"name": "a"}}, "ns")["metadata"]["name"])


async def test_an_object() -> None:
    assert await told([FOUND], get) == ("a", ["GET /api/v1/namespaces/ns/pods/a"])


async def test_names_may_have_any_characters() -> None:
    _, asked = await told([FOUND], lambda client: client.get(PODS, "a/../b?c", "n s"))
    assert asked == ["GET /api/v1/namespaces/n%20s/pods/a%2F..%2Fb%3Fc"]


async def test_a_busy_server_is_asked_again() -> None:
    found, asked = await told([refusal(429, Retry_After="0"), FOUND], get)
    assert (found, len(asked)) == ("a", 2)


async def test_who_is_asked_to_wait_too_long_is_told() -> None:
    with pytest.raises(TooManyRequestsError):
        await told([refusal(429, Retry_After="3600")], get)


async def test_an_eviction_is_not_repeated_unasked() -> None:
    with pytest.raises(TooManyRequestsError):
        await told([refusal(429, Retry_After="0"), FOUND], lambda client: client.evict("a", "ns", options={}))


REFUSALS: dict[int, type[ClusterError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    503: UnavailableError,
}


@pytest.mark.parametrize("code, error", REFUSALS.items())
async def test_refusals_are_errors(code: int, error: type[ClusterError]) -> None:
    with pytest.raises(error, match="no"):
        await told([refusal(code)], get)


async def test_a_connection_that_breaks_is_said_in_one_line() -> None:
    with pytest.raises(UnavailableError, match="cannot be reached") as caught:
        await told([[ABORT]], make)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
async def test_an_output_that_fails_while_a_stream_is_read_is_not_the_servers_fault(number: int) -> None:
    def copy(client: Client) -> None:
        with client.stream("/api/v1/namespaces/ns/pods/a/log", {}):
            raise OSError(number, "of the output")

    with pytest.raises(OSError, match="of the output"):
        await told([FOUND], copy)


async def test_a_read_is_repeated_on_a_connection_that_had_gone() -> None:
    def twice(client: Client) -> str:
        return get(client) + get(client)

    found, asked = await told([FOUND, [ABORT], FOUND], twice)
    assert (found, len(asked)) == ("aa", 3)


async def test_a_write_is_never_repeated() -> None:
    def read_then_write(client: Client) -> str:
        return get(client) + make(client)

    async with Scripted([FOUND, [ABORT], FOUND]).serving() as server:
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(read_then_write, Client(token_access(server.url, "t")))
    assert [line.split()[0] for line in server.lines] == ["GET", "POST"]


class Renewing:
    """Somebody whose credentials a program issues, anew when they are refused."""

    def __init__(self) -> None:
        self.issued = 0

    async def credentials(self) -> Credentials:
        await asyncio.sleep(0)
        return Credentials(f"Bearer {self.issued}")

    def reject(self, credentials: Credentials) -> bool:
        assert credentials.authorization == f"Bearer {self.issued}"
        self.issued += 1
        return self.issued == 1


@pytest.mark.parametrize("script, asked", [([FOUND], ["0"]), ([refusal(401), FOUND], ["0", "1"])])
async def test_credentials_that_are_issued(script: list[Answer], asked: list[str]) -> None:
    async with Scripted(list(script)).serving() as server:
        access = msgspec.structs.replace(token_access(server.url, ""), credential_source=Renewing())
        client = Client(access)
        assert await asyncio.to_thread(get, client) == "a"
        client.close()
    assert [one.headers["Authorization"] for one in server.asked] == [f"Bearer {number}" for number in asked]


async def test_who_is_not_let_in_twice_is_told() -> None:
    async with Scripted([refusal(401)]).serving() as server:
        client = Client(msgspec.structs.replace(token_access(server.url, ""), credential_source=Renewing()))
        with pytest.raises(UnauthorizedError):
            await asyncio.to_thread(get, client)
        client.close()


def test_a_server_that_is_not_there_is_said() -> None:
    client = Client(token_access("http://127.0.0.1:1", "t"))
    with pytest.raises(UnavailableError, match=r"http://127.0.0.1:1 cannot be reached: Connection refused"):
        get(client)
