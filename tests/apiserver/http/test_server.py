"""The server: who is let in, where it listens, and how it ends."""

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
from tests.apiserver.http.running import Embedded

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
def test_anybody_may_know_that_it_is_there(api: Embedded, path: str) -> None:
    assert api.ask("GET", path, headers={"Authorization": ""}).code == 200


HEADERS = {
    "no token": "",
    "another token": "Bearer nope",
    "no token after the scheme": "Bearer ",
    "another scheme": "Basic {}",
    "half of the token": "Bearer {half}",
    "the token and more": "Bearer {}x",
    "the token alone": "{}",
    "letters from elsewhere": "Bearer \xe4",
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
def test_no_other_name_of_the_server_opens_a_path(api: Embedded, host: str) -> None:
    assert api.ask("GET", PODS, headers={"Authorization": "", "Host": host}).code in (400, 401)


def test_nobody_is_impersonated(api: Embedded) -> None:
    answer = api.ask("GET", PODS, headers={"Impersonate-User": "bob"})
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    assert "impersonation is not supported" in answer.json["message"]


def test_the_scheme_is_written_as_one_likes(api: Embedded) -> None:
    answer = api.ask("GET", PODS, headers={"Authorization": f"bearer {api.credentials.token}"})
    assert answer.code == 200


def test_a_connection_is_used_again(api: Embedded) -> None:
    assert "close" not in (api.ask("GET", PODS).headers.get("Connection") or "")


async def test_a_port_in_use_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with Registry() as registry:
            with pytest.raises(ListenError, match=f"^port {port} of 127.0.0.1 is in use"):
                async with serving(registry, Credentials(tmp_path), port=port):
                    pass


async def test_an_address_that_is_not_ours_is_said_in_one_sentence(tmp_path: Path) -> None:
    async with Registry() as registry:
        with pytest.raises(ListenError, match=r"^cannot listen on port 0 of 192\.0\.2\.1"):
            async with serving(registry, Credentials(tmp_path), "192.0.2.1"):
                pass


@pytest.mark.parametrize("host", ["nobody.invalid", "n\xfcbody.invalid", "n" * 300])
async def test_a_name_that_nobody_knows_is_said_in_one_sentence(tmp_path: Path, host: str) -> None:
    async with Registry() as registry:
        with pytest.raises(ListenError, match=f"^cannot listen on {host[:10]}"):
            async with serving(registry, Credentials(tmp_path), host):
                pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - it is asked for
async def test_the_address_that_is_told_is_the_one_to_use(tmp_path: Path, host: str) -> None:
    credentials = Credentials(tmp_path)
    async with (
        Registry() as registry,
        serving(registry, credentials, host) as url,
        client(credentials) as speaking,
        speaking.get(f"{url}{PODS}") as answer,
    ):
        assert answer.status == 200


async def test_it_listens_on_loopback_unless_asked(tmp_path: Path) -> None:
    async with Registry() as registry, serving(registry, Credentials(tmp_path)) as url:
        assert url.startswith("https://127.0.0.1:")


async def test_a_watch_ends_cleanly_with_the_server(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    async with Registry() as registry, client(credentials) as speaking:
        async with serving(registry, credentials) as url:
            watching = await speaking.get(f"{url}/api/v1/namespaces?watch=1&resourceVersion=0")
            await watching.content.readline()
            reading = asyncio.create_task(watching.read())
        assert (await reading).endswith(b"\n")  # an unclean end would be an error


async def test_a_new_certificate_is_shown_to_new_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_RENEWAL_SECONDS", 0.01)
    credentials = Credentials(tmp_path)
    async with Registry() as registry, serving(registry, credentials) as url:
        first = await shown_certificate(credentials, url)
        credentials.certificate.unlink()  # as good as expired
        while await shown_certificate(credentials, url) == first:
            pass


async def test_a_certificate_that_cannot_be_renewed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_RENEWAL_SECONDS", 0.01)
    credentials = Credentials(tmp_path)
    async with Registry() as registry, serving(registry, credentials) as url:
        first = await shown_certificate(credentials, url)
        credentials.certificate.write_bytes(b"nonsense")
        while "cannot renew the certificate, will retry" not in caplog.text:
            assert await shown_certificate(credentials, url) == first
        credentials.certificate.unlink()
        while await shown_certificate(credentials, url) == first:
            pass


async def shown_certificate(credentials: Credentials, url: str) -> bytes:
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=tls)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return shown


async def test_a_client_that_keeps_its_connection_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be waited for until the time for requests is over, which never is here."""
    monkeypatch.setattr(server, "_SHUTDOWN_SECONDS", 10**6)
    credentials = Credentials(tmp_path)
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    async with Registry() as registry:
        async with serving(registry, credentials) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=tls)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await reader.readline()
        writer.transport.abort()


async def test_it_can_be_started_again_at_once_on_the_same_port(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /h"])
async def test_who_does_not_go_on_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
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
        writer.write(said)
        await asyncio.wait_for(reader.read(), 60)  # until the other side hangs up
        writer.close()
        await registry.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
        assert b"ADDED" in await watching.content.readline()  # who has asked is answered on


async def connected(credentials: Credentials, url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(url)
    tls = ssl.create_default_context(cafile=str(credentials.authority))
    return await asyncio.open_connection(place.hostname, place.port, ssl=tls)


def exchanged(api: Embedded, said: Iterable[bytes]) -> bytes:
    """What is answered to somebody who says this; no more of it than the server reads, or that is lost."""
    place = urlsplit(api.url)
    tls = ssl.create_default_context(cafile=str(api.credentials.authority))
    plain = socket.create_connection((place.hostname or "", place.port or 0), 60)
    with tls.wrap_socket(plain, server_hostname=place.hostname) as line:
        for text in said:
            line.sendall(text)
        return line.recv(65536)


NO_REQUESTS = {
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], 405),
    "another version": ([b"GET / HTTP/7.7\r\n\r\n"], 400),
    "two lengths": ([b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"], 400),
    "a header without an end": ([b"GET / HTTP/1.1\r\nX: ", *[b"x" * 1000] * 66], 400),
    "headers without an end": ([b"GET / HTTP/1.1\r\n", *[b"X: y\r\n" * 100] * 110], 400),
    "an address without an end": ([b"GET /", *[b"x" * 1000] * 66], 400),
}


@pytest.mark.parametrize("case", NO_REQUESTS)
def test_what_is_no_request_is_refused_with_a_status(api: Embedded, case: str) -> None:
    said, code = NO_REQUESTS[case]
    head, _, body = exchanged(api, said).partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["code"]) == (code, code)
    assert b"connection: close" in head
