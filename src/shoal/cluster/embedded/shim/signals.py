"""Signals: the module without its enums, which take longer to make than the interpreter to start."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

SIGKILL = signal.SIGKILL
SIGTERM = signal.SIGTERM

_CAUGHT = (signal.SIGTERM, signal.SIGCHLD)


def catch(told: "Callable[[int], None]") -> int:
    """Call `told` for what concerns a shim; a descriptor becomes readable whenever it was."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _CAUGHT:
        signal.signal(number, lambda number, _: told(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reader


def restore() -> None:
    """Leave every signal as a program expects to find it."""
    signal.set_wakeup_fd(-1)
    for number in (*_CAUGHT, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def kill_quietly(pid: int, number: int) -> None:
    """Send a signal to a process, or to a group if negative; whoever is gone is gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
