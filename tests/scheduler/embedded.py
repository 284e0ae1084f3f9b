"""The embedded home as a testbed: kubectl or shoal makes the writes of steps, and pods are real processes.

Each node of a scenario is a local node of the agent. The agent is restarted for each added node, and adopts
the running pods.
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
from tests.scheduler.scenarios import ClusterTestbed, Step

WAITING = ["sh", "-c", "[ -p end ] || mkfifo end; read _ <end"]
"""Command of containers without one: it waits until the named pipe `end` is written to."""
ENDING = ["sh", "-c", "echo >end"]
GIBIBYTE = 2**30


class Machines:
    """The local nodes of a scenario, which are added one by one, and the agent that runs their pods."""

    def __init__(self, registry: Registry, runtime: Runtime, home: Path) -> None:
        self._registry, self._runtime, self._home = registry, runtime, home
        self._machines: tuple[LocalNode, ...] = ()
        self._agent = Agent(registry, runtime, home, ())
        self._task = asyncio.create_task(self._agent.run())

    async def add(self, machine: LocalNode) -> None:
        """Add a local node; returns when its Node exists."""
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


class EmbeddedTestbed(ClusterTestbed):
    """A testbed in which writes are commands and pods are processes."""

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
        made = json.loads(await self.run("create", "-o", "json", "-f", "-", stdin=with_commands(one)))
        self.record(made)

    async def _add(self, node: Object) -> None:
        metadata, has = node["metadata"], node["status"]["allocatable"]
        name, gpus = metadata["name"], range(int(has.get("nvidia.com/gpu", 0)))
        machine = LocalNode(name=name, cpu=int(has["cpu"]) * 1000, memory=10 * GIBIBYTE, gpus=tuple(gpus))
        await self._machines.add(machine)
        labels = [f"{key}={value}" for key, value in metadata["labels"].items()]
        await self.run("label", "--overwrite", "node", name, *labels)

    async def perform(self, step: Step) -> None:
        await self.record_uids(step.gone)
        for one in step.create:
            await self.create(one)
        for kind, name, patch in step.patch:
            changes = copy.deepcopy(patch)
            _add_commands(changes)
            await self.run("patch", kind, name, "--type=merge", "-p", json.dumps(changes))
        for kind, name in step.delete:
            await self.run("delete", kind, name, "--wait=false")
        for kind, name, status in step.status:
            text = json.dumps({"status": status})
            await self.run("patch", kind, name, "--subresource=status", "--type=merge", "-p", text)
        for name in step.ends:
            await self.run("exec", name, "--", *ENDING)

    async def run(self, *arguments: str, stdin: Object | None = None) -> str:
        """Run a command, which must succeed, and return its output."""
        pipe = asyncio.subprocess.PIPE
        command = await asyncio.create_subprocess_exec(
            *self._program_for(arguments[0]), *arguments, stdin=pipe, stdout=pipe, stderr=pipe
        )
        output, errors = await command.communicate(json.dumps(stdin).encode())
        assert command.returncode == 0, errors.decode()
        return output.decode()

    def _program_for(self, verb: str) -> tuple[str, ...]:
        """Program and global options of a command; there is no `shoal patch`."""
        where = ("--kubeconfig", str(self._kubeconfig), "--namespace", self.namespace)
        if self._program == "shoal" and verb != "patch":
            return (*SHOAL, *where)
        cache = str(self._kubeconfig.parent / "cache")
        return (str(assets("kubectl") / "kubectl"), *where, "--cache-dir", cache)


def with_commands(one: Object) -> Object:
    """Return an object for the embedded home: every container has a command."""
    made = copy.deepcopy(one)
    made.pop("status", None)
    made["metadata"].pop("uid", None)
    made["metadata"].pop("namespace", None)
    if made["kind"] == "Pod":
        made["spec"]["restartPolicy"] = "Never"
    _add_commands(made)
    return made


def _add_commands(value: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        for container in value.get("containers", ()):
            container.setdefault("command", WAITING)
        for part in value.values():
            _add_commands(part)
    elif isinstance(value, list):
        for part in value:
            _add_commands(part)


@contextlib.asynccontextmanager
async def embedded_testbed(home: Path, program: str) -> AsyncIterator[EmbeddedTestbed]:
    """A testbed with a new embedded home, whose processes have ended when the block ends."""
    need_assets("kubectl")
    async with open_home(home) as registry, open_runtime(home) as runtime:
        machines, credentials = Machines(registry, runtime, home), Credentials(home)
        try:
            async with serving(registry, credentials, kubelet=machines) as url:
                made = await registry.create(NAMESPACES, {"metadata": {"generateName": "scenario-"}})
                kubeconfig = credentials.write_kubeconfig(url)
                yield EmbeddedTestbed(registry, made["metadata"]["name"], machines, kubeconfig, program)
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
