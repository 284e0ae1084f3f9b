"""Which request meets which fault: decided by dice with a seed, and written down."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Fault = Literal[
    "none", "409", "410", "429", "500", "503", "gone event", "dropped", "hanging", "truncated", "half-open"
]
"""What a proxy does to a request:

- a number: the answer is this code, and the server never hears of the request;
- gone event: a watch begins well, and its first line says that the version is too old;
- dropped: the connection is reset before there is an answer; the server has had the request;
- hanging: there is never an answer;
- truncated: the connection is reset in the middle of the answer;
- half-open: the answer stops in the middle, and the connection stays open.
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
    """What happens to the next request; nothing any more once all is `calm`."""

    seed: int
    calm: bool = False
    met: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._heard = asyncio.Event()

    def fault(self, request: str) -> tuple[Fault, int]:
        """A fault, and after how many bytes of the answer, where that matters."""
        if self.calm:
            return "none", 0
        fault = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        after = int(self._rng.paretovariate(0.5) * 100)
        self.met.append(f"{fault} after {after}: {request}")
        self._heard.set()
        return fault, after

    async def has_met(self, requests: int) -> None:
        """Wait until so many requests were made."""
        while len(self.met) < requests:
            self._heard.clear()
            await self._heard.wait()

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}; what requests met:", *self.met])
