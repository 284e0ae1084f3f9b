"""Probes: checks of a running container at regular intervals, with thresholds.

The startup probe runs until it succeeds; then readiness and liveness probes run in parallel.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from shoal.cluster.resources import Object
from shoal.kubelet.lifecycle import ContainerHealth
from shoal.kubelet.runtime import Run

_MAX_OUTPUT: Final = 1024
"""Bytes of a command's output in a message."""
_READ_SIZE: Final = 2**16
_STATUS: Final = re.compile(rb"HTTP/[0-9.]+ ([0-9]{3})\b")
_SUCCESSES: Final = range(200, 400)
_CONNECTION_ERRORS: Final = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


class Prober:
    """Runs the probes of one run of a container. `changed` is called when `health` changes."""

    def __init__(self, run: Run, container: Object, ip: str, changed: Callable[[], None]) -> None:
        self.health = ContainerHealth(
            started="startupProbe" not in container,
            ready="startupProbe" not in container and "readinessProbe" not in container,
        )
        self._run: Final = run
        self._container: Final = container
        self._ip: Final = ip
        self._changed: Final = changed
        self.failures: Final[list[tuple[str, str]]] = []
        """Failures that have not been reported yet: kind of probe and message."""

    async def run(self) -> None:
        """Probe until cancelled."""
        if "startupProbe" in self._container:
            await self._run_startup_probe(self._container["startupProbe"])
        async with asyncio.TaskGroup() as group:
            if "readinessProbe" in self._container:
                group.create_task(self._run_readiness_probe(self._container["readinessProbe"]))
            if "livenessProbe" in self._container:
                group.create_task(self._run_liveness_probe(self._container["livenessProbe"]))

    def restore(self, *, started: bool, ready: bool) -> None:
        """Assume the results of an earlier process until there are new ones."""
        self.health = replace(self.health, started=started or self.health.started, ready=ready)

    # --- kinds of probes ----------------------------------------------------------------------------------

    async def _run_startup_probe(self, probe: Object) -> None:
        async for succeeded, message in self._results("Startup", probe):
            if succeeded:
                ready = "readinessProbe" not in self._container
                self._set_health(replace(self.health, started=True, ready=ready))
                return
            self._set_unhealthy("startup", message)

    async def _run_readiness_probe(self, probe: Object) -> None:
        async for succeeded, _ in self._results("Readiness", probe):
            self._set_health(replace(self.health, ready=succeeded))

    async def _run_liveness_probe(self, probe: Object) -> None:
        async for succeeded, message in self._results("Liveness", probe):
            if not succeeded:
                self._set_unhealthy("liveness", message)

    def _set_unhealthy(self, kind: str, message: str) -> None:
        name = self._container["name"]
        self._set_health(
            replace(
                self.health,
                unhealthy_reason=f"Container {name} failed {kind} probe, will be restarted: {message}",
            )
        )

    def _set_health(self, health: ContainerHealth) -> None:
        if health != self.health:
            self.health = health
            self._changed()

    async def _results(self, kind: str, probe: Object) -> AsyncIterator[tuple[bool, str]]:
        """Yield results that have reached their threshold: whether the probe succeeds, and the message."""
        needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
        count, previous = 0, None
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            message = await run_probe(probe, self._run, self._container, self._ip)
            count, previous = (count + 1 if previous == (not message) else 1), not message
            if message:
                self.failures.append((kind, message))
                self._changed()
            if count >= needed[not message]:
                yield not message, message
            await asyncio.sleep(probe.get("periodSeconds", 10))


# --- one check ---------------------------------------------------------------------------------------------


async def run_probe(probe: Object, run: Run, container: Object, ip: str) -> str:
    """Run a probe once; return the error message, empty on success."""
    seconds = probe.get("timeoutSeconds", 1)
    try:
        async with asyncio.timeout(seconds):
            if "exec" in probe:
                return await _exec_probe(probe["exec"]["command"], run)
            if "httpGet" in probe:
                return await _http_get(probe["httpGet"], container, ip)
            return await _tcp_connect(probe["tcpSocket"], container, ip)
    except TimeoutError:
        return f"no answer within {seconds}s"
    except _CONNECTION_ERRORS as error:
        return str(error) or type(error).__name__


async def _exec_probe(command: list[str], run: Run) -> str:
    execution = await run.execute(command, tty=False, stdin=False)
    try:
        readers = [reader for reader in (execution.stdout, execution.stderr) if reader is not None]
        message = await asyncio.gather(*map(_read_start, readers))
        code = await execution.wait()
    except BaseException:
        execution.kill()
        raise
    text = b"".join(message)[:_MAX_OUTPUT].decode(errors="replace").strip()
    return "" if code == 0 else text or f"the command exited with code {code}"


async def _read_start(reader: asyncio.StreamReader) -> bytes:
    """The first bytes of a stream; the rest is read and discarded, so that the command can end."""
    kept = b""
    while piece := await reader.read(_READ_SIZE):
        kept = (kept + piece)[:_MAX_OUTPUT]
    return kept


async def _tcp_connect(target: Object, container: Object, ip: str) -> str:
    async with _connection(target, container, ip):
        return ""


async def _http_get(target: Object, container: Object, ip: str) -> str:
    async with _connection(target, container, ip) as (reader, writer):
        host = target.get("host") or ip
        headers = {"Host": host, "User-Agent": "shoal-probe", "Connection": "close"}
        headers |= {one["name"]: one["value"] for one in target.get("httpHeaders", ())}
        lines = [f"GET {target.get('path') or '/'} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        status = _STATUS.match(await reader.readline())
    if status is None:
        return "the response is not HTTP"
    return "" if int(status[1]) in _SUCCESSES else f"HTTP probe failed with statuscode: {int(status[1])}"


@asynccontextmanager
async def _connection(
    target: Object, container: Object, ip: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = None
    if target.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = resolve_port(target["port"], container)
    reader, writer = await asyncio.open_connection(target.get("host") or ip, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def resolve_port(port: int | str, container: Object) -> int:
    """A port by number, or by its name in the container."""
    named = {one.get("name"): one["containerPort"] for one in container.get("ports", ())}
    return int(named.get(port, port))
