"""Messages over a socket: a length, then named arrays in numpy's own format. Nothing is unpickled."""

import io
import socket
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Message = dict[str, NDArray[Any]]

_LENGTH = struct.Struct("!Q")


def send(connection: socket.socket, message: Message) -> None:
    """Send a message."""
    text = encode(message)
    connection.sendall(_LENGTH.pack(len(text)) + text)


def receive(connection: socket.socket) -> Message:
    """Receive a message; ConnectionError if the other side is gone."""
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    return decode(_read(connection, length))


def encode(message: Message) -> bytes:
    """Return the text of a message."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **message)
    return file.getvalue()


def decode(text: bytes) -> Message:
    """Return the message of a text."""
    with np.load(io.BytesIO(text), allow_pickle=False) as arrays:
        return dict(arrays)


def _read(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
