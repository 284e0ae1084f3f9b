"""WebSockets whose other end can be asked after, also while nothing is read from them.

A server learns from what it reads that a client has gone. Where it must not read any more, because a command
does not take what was read before, it has to ask the system.

Channels: how a command's streams share one WebSocket.

Every message begins with the number of its channel. The last that is said is a Status on the error channel:
how the command ended. Since version 5 a client can say that it will send no more on a channel, and so close
the standard input of a command that still writes.

Sessions: a command in a container, and its client at the other end of a WebSocket.

Neither reads faster than the other takes. When the client has gone, or the server is to end, so does the
command.
"""

import asyncio
import contextlib
import logging
import select
from asyncio import BaseTransport, WriteTransport
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from shoal.apiserver.http.responses import status_of
from shoal.cluster.errors import ClusterError, InternalError, NotFoundError, UnavailableError
from shoal.kubelet.runtime import Run
from shoal.kubelet.runtime.exec import Execution, Stdin

_STATE: Final = "state"
_TRANSPORT: Final = "transport"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's, which also hands on what it speaks through."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Take the connection over."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _TRANSPORT: transport}

    def shutdown(self) -> None:
        """Say goodbye, unless that has been said."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()


def has_gone(scope: Scope) -> bool:
    """Whether the client has closed its end, whatever of it is still to be read; then it is let go of."""
    transport: WriteTransport = scope[_STATE][_TRANSPORT]
    asking = select.poll()
    asking.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    gone = bool(asking.poll(0))
    if gone:
        transport.abort()  # there is nobody to say goodbye to
    return gone


PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STDIN: Final = b"\x00"
STDOUT: Final = b"\x01"
STDERR: Final = b"\x02"
ERROR: Final = b"\x03"
RESIZE: Final = b"\x04"
CLOSE: Final = b"\xff"


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of a terminal."""

    width: int = 0
    height: int = 0


def size_of(data: bytes) -> Size | None:
    """The size that a client tells, if it makes sense."""
    try:
        return msgspec.json.decode(data, type=Size)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def ended(code: int) -> dict[str, Any]:
    """The Status of a command that has ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


_log: Final = logging.getLogger(__name__)
_PIECE: Final = 32 * 1024
"""As much as kubectl reads at once."""

_STALL: Final = 1.0
"""Seconds after which a command that does not take its input raises the question whether its client is still
there: nothing more is read from it meanwhile."""


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
        """Run the command while both sides are there; however it ends, the client is told."""
        socket = WebSocket(scope, receive, send)
        with contextlib.suppress(WebSocketDisconnect):
            await socket.accept(self._protocol)
            try:
                await self._run_for(socket)
            except ClusterError as error:
                await _say(socket, status_of(error))
            except WebSocketDisconnect:
                raise
            except Exception:  # noqa: BLE001 - a fault of ours is told of like any other
                _log.exception("a command failed: %r", self._command.argv)
                await _say(socket, status_of(InternalError("an error on the server: its log says more")))
            await socket.close()

    async def _run_for(self, socket: WebSocket) -> None:
        command = self._command
        try:
            execution = await self._run.execute(command.argv, tty=command.tty, stdin=command.stdin)
        except ProcessLookupError as error:
            raise NotFoundError(str(error)) from None
        await self._tie(socket, execution)

    async def _tie(self, socket: WebSocket, execution: Execution) -> None:
        """Until the command has told everything, the client has gone, or the server is to end."""
        telling = asyncio.ensure_future(_tell(socket, execution, self._command))
        hearing = asyncio.ensure_future(_hear(socket, execution))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([telling, hearing, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            execution.kill()
            await _cancelled([telling, hearing, stopping])
        if telling.cancelled() and hearing.cancelled():
            raise UnavailableError("the server is ending, and so was the command")
        (hearing if telling.cancelled() else telling).result()


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
    """All that the client sends, until WebSocketDisconnect says that it has gone."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        data = message.get("bytes") or b""
        channel, said = data[:1], data[1:]
        if channel == RESIZE and (size := size_of(said)):
            execution.resize(size.height, size.width)
        elif channel == STDIN and execution.stdin:
            await _feed(execution.stdin, said, socket)
        elif data == CLOSE + STDIN and execution.stdin:
            execution.stdin.close()


async def _feed(stdin: Stdin, data: bytes, socket: WebSocket) -> None:
    """Give a command its input, and come back once it has taken it, or wants no more."""
    giving = asyncio.ensure_future(stdin.write(data))
    try:
        while not (await asyncio.wait([giving], timeout=_STALL))[0]:
            if has_gone(socket.scope):
                raise WebSocketDisconnect
    finally:
        giving.cancel()
    with contextlib.suppress(BrokenPipeError):
        giving.result()


async def _say(socket: WebSocket, status: dict[str, Any]) -> None:
    await _send(socket, ERROR, msgspec.json.encode(status))


async def _send(socket: WebSocket, channel: bytes, data: bytes = b"") -> None:
    await socket.send_bytes(channel + data)
