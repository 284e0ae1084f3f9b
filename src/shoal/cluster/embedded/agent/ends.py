"""How runs ended, with the last words of those that failed."""

import contextlib
from typing import Final

from msgspec.structs import replace

from shoal.cluster.embedded.agent.station import Station
from shoal.cluster.embedded.runtime import Exit, Run
from shoal.cluster.resources import Object

_LAST_LINES: Final = 80
_LAST_BYTES: Final = 2048
"""As much of a log stands in a status as kubelets put there."""
_IN_USE: Final = b"address already in use"
_HINT: Final = (
    "{name} could not listen: address already in use. Every pod of this machine has an address of its own: "
    "bind to $SHOAL_POD_IP ({ip}) and not to 0.0.0.0, and all can use the same port"
)


RunKey = tuple[str, int]
"""A container and the number of its turn."""


class Ends:
    """What is known of runs that have ended."""

    def __init__(self, station: Station) -> None:
        self._station: Final = station
        self._known: Final[dict[RunKey, Exit]] = {}

    def of(self, name: str, attempt: int) -> Exit | None:
        """How a run ended; None as long as it is not known, or runs."""
        return self._known.get((name, attempt))

    def forget(self, run: Run) -> None:
        """Nobody will ask for this one any more."""
        self._known.pop(run.spec.key, None)

    async def take(self, pod: Object, container: Object, run: Run) -> None:
        """Wait for the end of a run, and keep what is to be known of it."""
        ended = await run.ended()
        if ended.code != 0 and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            with contextlib.suppress(OSError):  # its end counts also where its log cannot be read
                ended = await self._explained(pod, container, run, ended)
        self._known[run.spec.key] = ended

    async def _explained(self, pod: Object, container: Object, run: Run, ended: Exit) -> Exit:
        said = b"".join([piece async for piece in run.log.read(tail=_LAST_LINES)])[-_LAST_BYTES:]
        if _IN_USE in said.lower():
            hint = _HINT.format(name=container["name"], ip=self._station.directory.address(pod))
            await self._station.note(pod, "AddressInUse", hint)
        if container.get("terminationMessagePolicy") == "FallbackToLogsOnError" and not ended.message:
            return replace(ended, message=said.decode(errors="replace"))
        return ended
