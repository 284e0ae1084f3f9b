"""A stand-in for the DI server: records requests, and answers as it is told."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TIMEOUT: Final = 30.0


class StubServer:
    """The requests so far, and the replies to the next ones: status and body; otherwise 200 and null."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, str, Any]] = []
        """Method, path, token, body."""
        self.replies: list[tuple[int, Any]] = []
        self._changed = threading.Condition()

    def record(self, method: str, path: str, token: str, body: object) -> tuple[int, Any]:
        with self._changed:
            self.requests.append((method, path, token, body))
            self._changed.notify_all()
            return self.replies.pop(0) if self.replies else (200, {"data": None})

    def wait_for_requests(self, count: int) -> list[Any]:
        """Wait for a number of requests; return their bodies."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, TIMEOUT)
            return [body for _, _, _, body in self.requests]


@contextlib.contextmanager
def stub_server() -> Iterator[StubServer]:
    """Run a stub on a free port."""
    stub = StubServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            status, body = stub.record(self.command, self.path, token, json.loads(text))
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_POST = do_DELETE = _answer  # noqa: N815 - names that the standard library looks for

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
