"""The cgroups of one container: directories, one for version 2 and several for version 1; maybe none."""


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
