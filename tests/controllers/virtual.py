"""Time without waiting: a loop whose clock moves on to the next timer as soon as nothing else is to do."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
BEGINNING = 1_800_000_000.0


class _Selector(selectors.SelectSelector):
    """Instead of waiting for a time, says that it has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen again")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of its own."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def virtually(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Play a scene on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scene())


def clock() -> float:
    """The wall clock that goes with it."""
    return BEGINNING + asyncio.get_running_loop().time()
