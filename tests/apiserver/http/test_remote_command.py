"""Sessions of remote commands: back-pressure between a command and its client, errors and shutdown."""

import asyncio
import json
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest

from shoal.apiserver.http.remote_command import Command, Session
from shoal.cluster.errors import BadRequestError

BOTH = Command(argv=["x"], stdin=True, stdout=True, stderr=False, tty=False)
PIECE = 32 * 1024


class FakeStdin:
    """Standard input of a command that accepts data when the test allows."""

    def __init__(self) -> None:
        self.given, self.taking, self.closed = b"", asyncio.Event(), False

    async def write(self, data: bytes) -> None:
        self.given += data
        await self.taking.wait()
        if self.closed:
            raise BrokenPipeError

    def close(self) -> None:
        self.closed = True


class FakeRun:
    """A container run with a single command."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.killed, self.code = failure, asyncio.Event(), asyncio.Future[int]()
        self.stdin, self.stdout, self.stderr = FakeStdin(), asyncio.StreamReader(), None
        self.log: Any = None

    async def execute(self, argv: Sequence[str], *, tty: bool, stdin: bool) -> "FakeRun":
        if self.failure:
            raise self.failure
        return self

    async def wait(self) -> int:
        return await self.code

    def resize(self, rows: int, columns: int) -> None:
        """Ignore the size."""

    def kill(self) -> None:
        self.killed.set()


class FakeClient:
    """Client side of a WebSocket that reads messages one by one."""

    def __init__(self, run: Any) -> None:  # noqa: ANN401
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.got: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue(1)
        self.stopping = asyncio.Event()
        self.send({"type": "websocket.connect"})
        session = Session(run, BOTH, "v5.channel.k8s.io", self.stopping)
        self.task = asyncio.create_task(session({"type": "websocket"}, self.sent.get, self.got.put))

    def send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.sent.put_nowait(message)

    def write(self, *pieces: bytes) -> None:
        self.send(*({"type": "websocket.receive", "bytes": b"\0" + piece} for piece in pieces))

    async def read(self) -> bytes:
        message = await self.got.get()
        return bytes(message.get("bytes", b"")) or message["type"].encode()

    async def remaining(self) -> list[bytes]:
        """Return all messages after the handshake."""
        return [said async for said in self._next_message()][1:-1]

    async def _next_message(self) -> Any:  # noqa: ANN401
        said = b""
        while said != b"websocket.close":
            said = await self.read()
            yield said


async def settle() -> None:
    """Run all tasks until they block."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_client_that_does_not_read_blocks_the_command() -> None:
    run = FakeRun()
    client = FakeClient(run)
    run.stdout.feed_data(bytes(100 * PIECE))
    await settle()
    left = len(run.stdout._buffer)  # type: ignore[attr-defined] # what was not read yet
    assert left >= 98 * PIECE
    for _ in range(10):
        await client.read()
        await settle()
    assert len(run.stdout._buffer) < left  # type: ignore[attr-defined]
    client.task.cancel()
    await asyncio.gather(client.task, return_exceptions=True)
    assert run.killed.is_set()


async def test_a_command_that_does_not_read_blocks_the_client() -> None:
    run = FakeRun()
    client = FakeClient(run)
    await client.read()
    client.write(b"one", b"two", b"three")
    await settle()
    assert run.stdin.given == b"one"
    run.stdin.taking.set()
    await settle()
    assert run.stdin.given == b"onetwothree"
    client.send({"type": "websocket.disconnect", "code": 1006})
    await run.killed.wait()


async def test_a_command_that_closed_stdin_still_reports_its_exit_status() -> None:
    run = FakeRun()
    client = FakeClient(run)
    await client.read()
    client.write(b"one", b"two")
    await settle()
    run.stdin.closed = True
    run.stdin.taking.set()
    await settle()
    run.stdout.feed_eof()
    run.code.set_result(0)
    assert await client.read() == b'\3{"metadata":{},"status":"Success"}'


@pytest.mark.parametrize(
    "failure, reason, words",
    [
        (BadRequestError("no such command"), "BadRequest", "no such command"),
        (ZeroDivisionError("oops"), "InternalError", "see the server's log"),
    ],
    ids=["a refusal", "a fault"],
)
async def test_a_command_that_cannot_start_is_reported(failure: Exception, reason: str, words: str) -> None:
    client = FakeClient(FakeRun(failure))
    (said,) = await client.remaining()
    status = json.loads(said[1:])
    assert (said[:1], status["reason"]) == (b"\3", reason)
    assert words in status["message"]


async def test_shutdown_kills_the_command_and_reports_it() -> None:
    run = FakeRun()
    client = FakeClient(run)
    await client.read()
    await settle()
    client.stopping.set()
    status = json.loads((await client.read())[1:])
    assert run.killed.is_set()
    assert status["reason"] == "ServiceUnavailable"
