"""Commands that last: they run until they are told to stop, and keep many objects meanwhile."""

import asyncio
import gc
import signal
from typing import Final

_YOUNG, _OLDER, _OLD = 50_000, 20, 100
"""How many objects come to be before the collector looks for those that only hold each other."""

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def told_to_stop() -> asyncio.Event:
    """Is set when the process is told to stop (Ctrl-C, SIGTERM), from now on."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in _STOPPING:
        loop.add_signal_handler(number, told.set)
    return told


def look_for_garbage_rarely() -> None:
    """Do not look through a whole world for garbage again and again: there is little of it in there."""
    gc.set_threshold(_YOUNG, _OLDER, _OLD)
