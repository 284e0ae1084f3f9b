"""Sessions: a command in a container, and its client at the other end of a WebSocket.

Neither reads faster than the other takes. When the client has gone, or the server is to end, so does the
command.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from shoal.cluster.embedded.api.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, ended, size_of
from shoal.cluster.embedded.api.failures import status_of
from shoal.cluster.embedded.api.kubelet import Execution, Run
from shoal.cluster.errors import ClusterError, UnavailableError

_PIECE: Final = 32 * 1024
"""As much as kubectl reads at once."""

_STALL: Final = 10.0
"""Seconds after which a command that does not take its input raises the question whether anybody is still
there: a connection that nobody reads from does not tell that its other end has gone."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, and which of its streams are wanted."""

    argv: list[str]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class Session:
    """One command, once nothing is in its way; to the server it is an answer like any other."""

    def __init__(self, run: Run, command: Command, protocol: str, stopping: asyncio.Event) -> None:
        self._run, self._command, self._protocol, self._stopping = run, command, protocol, stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the command, as long as both sides are there."""
        socket = WebSocket(scope, receive, send)
        with contextlib.suppress(WebSocketDisconnect):
            await socket.accept(self._protocol)
            try:
                command = self._command
                execution = await self._run.execute(command.argv, tty=command.tty, stdin=command.stdin)
                await self._tie(socket, execution)
            except ClusterError as error:
                await _say(socket, status_of(error))
            await socket.close()

    async def _tie(self, socket: WebSocket, execution: Execution) -> None:
        """Until the command has told everything, the client has gone, or the server is to end."""
        telling = _tell(socket, execution, self._command)
        hearing = _hear(socket, execution)
        tasks = [asyncio.ensure_future(work) for work in (telling, hearing, self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            execution.kill()
            await _cancelled(tasks)
        if not tasks[0].cancelled():
            tasks[0].result()
        elif self._stopping.is_set():
            raise UnavailableError("the server is ending, and so was the command")


async def _cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _tell(socket: WebSocket, execution: Execution, command: Command) -> None:
    """All that the command writes; at last, how it ended."""
    await asyncio.gather(
        _copy(execution.stdout, socket, STDOUT if command.stdout else None),
        _copy(execution.stderr, socket, STDERR if command.stderr else None),
    )
    await _say(socket, ended(await execution.wait()))


async def _copy(source: asyncio.StreamReader | None, socket: WebSocket, channel: bytes | None) -> None:
    """What is read goes to a channel, or nowhere: a command must not wait for who does not want to know."""
    while source is not None and (piece := await source.read(_PIECE)):
        if channel is not None:
            await _send(socket, channel, piece)


async def _hear(socket: WebSocket, execution: Execution) -> None:
    """All that the client sends, until it has gone."""
    while (message := await socket.receive())["type"] == "websocket.receive":
        data = message.get("bytes") or b""
        channel, said = data[:1], data[1:]
        if channel == RESIZE and (size := size_of(said)):
            execution.resize(size.height, size.width)
        elif execution.stdin is None or execution.stdin.is_closing():
            continue
        elif channel == STDIN:
            await _feed(execution.stdin, said, socket)
        elif data == CLOSE + STDIN:
            execution.stdin.close()


async def _feed(stdin: asyncio.StreamWriter, data: bytes, socket: WebSocket) -> None:
    """Give a command its input, and come back once it has taken it."""
    stdin.write(data)
    taken = asyncio.ensure_future(stdin.drain())
    try:
        while not (await asyncio.wait([taken], timeout=_STALL))[0]:
            await _send(socket, ERROR)
        taken.result()
    except OSError:
        stdin.close()  # it wants no more
    finally:
        taken.cancel()


async def _say(socket: WebSocket, status: dict[str, Any]) -> None:
    await _send(socket, ERROR, msgspec.json.encode(status))


async def _send(socket: WebSocket, channel: bytes, data: bytes = b"") -> None:
    await socket.send_bytes(channel + data)
