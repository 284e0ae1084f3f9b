"""An API server over an empty registry, in a thread of the test process, with HTTP and kubectl clients."""

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.requests import NO_KUBELET, Kubelet
from shoal.apiserver.http.server import serving
from shoal.apiserver.registry.registry import Registry
from tests.k8s.access import Client
from tests.k8s.assets import assets


@dataclass(frozen=True)
class HttpResponse:
    """Response of the API."""

    code: int
    headers: Message
    text: bytes

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found


class Embedded:
    """A running embedded API; has the same interface as the ControlPlane of a real one."""

    def __init__(self, directory: Path, url: str, credentials: Credentials) -> None:
        self.directory, self.url, self.credentials = directory, url, credentials

    def client(self, token: str | None = None) -> Client:
        tls = ssl.create_default_context(cafile=str(self.credentials.authority))
        return Client(self.url, self.credentials.token if token is None else token, tls)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send a request unchanged, with the token unless the headers have another."""
        tls = ssl.create_default_context(cafile=str(self.credentials.authority))
        place = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=60, context=tls)
        sent = {"Authorization": f"Bearer {self.credentials.token}", **(headers or {})}
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return HttpResponse(answer.status, answer.headers, answer.read())

    def kubeconfig(self) -> Path:
        return self.credentials.kubeconfig

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl against this API."""
        surroundings = os.environ | {
            "KUBECONFIG": str(self.kubeconfig()),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
        }
        command = [str(assets("kubectl") / "kubectl"), *arguments]
        return subprocess.run(  # noqa: S603 - our own command
            command, input=stdin, capture_output=True, text=True, timeout=300, check=False, env=surroundings
        )


@contextlib.asynccontextmanager
async def no_kubelet() -> AsyncIterator[Kubelet]:
    yield NO_KUBELET


@contextlib.contextmanager
def embedded_api(
    directory: Path, running: Callable[[], AbstractAsyncContextManager[Kubelet]] = no_kubelet
) -> Iterator[Embedded]:
    """Run an API over an empty registry in memory, with a kubelet, until the block ends."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    found: list[Embedded] = []
    ending = asyncio.Event()

    async def run() -> None:
        credentials = Credentials(directory / "credentials")
        async with (
            Registry() as registry,
            running() as kubelet,
            serving(registry, credentials, kubelet=kubelet) as url,
        ):
            credentials.write_kubeconfig(url)
            found.append(Embedded(directory, url, credentials))
            started.set()
            await ending.wait()

    def run_in_thread() -> None:
        try:
            loop.run_until_complete(run())
        finally:
            started.set()
            loop.close()

    thread = threading.Thread(target=run_in_thread)
    thread.start()
    try:
        started.wait()
        yield found[0]
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ending.set)
        thread.join()
