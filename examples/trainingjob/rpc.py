"""Requests and replies as lines of JSON over TCP. Every pod listens at its own address, on the job's port."""

import json
import os
import socket
import socketserver
import time
from collections.abc import Callable
from typing import Any, Final

PORT: Final = int(os.environ["PADDLE_INIT_PORT"])

Message = dict[str, Any]


def serve(answer: Callable[[Message], Message], leave: Callable[[str], None] = lambda _: None) -> None:
    """Answer requests without end; `leave` is called with the name of a client that has gone."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            name = ""
            try:
                for line in self.rfile:
                    request = json.loads(line)
                    name = request["from"]
                    self.wfile.write(json.dumps(answer(request)).encode() + b"\n")
            finally:
                leave(name)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server((os.environ["POD_IP"], PORT), Connection) as server:
        server.serve_forever()


class Client:
    """A connection to a server; if the server has gone, it waits until it is there again."""

    def __init__(self, name: str, host: str) -> None:
        self._name, self._host, self._stream = name, host, None

    def ask(self, **request: Any) -> Message:  # noqa: ANN401 - as JSON has it
        """Return the reply to a request."""
        line = json.dumps(request | {"from": self._name}).encode() + b"\n"
        while True:
            try:
                self._stream = self._stream or socket.create_connection((self._host, PORT), 5).makefile("rwb")
                self._stream.write(line)
                self._stream.flush()
                reply: Message = json.loads(self._stream.readline() or b"null")
                if reply:
                    return reply
            except OSError:
                pass
            self._stream = None
            time.sleep(0.2)


def log(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - the log of the pod
