"""The server: authentication, listening, certificates, idle connections and shutdown."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http import server
from shoal.apiserver.http.server import ListenError, serving
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.resources import CONFIG_MAPS
from tests.apiserver.http.api_server import Embedded

PODS = "/api/v1/namespaces/default/pods"
KEPT = [
    PODS,
    "/api",
    "/apis",
    "/api/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/",
    "/nope",
    "/metrics",
    f"{PODS}?watch=1",
]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_public_paths_need_no_token(api: Embedded, path: str) -> None:
    assert api.ask("GET", path, headers={"Authorization": ""}).code == 200


HEADERS = {
    "no token": "",
    "a wrong token": "Bearer nope",
    "no token after the scheme": "Bearer ",
    "another scheme": "Basic {}",
    "a truncated token": "Bearer {half}",
    "the token with a suffix": "Bearer {}x",
    "the token without a scheme": "{}",
    "a token that is not ASCII": "Bearer \xe4",
}


@pytest.mark.parametrize("path", KEPT)
@pytest.mark.parametrize("name", HEADERS)
def test_nothing_is_readable_without_the_token(api: Embedded, name: str, path: str) -> None:
    token = api.credentials.token
    header = HEADERS[name].format(token, half=token[: len(token) // 2])
    for method in ("GET", "POST", "DELETE"):
        answer = api.ask(method, path, headers={"Authorization": header})
        assert (answer.code, answer.json["reason"]) == (401, "Unauthorized")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("host", ["x/healthz?", "x/healthz#", "x\\healthz"])
def test_the_host_header_does_not_bypass_authentication(api: Embedded, host: str) -> None:
    assert api.ask("GET", PODS, headers={"Authorization": "", "Host": host}).code in (400, 401)


def test_impersonation_is_refused(api: Embedded) -> None:
    answer = api.ask("GET", PODS, headers={"Impersonate-User": "bob"})
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    assert "impersonation is not supported" in answer.json["message"]


def test_the_authorization_scheme_is_case_insensitive(api: Embedded) -> None:
    answer = api.ask("GET", PODS, headers={"Authorization": f"bearer {api.credentials.token}"})
    assert answer.code == 200


def test_connections_are_reused(api: Embedded) -> None:
    assert "close" not in (api.ask("GET", PODS).headers.get("Connection") or "")


async def test_a_port_in_use_is_one_error_message(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with Registry() as registry:
            with pytest.raises(ListenError, match=f"^port {port} of 127.0.0.1 is in use"):
                async with serving(registry, Credentials(tmp_path), port=port):
                    pass


async def test_a_foreign_address_is_one_error_message(tmp_path: Path) -> None:
    async with Registry() as registry:
        with pytest.raises(ListenError, match=r"^cannot listen on port 0 of 192\.0\.2\.1"):
            async with serving(registry, Credentials(tmp_path), "192.0.2.1"):
                pass


@pytest.mark.parametrize("host", ["nobody.invalid", "n\xfcbody.invalid", "n" * 300])
async def test_an_unknown_host_is_one_error_message(tmp_path: Path, host: str) -> None:
    async with Registry() as registry:
        with pytest.raises(ListenError, match=f"^cannot listen on {host[:10]}"):
            async with serving(registry, Credentials(tmp_path), host):
                pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - it is asked for
async def test_the_url_is_reachable(tmp_path: Path, host: str) -> None:
    credentials = Credentials(tmp_path)
    async with (
        Registry() as registry,
        serving(registry, credentials, host) as url,
        client(credentials) as speaking,
        speaking.get(f"{url}{PODS}") as answer,
    ):
        assert answer.status == 200


async def test_listens_on_loopback_by_default(tmp_path: Path) -> None:
    async with Registry() as registry, serving(registry, Credentials(tmp_path)) as url:
        assert url.startswith("https://127.0.0.1:")


async def test_a_watch_ends_cleanly_with_the_server(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    async with Registry() as registry, client(credentials) as speaking:
        async with serving(registry, credentials) as url:
            watching = await speaking.get(f"{url}/api/v1/namespaces?watch=1&resourceVersion=0")
            await watching.content.readline()
            reading = asyncio.create_task(watching.read())
        assert (await reading).endswith(b"\n")  # an unclean end would raise


async def test_new_connections_get_the_renewed_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_RENEWAL_SECONDS", 0.01)
    credentials = Credentials(tmp_path)
    async with Registry() as registry, serving(registry, credentials) as url:
        first = await served_certificate(credentials, url)
        credentials.certificate.unlink()  # about to expire
        while await served_certificate(credentials, url) == first:
            pass


async def test_a_failed_renewal_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_RENEWAL_SECONDS", 0.01)
    credentials = Credentials(tmp_path)
    async with Registry() as registry, serving(registry, credentials) as url:
        first = await served_certificate(credentials, url)
        credentials.certificate.write_bytes(b"nonsense")
        while "cannot renew the certificate, will retry" not in caplog.text:
            assert await served_certificate(credentials, url) == first
        credentials.certificate.unlink()
        while await served_certificate(credentials, url) == first:
            pass


async def served_certificate(credentials: Credentials, url: str) -> bytes:
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=tls)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return shown


async def test_an_open_connection_does_not_delay_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shutdown timeout is set so high that waiting for the connection would fail the test."""
    monkeypatch.setattr(server, "_SHUTDOWN_SECONDS", 10**6)
    credentials = Credentials(tmp_path)
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    async with Registry() as registry:
        async with serving(registry, credentials) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=tls)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await reader.readline()
        writer.transport.abort()


async def test_restart_on_the_same_port(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    async with Registry() as registry, client(credentials) as speaking:
        async with serving(registry, credentials) as url:
            assert (await speaking.get(f"{url}{PODS}")).status == 200
        async with serving(registry, credentials, port=int(url.rpartition(":")[2])) as again:
            assert again == url


def client(credentials: Credentials) -> aiohttp.ClientSession:
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    headers = {"Authorization": f"Bearer {credentials.token}"}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=headers)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /h"])
async def test_idle_connections_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.05)
    credentials = Credentials(tmp_path)
    async with (
        Registry() as registry,
        serving(registry, credentials) as url,
        client(credentials) as speaking,
        speaking.get(f"{url}/api/v1/configmaps?watch=1") as watching,
    ):
        reader, writer = await connected(credentials, url)
        writer.write(sent)
        await asyncio.wait_for(reader.read(), 60)  # until the server closes the connection
        writer.close()
        await registry.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
        assert (
            b"ADDED" in await watching.content.readline()
        )  # a connection with a request in progress stays open


async def connected(credentials: Credentials, url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(url)
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    return await asyncio.open_connection(place.hostname, place.port, ssl=tls)


def exchange(api: Embedded, sent: Iterable[bytes]) -> bytes:
    """Send raw bytes and return the response; unread bytes would reset the connection."""
    place = urlsplit(api.url)
    tls = ssl.create_default_context(cafile=str(api.credentials.authority))
    plain = socket.create_connection((place.hostname or "", place.port or 0), 60)
    with tls.wrap_socket(plain, server_hostname=place.hostname) as line:
        for text in sent:
            line.sendall(text)
        return line.recv(65536)


NO_REQUESTS = {
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], 405),
    "another version": ([b"GET / HTTP/7.7\r\n\r\n"], 400),
    "two Content-Length headers": (
        [b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"],
        400,
    ),
    "an endless header": ([b"GET / HTTP/1.1\r\nX: ", *[b"x" * 1000] * 66], 400),
    "endless headers": ([b"GET / HTTP/1.1\r\n", *[b"X: y\r\n" * 100] * 110], 400),
    "an endless path": ([b"GET /", *[b"x" * 1000] * 66], 400),
}


@pytest.mark.parametrize("case", NO_REQUESTS)
def test_invalid_http_is_refused_with_a_status(api: Embedded, case: str) -> None:
    sent, code = NO_REQUESTS[case]
    head, _, body = exchange(api, sent).partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["code"]) == (code, code)
    assert b"connection: close" in head
