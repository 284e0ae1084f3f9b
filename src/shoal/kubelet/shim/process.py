"""Processes as /proc shows them, and the cgroups of one container.

A process is identified by boot id, pid and start time, since pids are reused. A container has one cgroup
directory with version 2, several with version 1 (one per controller), or none.
"""

import os

DEAD = "ZX"


class ProcessStat:
    """The fields of /proc/PID/stat that are used here."""

    __slots__ = ("pages", "parent", "session", "started", "state", "ticks")

    def __init__(self, line: str) -> None:
        """Parse a line; the process name, in parentheses, may contain any characters."""
        fields = line[line.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])
        self.pages = int(fields[21])
        self.ticks = sum(int(field) for field in fields[11:15])  # includes waited-for children

    @property
    def alive(self) -> bool:
        return self.state not in DEAD


def stat(pid: "int | str") -> "ProcessStat | None":
    """The state of a process; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return ProcessStat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid: int) -> "int | None":
    """When a process was started, in clock ticks since boot; None if it does not exist."""
    found = stat(pid)
    return None if found is None else found.started


def list_pids() -> list[int]:
    """The pids of all visible processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(pid: int) -> list[int]:
    """The children of a process, including adopted ones and zombies."""
    try:
        return [child for thread in os.listdir(f"/proc/{pid}/task") for child in _children_of(pid, thread)]
    except (FileNotFoundError, ProcessLookupError):
        if stat(pid) is None:
            return []
    return [other for other in list_pids() if (found := stat(other)) and found.parent == pid]


def _children_of(pid: int, thread: str) -> list[int]:
    """Raises FileNotFoundError if the thread is gone, or the kernel lacks CONFIG_PROC_CHILDREN."""
    with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found = children(pid)
    for child in found:
        found.extend(children(child))
    return found


def boot_id() -> str:
    """Identifies the current boot: pids of another boot are meaningless."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def join_cgroups(directories: "list[str]") -> None:
    """Move this process, and thereby its future children, into cgroups."""
    for directory in directories:
        with open(f"{directory}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")


def cgroup_members(directories: "list[str]") -> "set[int]":
    """The pids in any of these cgroups."""
    texts = (_read(directory, "cgroup.procs") for directory in directories)
    return {int(pid) for text in texts for pid in text.split()}


def oom_killed(directories: "list[str]") -> bool:
    """Whether the kernel's OOM killer ended a process in these cgroups."""
    names = ("memory.events", "memory.oom_control")  # version 2, version 1
    texts = (_read(directory, name) for directory in directories for name in names)
    counts = (line.split() for text in texts for line in text.splitlines())
    return any(name == "oom_kill" and int(count) > 0 for name, count in counts)


def _read(directory: str, name: str) -> str:
    """The contents of a cgroup file.

    Empty if it does not exist, since each cgroup version has its own files.
    """
    try:
        with open(f"{directory}/{name}", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
