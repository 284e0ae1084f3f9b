"""Probes: asks a container how it is, as often as it says, and takes an answer for true when it lasts.

First the startup probe is asked until it succeeds; then readiness and liveness, side by side.
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
from shoal.kubelet.lifecycle import Health
from shoal.kubelet.runtime import Run

_MOST_OUTPUT: Final = 1024
"""Bytes of what a command says that stand in a message."""
_PIECE: Final = 2**16
_STATUS: Final = re.compile(rb"HTTP/[0-9.]+ ([0-9]{3})\b")
_SUCCESSES: Final = range(200, 400)
_DIED: Final = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


class Prober:
    """Asks one run of a container. `health` is what is known; `changed` is called when that changes."""

    def __init__(self, run: Run, container: Object, ip: str, changed: Callable[[], None]) -> None:
        self.health = Health(
            started="startupProbe" not in container,
            ready="startupProbe" not in container and "readinessProbe" not in container,
        )
        self._run: Final = run
        self._container: Final = container
        self._ip: Final = ip
        self._changed: Final = changed
        self.failures: Final[list[tuple[str, str]]] = []
        """Which probe has failed, and what it said, as long as nobody has told it."""

    async def run(self) -> None:
        """Ask until cancelled."""
        if "startupProbe" in self._container:
            await self._start_up(self._container["startupProbe"])
        async with asyncio.TaskGroup() as group:
            if "readinessProbe" in self._container:
                group.create_task(self._follow_readiness(self._container["readinessProbe"]))
            if "livenessProbe" in self._container:
                group.create_task(self._follow_liveness(self._container["livenessProbe"]))

    def recover(self, *, started: bool, ready: bool) -> None:
        """Take what was known before, until there is an answer."""
        self.health = replace(self.health, started=started or self.health.started, ready=ready)

    # --- each kind ----------------------------------------------------------------------------------------

    async def _start_up(self, probe: Object) -> None:
        async for well, said in self._verdicts("Startup", probe):
            if well:
                ready = "readinessProbe" not in self._container
                self._say(replace(self.health, started=True, ready=ready))
                return
            self._give_up("startup", said)

    async def _follow_readiness(self, probe: Object) -> None:
        async for well, _ in self._verdicts("Readiness", probe):
            self._say(replace(self.health, ready=well))

    async def _follow_liveness(self, probe: Object) -> None:
        async for well, said in self._verdicts("Liveness", probe):
            if not well:
                self._give_up("liveness", said)

    def _give_up(self, kind: str, said: str) -> None:
        name = self._container["name"]
        self._say(
            replace(self.health, ailing=f"Container {name} failed {kind} probe, will be restarted: {said}")
        )

    def _say(self, health: Health) -> None:
        if health != self.health:
            self.health = health
            self._changed()

    async def _verdicts(self, kind: str, probe: Object) -> AsyncIterator[tuple[bool, str]]:
        """Each answer that has come as often in a row as it takes."""
        needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
        row, before = 0, None
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            said = await ask(probe, self._run, self._container, self._ip)
            row, before = (row + 1 if before == (not said) else 1), not said
            if said:
                self.failures.append((kind, said))
                self._changed()
            if row >= needed[not said]:
                yield not said, said
            await asyncio.sleep(probe.get("periodSeconds", 10))


# --- asking ------------------------------------------------------------------------------------------------


async def ask(probe: Object, run: Run, container: Object, ip: str) -> str:
    """Ask once: what is wrong, or nothing."""
    seconds = probe.get("timeoutSeconds", 1)
    try:
        async with asyncio.timeout(seconds):
            if "exec" in probe:
                return await _execute(probe["exec"]["command"], run)
            if "httpGet" in probe:
                return await _get(probe["httpGet"], container, ip)
            return await _connect(probe["tcpSocket"], container, ip)
    except TimeoutError:
        return f"no answer within {seconds}s"
    except _DIED as problem:
        return str(problem) or type(problem).__name__


async def _execute(command: list[str], run: Run) -> str:
    execution = await run.execute(command, tty=False, stdin=False)
    try:
        readers = [reader for reader in (execution.stdout, execution.stderr) if reader is not None]
        said = await asyncio.gather(*map(_beginning, readers))
        code = await execution.wait()
    except BaseException:
        execution.kill()
        raise
    text = b"".join(said)[:_MOST_OUTPUT].decode(errors="replace").strip()
    return "" if code == 0 else text or f"the command ended with {code}"


async def _beginning(reader: asyncio.StreamReader) -> bytes:
    """The first that a command says; the rest is read, so that it can end, and let go."""
    kept = b""
    while piece := await reader.read(_PIECE):
        kept = (kept + piece)[:_MOST_OUTPUT]
    return kept


async def _connect(target: Object, container: Object, ip: str) -> str:
    async with _connection(target, container, ip):
        return ""


async def _get(target: Object, container: Object, ip: str) -> str:
    async with _connection(target, container, ip) as (reader, writer):
        host = target.get("host") or ip
        headers = {"Host": host, "User-Agent": "shoal-probe", "Connection": "close"}
        headers |= {one["name"]: one["value"] for one in target.get("httpHeaders", ())}
        lines = [f"GET {target.get('path') or '/'} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        answer = _STATUS.match(await reader.readline())
    if answer is None:
        return "it does not answer as HTTP has it"
    return "" if int(answer[1]) in _SUCCESSES else f"HTTP probe failed with statuscode: {int(answer[1])}"


@asynccontextmanager
async def _connection(
    target: Object, container: Object, ip: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = None
    if target.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = port_of(target["port"], container)
    reader, writer = await asyncio.open_connection(target.get("host") or ip, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def port_of(port: int | str, container: Object) -> int:
    """A port by its number, or by the name that the container gives it."""
    named = {one.get("name"): one["containerPort"] for one in container.get("ports", ())}
    return int(named.get(port, port))
