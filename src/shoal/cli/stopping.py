"""Commands that run until they are told to stop."""

import asyncio
import signal


def told_to_stop() -> asyncio.Event:
    """Is set when the process is told to stop (Ctrl-C, SIGTERM), from now on."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    return told
