"""Starting a shim's program with the descriptors that it is to have, and no others."""

import fcntl
import os
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from shoal.cluster.embedded.shim import files

PROGRAM: Final = (sys.executable, "-I", "-S", str(Path(files.__file__).with_name("start.py")))
_PLAN: Final = 3
_ABOVE: Final = 16
"""Descriptors that are passed on are moved up to here first: none may lie where another is to go."""


def spawn(
    mode: str,
    name: str,
    plan: dict[str, Any],
    descriptors: Mapping[int, int],
    *,
    blocked: Collection[signal.Signals] = (),
) -> int:
    """Start the program in a session of its own, and return its number.

    `descriptors` maps those that it sees to ours. The name is for people who look at the list of processes.
    """
    copy = files.give_plan(plan)
    copies: dict[int, int] = {}
    try:
        for target, source in {**descriptors, _PLAN: copy}.items():
            copies[target] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
        actions = [
            *((os.POSIX_SPAWN_OPEN, target, os.devnull, os.O_RDWR, 0) for target in range(_PLAN)),
            *((os.POSIX_SPAWN_DUP2, source, target) for target, source in copies.items()),
        ]
        arguments = [*PROGRAM, mode, name]
        return os.posix_spawn(
            arguments[0],
            arguments,
            {},
            file_actions=actions,
            setsid=True,
            setsigmask=blocked,
            setsigdef=signal.valid_signals(),
        )
    finally:
        for descriptor in (copy, *copies.values()):
            os.close(descriptor)
