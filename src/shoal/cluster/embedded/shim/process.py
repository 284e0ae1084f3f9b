"""Processes as /proc tells of them, and who they are: a process is known by its boot, number and start."""

import os

DEAD = "ZX"


class Stat:
    """One line of /proc/PID/stat, as far as it matters here."""

    __slots__ = ("parent", "session", "started", "state")

    def __init__(self, line: str) -> None:
        """Read a line: the name, in parentheses, may hold anything."""
        fields = line[line.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])

    @property
    def alive(self) -> bool:
        return self.state not in DEAD


def stat(pid: "int | str") -> "Stat | None":
    """What is known of a process, if there is one."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return Stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid: int) -> "int | None":
    """When a process was started, in ticks since the boot, if there is one."""
    found = stat(pid)
    return None if found is None else found.started


def everybody() -> list[int]:
    """The numbers of all processes that we may see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children() -> list[int]:
    """Our own children, adopted ones too; the dead that nobody has asked for yet included."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in everybody() if (found := stat(pid)) and found.parent == me]


def boot_id() -> str:
    """Which boot this is: numbers of processes mean nothing in another."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
