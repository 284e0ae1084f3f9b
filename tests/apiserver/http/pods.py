"""An API whose pods have real processes: the container runtime, and the part of a kubelet that it needs."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from shoal.cluster.errors import BadRequestError
from shoal.kubelet.runtime import NO_USAGE, ContainerSpec, Run, Runtime, UsageReport, open_runtime
from tests.apiserver.http.api_server import Embedded, embedded_api
from tests.k8s.assets import assets
from tests.k8s.fixtures import need_assets

NODE = "n1"
PATIENCE = 60.0
"""Seconds after which a wait fails."""


class Kubelet:
    """Starts containers on demand, and returns their latest runs."""

    def __init__(self, runtime: Runtime, place: Path) -> None:
        self.loop, self.measured = asyncio.get_running_loop(), NO_USAGE
        self._runtime, self._place = runtime, place
        self._runs: dict[tuple[str, str, str], list[Run]] = defaultdict(list)

    def find_run(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002
        runs = self._runs[namespace, pod, container]
        if len(runs) < 1 + previous:
            raise BadRequestError(f'previous terminated container "{container}" in pod "{pod}" not found')
        return runs[-1 - previous]

    def usage(self) -> UsageReport:
        return self.measured

    async def start(self, namespace: str, pod: str, container: str, script: str) -> Run:
        runs = self._runs[namespace, pod, container]
        spec = ContainerSpec(
            pod=f"{namespace}-{pod}",
            container=container,
            attempt=len(runs),
            argv=["sh", "-c", script],
            env={"PATH": os.environ["PATH"], "GREETING": "hello"},
            cwd=str(self._place),
        )
        runs.append(await self._runtime.start(spec))
        return runs[-1]

    async def stop(self) -> None:
        runs = [run for runs in self._runs.values() for run in runs]
        for run in runs:
            run.stop(0)
        await asyncio.gather(*(run.wait() for run in runs))
        for pod in self._runtime.pods():
            await self._runtime.remove(pod)


class Playground:
    """An API, and containers that a test starts."""

    def __init__(self, api: Embedded, kubelet: Kubelet, place: Path) -> None:
        self.api, self.kubelet, self.place = api, kubelet, place

    def pod(self, space: str, name: str, *scripts: str) -> str:
        """Create a pod whose containers, named a, b and so on, run these scripts; returns its path."""
        pods = f"/api/v1/namespaces/{space}/pods"
        containers = [{"name": letter, "image": "none"} for letter, _ in zip("abc", scripts, strict=False)]
        spec = {"nodeName": NODE, "containers": containers}
        self.api.client().create(pods, {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
        for container, script in zip(containers, scripts, strict=True):
            self.run(space, name, container["name"], script)
        return f"{pods}/{name}"

    def run(self, space: str, pod: str, container: str, script: str) -> Run:
        """Start a container, or restart it."""
        return asyncio.run_coroutine_threadsafe(
            self.kubelet.start(space, pod, container, script), self.kubelet.loop
        ).result()

    def ended(self, run: Run) -> None:
        """Wait until a container has terminated."""
        asyncio.run_coroutine_threadsafe(run.wait(), self.kubelet.loop).result()


@contextlib.contextmanager
def playground(directory: Path) -> Iterator[Playground]:
    """Run an API with containers until the block ends."""
    need_assets("kubectl")
    found: list[Kubelet] = []
    place = directory / "place"
    place.mkdir()

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[Kubelet]:
        async with open_runtime(directory / "home") as runtime:
            found.append(Kubelet(runtime, place))
            yield found[0]
            await found[0].stop()

    with embedded_api(directory, running) as api:
        api.client().create("/api/v1/nodes", {"metadata": {"name": NODE}})
        yield Playground(api, found[0], place)


def kubectl(ground: Playground, *arguments: str) -> list[str]:
    """Return a kubectl command line for a subprocess."""
    return [str(assets("kubectl") / "kubectl"), "--kubeconfig", str(ground.api.kubeconfig()), *arguments]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a predicate is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"{what}: never"
        time.sleep(0.01)
