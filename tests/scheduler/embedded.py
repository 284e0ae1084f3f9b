"""The embedded home as a stage: kubectl or shoal does what acts do, and pods are real processes.

A node comes as a machine that the agent plays from then on: for each the agent begins anew, and finds the
pods of the others as they are.
"""

import asyncio
import contextlib
import copy
import json
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.server import serving
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.resources import NAMESPACES, Object
from shoal.embedded.store import open_home
from shoal.kubelet.agent import Agent
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.runtime import Run, Runtime, UsageReport, open_runtime
from tests.cli.process import SHOAL
from tests.k8s.assets import assets
from tests.k8s.fixtures import need_assets
from tests.scheduler.scenes import Act, Stage

WAITING = ["sh", "-c", "[ -p end ] || mkfifo end; read _ <end"]
"""What containers run that say nothing of it: they wait until somebody writes into `end`."""
ENDING = ["sh", "-c", "echo >end"]
GIBIBYTE = 2**30


class Machines:
    """The machines of a scene, which come one by one, and whoever runs their pods just now."""

    def __init__(self, registry: Registry, runtime: Runtime, home: Path) -> None:
        self._registry, self._runtime, self._home = registry, runtime, home
        self._machines: tuple[LocalNode, ...] = ()
        self._agent = Agent(registry, runtime, home, ())
        self._task = asyncio.create_task(self._agent.run())

    async def add(self, machine: LocalNode) -> None:
        """One more; returns when its node is there."""
        await self.stop()
        self._machines += (machine,)
        self._agent = Agent(self._registry, self._runtime, self._home, self._machines)
        self._task = asyncio.create_task(self._agent.run())
        await self._agent.ready.wait()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def find_run(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002
        return self._agent.find_run(namespace, pod, container, previous)

    def usage(self) -> UsageReport:
        return self._agent.usage()


class EmbeddedStage(Stage):
    """A stage whose acts are commands, and whose pods are processes."""

    def __init__(
        self, registry: Registry, namespace: str, machines: Machines, kubeconfig: Path, program: str
    ) -> None:
        super().__init__(registry, namespace, time.time)
        self._machines, self._kubeconfig, self._program = machines, kubeconfig, program

    def machines(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def create(self, one: Object) -> None:
        if one["kind"] == "Node":
            await self._add(one)
            return
        made = json.loads(await self.tell("create", "-o", "json", "-f", "-", stdin=dressed(one)))
        self.remember(made)

    async def _add(self, node: Object) -> None:
        metadata, has = node["metadata"], node["status"]["allocatable"]
        name, gpus = metadata["name"], range(int(has.get("nvidia.com/gpu", 0)))
        machine = LocalNode(name=name, cpu=int(has["cpu"]) * 1000, memory=10 * GIBIBYTE, gpus=tuple(gpus))
        await self._machines.add(machine)
        labels = [f"{key}={value}" for key, value in metadata["labels"].items()]
        await self.tell("label", "--overwrite", "node", name, *labels)

    async def perform(self, act: Act) -> None:
        for one in act.create:
            await self.create(one)
        for kind, name, patch in act.patch:
            await self.tell("patch", kind, name, "--type=merge", "-p", json.dumps(patch))
        for kind, name in act.delete:
            await self.tell("delete", kind, name, "--wait=false")
        for kind, name, status in act.status:
            said = json.dumps({"status": status})
            await self.tell("patch", kind, name, "--subresource=status", "--type=merge", "-p", said)
        for name in act.ends:
            await self.tell("exec", name, "--", *ENDING)

    async def tell(self, *arguments: str, stdin: Object | None = None) -> str:
        """What the program prints; it must not fail."""
        pipe = asyncio.subprocess.PIPE
        command = await asyncio.create_subprocess_exec(
            *self._words(arguments[0]), *arguments, stdin=pipe, stdout=pipe, stderr=pipe
        )
        said, wrong = await command.communicate(json.dumps(stdin).encode())
        assert command.returncode == 0, wrong.decode()
        return said.decode()

    def _words(self, verb: str) -> tuple[str, ...]:
        """How a command begins; there is no `shoal patch`."""
        where = ("--kubeconfig", str(self._kubeconfig), "--namespace", self.namespace)
        if self._program == "shoal" and verb != "patch":
            return (*SHOAL, *where)
        cache = str(self._kubeconfig.parent / "cache")
        return (str(assets("kubectl") / "kubectl"), *where, "--cache-dir", cache)


def dressed(one: Object) -> Object:
    """An object as a user of the embedded home writes it: every container has a command."""
    made = copy.deepcopy(one)
    made.pop("status", None)
    made["metadata"].pop("uid", None)
    made["metadata"].pop("namespace", None)
    if made["kind"] == "Pod":
        made["spec"]["restartPolicy"] = "Never"
    _dress(made)
    return made


def _dress(value: Any) -> None:  # noqa: ANN401 - whatever JSON can say
    if isinstance(value, dict):
        for container in value.get("containers", ()):
            container.setdefault("command", WAITING)
        for part in value.values():
            _dress(part)
    elif isinstance(value, list):
        for part in value:
            _dress(part)


@contextlib.asynccontextmanager
async def embedded_stage(home: Path, program: str) -> AsyncIterator[EmbeddedStage]:
    """A stage in an embedded home of its own; nothing of it runs any more when the block ends."""
    need_assets("kubectl")
    async with open_home(home) as registry, open_runtime(home) as runtime:
        machines, credentials = Machines(registry, runtime, home), Credentials(home)
        try:
            async with serving(registry, credentials, kubelet=machines) as url:
                made = await registry.create(NAMESPACES, {"metadata": {"generateName": "scene-"}})
                kubeconfig = credentials.write_kubeconfig(url)
                yield EmbeddedStage(registry, made["metadata"]["name"], machines, kubeconfig, program)
        finally:
            await machines.stop()
            await end_all(runtime)


async def end_all(runtime: Runtime) -> None:
    runs = [run for pod in runtime.pods() for run in runtime.runs(pod)]
    for run in runs:
        run.stop(0)
    await asyncio.gather(*(run.wait() for run in runs))
    for pod in runtime.pods():
        await runtime.remove(pod)
