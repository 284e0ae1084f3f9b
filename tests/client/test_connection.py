"""Connections byte by byte: every encoding in which a response can end, and in which it can break."""

import contextlib
import io
import itertools
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.client.client import Client
from shoal.client.connection import Connection, ProtocolError, Response
from shoal.cluster.errors import UnavailableError
from shoal.cluster.kubernetes.access import Access, Credentials, token_access
from shoal.cluster.resources import PODS

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Length: 11\r\n\r\nhello\nworld"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n8\r\nlo\nworld\r\n0\r\n\r\n"
UNTIL_CLOSE = OK + b"\r\nhello\nworld"
AFTER_INFORMATIONAL = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH
RESPONSES = {
    "length": LENGTH,
    "chunked": CHUNKED,
    "until close": UNTIL_CLOSE,
    "100 before": AFTER_INFORMATIONAL,
}


@contextlib.contextmanager
def peer_sending(chunks: list[bytes]) -> Iterator[socket.socket]:
    """Yield a socket whose peer sends these chunks one by one, and closes the connection."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        with theirs, contextlib.suppress(OSError):
            for chunk in chunks:
                theirs.sendall(chunk)

    sender = threading.Thread(target=send)
    sender.start()
    with ours:
        yield ours
    sender.join()


def read_head(sock: socket.socket) -> Response:
    response = Response(sock)
    response.read_head()
    return response


@pytest.mark.parametrize("encoding", RESPONSES)
@given(cuts=st.sets(st.integers(1, 90)))
def test_a_response_does_not_depend_on_how_it_is_split(encoding: str, cuts: set[int]) -> None:
    text = RESPONSES[encoding]
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(places)]
    with peer_sending(chunks) as sock:
        response = read_head(sock)
        assert (response.status, response.read()) == (200, b"hello\nworld")
        assert response.reusable == (encoding != "until close")
    with peer_sending(chunks) as sock:
        assert list(io.BufferedReader(read_head(sock), 4)) == [b"hello\n", b"world"]


@pytest.mark.parametrize("encoding", ["length", "chunked", "100 before"])
def test_a_truncated_response_is_an_error(encoding: str) -> None:
    text = RESPONSES[encoding]
    for end in range(len(text)):
        with (
            peer_sending([text[:end]]) as sock,
            pytest.raises(ConnectionError, match="closed the connection"),
        ):
            read_head(sock).read()


def test_lines_before_the_truncation_are_read() -> None:
    with peer_sending([LENGTH[:-5]]) as sock:
        reader = io.BufferedReader(read_head(sock))
        assert reader.readline() == b"hello\n"
        with pytest.raises(ConnectionError):
            reader.readline()


NOT_REUSABLE = {
    "the server asks to close": OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "an excess response": OK + b"Content-Length: 2\r\n\r\nhi" + LENGTH,
}


@pytest.mark.parametrize("case", NOT_REUSABLE)
def test_a_connection_that_is_not_reusable(case: str) -> None:
    with peer_sending([NOT_REUSABLE[case]]) as sock:
        response = read_head(sock)
        assert response.read() == b"hi"
        assert not response.reusable


@pytest.mark.parametrize(
    "text", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02", b"HTTP/1.1 abc\r\n"]
)
def test_a_server_that_does_not_speak_http(text: bytes) -> None:
    with peer_sending([text]) as sock, pytest.raises(ProtocolError, match="does not speak HTTP"):
        read_head(sock)


def test_ctrl_c_while_a_response_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Response, "on_body", interrupted)
    with peer_sending([LENGTH]) as sock, pytest.raises(KeyboardInterrupt):
        read_head(sock).read()


# --- over a real connection --------------------------------------------------------------------------------


@contextlib.contextmanager
def server_sending(*responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the URL of a server that sends these responses on one connection, and the requests received."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                for response in responses:
                    text = b""
                    while b"\r\n\r\n" not in text and (more := sock.recv(65536)):
                        text += more
                    received.append(text)
                    sock.sendall(response)

        server = threading.Thread(target=serve)
        server.start()
        yield "http://{}:{}".format(*listener.getsockname()), received
        server.join()


FOUND = OK + b'Content-Length: 26\r\n\r\n{"metadata":{"name":"a"}}\n'


def access(url: str, proxy: str = "") -> Access:
    found = token_access(url, "t")
    return Access(url=url, tls=found.tls, credential_source=found.credential_source, proxy=proxy)


def test_a_connection_is_reused() -> None:
    with server_sending(FOUND, FOUND) as (url, received):
        client = Client(access(url))
        for _ in range(2):
            assert client.get(PODS, "a", "ns")["metadata"]["name"] == "a"
        client.close()
    assert received[0].startswith(b"GET /api/v1/namespaces/ns/pods/a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert received[0] == received[1]
    assert b"\r\nAuthorization: Bearer t\r\n" in received[0]


def test_a_tunnel_through_a_proxy() -> None:
    with server_sending(b"HTTP/1.1 200 Connection established\r\n\r\n", FOUND) as (proxy, received):
        client = Client(access("http://[::1]:6443/base", proxy))
        assert client.get(PODS, "a", "ns")["metadata"]["name"] == "a"
        client.close()
    assert received[0] == b"CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\n\r\n"
    assert received[1].startswith(b"GET /base/api/v1/namespaces/ns/pods/a HTTP/1.1\r\nHost: [::1]:6443\r\n")


def test_a_proxy_that_refuses() -> None:
    with server_sending(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as (proxy, _):
        client = Client(access("https://10.0.0.1:6443", proxy))
        with pytest.raises(UnavailableError, match="the proxy answers 403"):
            client.get(PODS, "a", "ns")


def test_an_unsupported_proxy() -> None:
    client = Client(access("https://10.0.0.1:6443", "https://127.0.0.1:1"))
    with pytest.raises(UnavailableError, match="unsupported proxy"):
        client.get(PODS, "a", "ns")


def test_a_line_break_in_a_header_is_rejected() -> None:
    connection = Connection(access("http://127.0.0.1:1"), Credentials(""), None)
    with pytest.raises(ProtocolError, match="Authorization"):
        connection.request("GET", "/", {"Authorization": "Bearer t\r\nX: y"}, None)
