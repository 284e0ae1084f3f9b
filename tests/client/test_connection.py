"""A connection, spoken to byte by byte: every way to end an answer, and every way not to."""

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
TO_THE_END = OK + b"\r\nhello\nworld"
AFTER_ANOTHER = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH
ANSWERS = {"length": LENGTH, "chunked": CHUNKED, "to the end": TO_THE_END, "100 before": AFTER_ANOTHER}


@contextlib.contextmanager
def saying(pieces: list[bytes]) -> Iterator[socket.socket]:
    """A line on which somebody says this, piece by piece, and hangs up."""
    ours, theirs = socket.socketpair()

    def say() -> None:
        with theirs, contextlib.suppress(OSError):
            for piece in pieces:
                theirs.sendall(piece)

    speaker = threading.Thread(target=say)
    speaker.start()
    with ours:
        yield ours
    speaker.join()


def begun(line: socket.socket) -> Response:
    answer = Response(line)
    answer.begin()
    return answer


@pytest.mark.parametrize("way", ANSWERS)
@given(cuts=st.sets(st.integers(1, 90)))
def test_an_answer_is_the_same_however_it_is_cut(way: str, cuts: set[int]) -> None:
    text = ANSWERS[way]
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    with saying(pieces) as line:
        answer = begun(line)
        assert (answer.status, answer.read()) == (200, b"hello\nworld")
        assert answer.reusable == (way != "to the end")
    with saying(pieces) as line:
        assert list(io.BufferedReader(begun(line), 4)) == [b"hello\n", b"world"]


@pytest.mark.parametrize("way", ["length", "chunked", "100 before"])
def test_an_answer_that_is_broken_off_is_none(way: str) -> None:
    text = ANSWERS[way]
    for end in range(len(text)):
        with saying([text[:end]]) as line, pytest.raises(ConnectionError, match="closed the connection"):
            begun(line).read()


def test_what_was_read_before_the_end_of_it_is_not_lost() -> None:
    with saying([LENGTH[:-5]]) as line:
        reader = io.BufferedReader(begun(line))
        assert reader.readline() == b"hello\n"
        with pytest.raises(ConnectionError):
            reader.readline()


NOT_REUSABLE = {
    "it says so": OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
    "it is old": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "it says more than it was asked": OK + b"Content-Length: 2\r\n\r\nhi" + LENGTH,
}


@pytest.mark.parametrize("case", NOT_REUSABLE)
def test_a_connection_that_is_not_used_again(case: str) -> None:
    with saying([NOT_REUSABLE[case]]) as line:
        answer = begun(line)
        assert answer.read() == b"hi"
        assert not answer.reusable


@pytest.mark.parametrize(
    "text", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02", b"HTTP/1.1 abc\r\n"]
)
def test_what_is_not_http(text: bytes) -> None:
    with saying([text]) as line, pytest.raises(ProtocolError, match="does not speak HTTP"):
        begun(line)


def test_who_is_interrupted_while_an_answer_is_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Response, "on_body", interrupted)
    with saying([LENGTH]) as line, pytest.raises(KeyboardInterrupt):
        begun(line).read()


# --- over a real connection --------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """The address of somebody who answers each request of one connection like this, and what was asked."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                for answer in answers:
                    text = b""
                    while b"\r\n\r\n" not in text and (more := line.recv(65536)):
                        text += more
                    heard.append(text)
                    line.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        yield "http://{}:{}".format(*listener.getsockname()), heard
        server.join()


FOUND = OK + b'Content-Length: 26\r\n\r\n{"metadata":{"name":"a"}}\n'


def access(url: str, proxy: str = "") -> Access:
    found = token_access(url, "t")
    return Access(url=url, tls=found.tls, credential_source=found.credential_source, proxy=proxy)


def test_what_is_asked_and_that_a_connection_is_used_again() -> None:
    with listening(FOUND, FOUND) as (url, heard):
        client = Client(access(url))
        for _ in range(2):
            assert client.get(PODS, "a", "ns")["metadata"]["name"] == "a"
        client.close()
    assert heard[0].startswith(b"GET /api/v1/namespaces/ns/pods/a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert heard[0] == heard[1]
    assert b"\r\nAuthorization: Bearer t\r\n" in heard[0]


def test_a_proxy_is_asked_for_a_line() -> None:
    with listening(b"HTTP/1.1 200 Connection established\r\n\r\n", FOUND) as (proxy, heard):
        client = Client(access("http://[::1]:6443/base", proxy))
        assert client.get(PODS, "a", "ns")["metadata"]["name"] == "a"
        client.close()
    assert heard[0] == b"CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\n\r\n"
    assert heard[1].startswith(b"GET /base/api/v1/namespaces/ns/pods/a HTTP/1.1\r\nHost: [::1]:6443\r\n")


def test_a_proxy_that_refuses() -> None:
    with listening(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as (proxy, _):
        client = Client(access("https://10.0.0.1:6443", proxy))
        with pytest.raises(UnavailableError, match="the proxy answers 403"):
            client.get(PODS, "a", "ns")


def test_a_proxy_of_another_sort() -> None:
    client = Client(access("https://10.0.0.1:6443", "https://127.0.0.1:1"))
    with pytest.raises(UnavailableError, match="unsupported proxy"):
        client.get(PODS, "a", "ns")


def test_a_line_break_does_not_get_into_what_is_said() -> None:
    connection = Connection(access("http://127.0.0.1:1"), Credentials(""), None)
    with pytest.raises(ProtocolError, match="Authorization"):
        connection.ask("GET", "/", {"Authorization": "Bearer t\r\nX: y"}, None)
