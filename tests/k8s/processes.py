"""Processes that a test starts, stops and restarts, and that never outlive it."""

import contextlib
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

TIMEOUT: Final = 120.0
"""Seconds to wait for something before the test fails."""

_REAPER: Final = Path(__file__).with_name("reaper.py")
_REGISTERED: Final = 'echo "$$" >&0; exec "$@" </dev/null'
"""A shell that sends its id to the reaper and then becomes the program: it is registered at any time."""


def until(condition: Callable[[], bool], what: str, *, explain: Callable[[], str] = str) -> None:
    """Wait until a condition is true; the error of a timeout says what was awaited, and explains."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {TIMEOUT:.0f} s\n{explain()}")
        time.sleep(0.05)


@contextlib.contextmanager
def reaper() -> Iterator[IO[bytes]]:
    """Start a reaper, and yield the pipe through which processes register with it.

    It has a session of its own: a Ctrl-C that ends the test does not end the reaper first.
    """
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-S", "-E", str(_REAPER)], stdin=subprocess.PIPE, start_new_session=True
    )
    with process:
        if process.stdin is None:
            raise RuntimeError("the reaper has no pipe")
        yield process.stdin


class Process:
    """A program with a log file, which can be restarted."""

    def __init__(self, name: str, command: Sequence[str], log: Path, reaper_pipe: IO[bytes]) -> None:
        self.name, self.command, self.log = name, tuple(command), log
        self._reaper_pipe = reaper_pipe
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._running is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._running.pid

    def start(self) -> None:
        if self.alive():
            raise RuntimeError(f"{self.name} is running already")
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(  # noqa: S603 - our own command
                ["/bin/sh", "-c", _REGISTERED, "sh", *self.command],
                stdin=self._reaper_pipe,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the process and wait for its end; no error if it has ended already."""
        if self._running is None:
            return
        self._running.send_signal(how)
        try:
            self._running.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running = None

    def tail(self, lines: int = 20) -> str:
        """Return the end of its log, with its name as title."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.name} ({self.log}):", *text.splitlines()[-lines:]])


def free_ports(count: int) -> list[int]:
    """Return free ports of 127.0.0.1.

    They are below the range of outgoing connections: none is taken by chance while its server is restarted.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = random.sample(range(min(15_000, low // 2), low), k=min(1000, low // 2))
    found = [port for port, _ in zip(filter(_is_free, candidates), range(count), strict=False)]
    if len(found) < count:
        raise RuntimeError(f"no {count} free ports below {low}")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
