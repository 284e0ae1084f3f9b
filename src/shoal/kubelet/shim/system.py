"""System calls that Python 3.11 does not offer, and signal handling without the `signal` module's enums.

Creating those enums takes longer than starting the interpreter.
"""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: "int | bytes | None") -> None:
    wide = [ctypes.c_long(given) if isinstance(given, int) else given for given in arguments]
    if getattr(_libc, name)(*wide) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} ({name})")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; exit now if the parent is already dead."""
    _call("prctl", _PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(137)


def adopt_orphans() -> None:
    """Become the parent (subreaper) of every descendant whose own parent dies."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _call("unshare", flags)


def setns(descriptor: int, flags: int) -> None:
    """Join the namespaces of a process, given by its pidfd."""
    _call("setns", descriptor, flags)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system, or bind a part of one."""
    _call("mount", *(os.fsencode(text) for text in (source, target, kind)), flags, os.fsencode(data))


def unmount(target: str, flags: int) -> None:
    """Unmount a file system."""
    _call("umount2", os.fsencode(target), flags)


def pivot_root(root: str, old: str) -> None:
    """Change the root directory of this mount namespace."""
    _call("syscall", _SYS_PIVOT_ROOT[os.uname().machine], os.fsencode(root), os.fsencode(old))


TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

SIGKILL = signal.SIGKILL
SIGTERM = signal.SIGTERM

_CAUGHT = (signal.SIGTERM, signal.SIGCHLD)


def catch_signals(handler: "Callable[[int], None]") -> int:
    """Call `handler` on SIGTERM and SIGCHLD; return a descriptor that becomes readable after each signal."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _CAUGHT:
        signal.signal(number, lambda number, _: handler(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reader


def restore_signals() -> None:
    """Reset all signals to the defaults that a program expects at its start."""
    signal.set_wakeup_fd(-1)
    for number in (*_CAUGHT, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, or to a process group if negative; ignore processes that are gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
