"""Processes that a test starts, stops and starts again, and that never outlive it."""

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

PATIENCE: Final = 120.0
"""Seconds after which something that should have happened is taken not to happen any more."""

_GUARD: Final = Path(__file__).with_name("guard.py")
_REGISTERED: Final = 'echo "$$" >&0; exec "$@" </dev/null'
"""A shell that tells the guard its id and then becomes the program: there is no moment without a guard."""


def until(happened: Callable[[], bool], what: str, *, explain: Callable[[], str] = str) -> None:
    """Wait until something has happened; a failure says what was awaited, and explains."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {PATIENCE:.0f} s\n{explain()}")
        time.sleep(0.05)


@contextlib.contextmanager
def guard() -> Iterator[IO[bytes]]:
    """A guard, and the pipe through which processes make themselves known to it.

    It has a session of its own: a Ctrl-C that ends the test does not end the guard first.
    """
    watching = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-S", "-E", str(_GUARD)], stdin=subprocess.PIPE, start_new_session=True
    )
    with watching:
        if watching.stdin is None:
            raise RuntimeError("a guard without a pipe")
        yield watching.stdin


class Process:
    """A program with a log file, which can be started again after it was stopped or killed."""

    def __init__(self, name: str, command: Sequence[str], log: Path, guarded_by: IO[bytes]) -> None:
        self.name, self.command, self.log = name, tuple(command), log
        self._guard = guarded_by
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
                stdin=self._guard,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process and wait until it is gone; one that is gone already is fine."""
        if self._running is None:
            return
        self._running.send_signal(how)
        try:
            self._running.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running = None

    def tail(self, lines: int = 20) -> str:
        """The end of its log, under its name."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.name} ({self.log}):", *text.splitlines()[-lines:]])


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on.

    They lie below those that the kernel gives to outgoing connections: nobody takes one by chance while what
    listens on it is being restarted.
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
