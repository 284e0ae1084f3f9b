"""Scenes on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from shoal.simulator.loop import VirtualLoop

T = TypeVar("T")
BEGINNING = 1_800_000_000.0


def virtually(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Play a scene on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scene())


def clock() -> float:
    """The wall clock that goes with it."""
    return BEGINNING + asyncio.get_running_loop().time()
