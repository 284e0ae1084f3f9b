"""Which request meets which fault: decided by a seeded random number generator, and recorded."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Fault = Literal[
    "none", "409", "410", "429", "500", "503", "gone event", "dropped", "hanging", "truncated", "half-open"
]
"""What the proxy does to a request:

- a number: it responds with this code, and the server does not receive the request;
- gone event: a watch starts, and its first event is an error: the version is too old;
- dropped: the connection is reset before the response; the server has received the request;
- hanging: there is no response;
- truncated: the connection is reset in the middle of the response;
- half-open: the response stops in the middle, and the connection stays open.
"""

WEIGHTS: Final[Mapping[Fault, int]] = {
    "none": 6,
    "409": 1,
    "410": 2,
    "429": 2,
    "500": 2,
    "503": 1,
    "gone event": 2,
    "dropped": 3,
    "hanging": 1,
    "truncated": 4,
    "half-open": 2,
}


@dataclass
class Schedule:
    """Chooses a fault for each request; none once it is `stopped`."""

    seed: int
    stopped: bool = False
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._request_received = asyncio.Event()

    def fault(self, request: str) -> tuple[Fault, int]:
        """Return a fault, and after how many bytes of the response it occurs, where that applies."""
        if self.stopped:
            return "none", 0
        fault = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        after = int(self._rng.paretovariate(0.5) * 100)
        self.faults.append(f"{fault} after {after}: {request}")
        self._request_received.set()
        return fault, after

    async def wait_for(self, requests: int) -> None:
        """Wait until this many requests were made."""
        while len(self.faults) < requests:
            self._request_received.clear()
            await self._request_received.wait()

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}; faults:", *self.faults])
