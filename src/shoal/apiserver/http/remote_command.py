"""Remote commands (kubectl exec): a command in a container, connected to a client by a WebSocket.

The streams of the command share the WebSocket: every message starts with the number of its channel. The last
message is a Status on the error channel, with the exit code. Since version 5 of the protocol a client can
close a channel, and so the standard input of a command that still writes.

There is back-pressure in both directions. When the client disconnects or the server stops, the command is
killed. While the command does not read its input, nothing is read from the WebSocket, so a disconnect is
detected by polling the socket.
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
    """uvicorn's WebSocket protocol; adds its transport to the state of the scope."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Store the transport."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _TRANSPORT: transport}

    def shutdown(self) -> None:
        """Close the connection, unless it is closing already."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()


def client_disconnected(scope: Scope) -> bool:
    """Whether the client has closed its end, even if unread data remains; then abort the connection."""
    transport: WriteTransport = scope[_STATE][_TRANSPORT]
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    gone = bool(poll.poll(0))
    if gone:
        transport.abort()  # no client to send a close frame to
    return gone


PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STDIN: Final = b"\x00"
STDOUT: Final = b"\x01"
STDERR: Final = b"\x02"
ERROR: Final = b"\x03"
RESIZE: Final = b"\x04"
CLOSE: Final = b"\xff"


class TerminalSize(msgspec.Struct, frozen=True, rename="pascal"):
    """Size of a terminal in characters."""

    width: int = 0
    height: int = 0


def parse_size(data: bytes) -> TerminalSize | None:
    """Decode a terminal size; None if it is invalid."""
    try:
        return msgspec.json.decode(data, type=TerminalSize)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def exit_status(code: int) -> dict[str, Any]:
    """Return the Status for an exit code."""
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
_CHUNK_SIZE: Final = 32 * 1024
"""Bytes per message: the read size of kubectl."""

_STALL_SECONDS: Final = 1.0
"""Seconds between checks for a disconnect while the command does not read its input."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run, and the streams that the client requested."""

    argv: list[str]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class Session:
    """ASGI response that runs one command over a WebSocket."""

    def __init__(self, run: Run, command: Command, protocol: str, stopping: asyncio.Event) -> None:
        self._run, self._command, self._protocol, self._stopping = run, command, protocol, stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the command until it or the connection ends, and send its Status."""
        socket = WebSocket(scope, receive, send)
        with contextlib.suppress(WebSocketDisconnect):
            await socket.accept(self._protocol)
            try:
                await self._execute(socket)
            except ClusterError as error:
                await _send_status(socket, status_of(error))
            except WebSocketDisconnect:
                raise
            except Exception:  # noqa: BLE001 - internal errors are sent as a Status
                _log.exception("a command failed: %r", self._command.argv)
                await _send_status(socket, status_of(InternalError("internal error; see the server's log")))
            await socket.close()

    async def _execute(self, socket: WebSocket) -> None:
        command = self._command
        try:
            execution = await self._run.execute(command.argv, tty=command.tty, stdin=command.stdin)
        except ProcessLookupError as error:
            raise NotFoundError(str(error)) from None
        await self._relay(socket, execution)

    async def _relay(self, socket: WebSocket, execution: Execution) -> None:
        """Relay until the command ends, the client disconnects or the server stops; then kill the command."""
        sending = asyncio.ensure_future(_send_output(socket, execution, self._command))
        receiving = asyncio.ensure_future(_receive_input(socket, execution))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([sending, receiving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            execution.kill()
            await _cancel([sending, receiving, stopping])
        if sending.cancelled() and receiving.cancelled():
            raise UnavailableError("the server is shutting down; the command was stopped")
        (receiving if sending.cancelled() else sending).result()


async def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _send_output(socket: WebSocket, execution: Execution, command: Command) -> None:
    """Send the output of the command, then its exit Status."""
    await asyncio.gather(
        _copy(execution.stdout, socket, STDOUT if command.stdout else None),
        _copy(execution.stderr, socket, STDERR if command.stderr else None),
    )
    await _send_status(socket, exit_status(await execution.wait()))


async def _copy(source: asyncio.StreamReader | None, socket: WebSocket, channel: bytes | None) -> None:
    """Copy a stream to a channel; without one, discard it, so that the command does not block."""
    while source is not None and (chunk := await source.read(_CHUNK_SIZE)):
        if channel is not None:
            await _send(socket, channel, chunk)


async def _receive_input(socket: WebSocket, execution: Execution) -> None:
    """Process messages of the client until WebSocketDisconnect."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        data = message.get("bytes") or b""
        channel, payload = data[:1], data[1:]
        if channel == RESIZE and (size := parse_size(payload)):
            execution.resize(size.height, size.width)
        elif channel == STDIN and execution.stdin:
            await _write_stdin(execution.stdin, payload, socket)
        elif data == CLOSE + STDIN and execution.stdin:
            execution.stdin.close()


async def _write_stdin(stdin: Stdin, data: bytes, socket: WebSocket) -> None:
    """Write to the command's input; returns when it is written, or the command has closed it."""
    writing = asyncio.ensure_future(stdin.write(data))
    try:
        while not (await asyncio.wait([writing], timeout=_STALL_SECONDS))[0]:
            if client_disconnected(socket.scope):
                raise WebSocketDisconnect
    finally:
        writing.cancel()
    with contextlib.suppress(BrokenPipeError):
        writing.result()


async def _send_status(socket: WebSocket, status: dict[str, Any]) -> None:
    await _send(socket, ERROR, msgspec.json.encode(status))


async def _send(socket: WebSocket, channel: bytes, data: bytes = b"") -> None:
    await socket.send_bytes(channel + data)
