"""Run coroutines on virtual time, with a wall clock that goes with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from shoal.simulator.loop import VirtualLoop

T = TypeVar("T")
START_TIME = 1_800_000_000.0


def run_virtual(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario())


def clock() -> float:
    """The wall clock: virtual seconds after START_TIME."""
    return START_TIME + asyncio.get_running_loop().time()
