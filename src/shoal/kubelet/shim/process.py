"""Processes as /proc tells of them, and who they are: a process is known by its boot, number and start.

The cgroups of one container: directories, one for version 2 and several for version 1; maybe none.
"""

import os

DEAD = "ZX"


class Stat:
    """One line of /proc/PID/stat, as far as it matters here."""

    __slots__ = ("pages", "parent", "session", "started", "state", "ticks")

    def __init__(self, line: str) -> None:
        """Read a line: the name, in parentheses, may hold anything."""
        fields = line[line.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])
        self.pages = int(fields[21])
        self.ticks = sum(
            int(field) for field in fields[11:15]
        )  # those of children that it asked for included

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


def children(pid: int) -> list[int]:
    """The children of a process, adopted ones too; the dead that nobody has asked for yet included."""
    try:
        return [child for thread in os.listdir(f"/proc/{pid}/task") for child in _children_of(pid, thread)]
    except (FileNotFoundError, ProcessLookupError):
        if stat(pid) is None:
            return []
    return [other for other in everybody() if (found := stat(other)) and found.parent == pid]


def _children_of(pid: int, thread: str) -> list[int]:
    """FileNotFoundError if the thread is gone, or the kernel is without CONFIG_PROC_CHILDREN."""
    with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found = children(pid)
    for child in found:
        found.extend(children(child))
    return found


def boot_id() -> str:
    """Which boot this is: numbers of processes mean nothing in another."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def join(directories: "list[str]") -> None:
    """Move this process into its cgroups: what it starts is in them too."""
    for directory in directories:
        with open(f"{directory}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")


def members(directories: "list[str]") -> "set[int]":
    """Who is in any of these cgroups."""
    texts = (_read(directory, "cgroup.procs") for directory in directories)
    return {int(pid) for text in texts for pid in text.split()}


def ran_out_of_memory(directories: "list[str]") -> bool:
    """Whether the kernel killed somebody in these cgroups for want of memory."""
    names = ("memory.events", "memory.oom_control")  # of version 2, and of version 1
    texts = (_read(directory, name) for directory in directories for name in names)
    counts = (line.split() for text in texts for line in text.splitlines())
    return any(name == "oom_kill" and int(count) > 0 for name, count in counts)


def _read(directory: str, name: str) -> str:
    """What a file says; nothing if there is none: every version has its own."""
    try:
        with open(f"{directory}/{name}", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
