"""The last steps from a forked process to the container's command: user, directory, signals, exec.

`become_command` ends the start of a container (`supervision`). `main` is the program behind `kubectl exec`
and exec probes: it enters the cgroups and namespaces of a running container and becomes another command
there. Its descriptors 0 to 2 are set up by the daemon, which is its parent and with which it dies.

All of it runs in the child process. A step that fails raises StartError: the command has not been started.
"""

import os
import sys

from shoal.kubelet.shim import process, system
from shoal.kubelet.shim.records import receive_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_CONFIG = 3
_TIOCSCTTY = 0x540E
_NAMESPACES = (("user", system.CLONE_NEWUSER), ("mnt", system.CLONE_NEWNS))


class StartError(Exception):
    """Raised when a command cannot be started; `code` is the exit code that a shell would report."""

    def __init__(self, message: str, code: int = NOT_EXECUTABLE) -> None:
        super().__init__(message)
        self.code = code


class StartErrorContext:
    """Context manager that turns an OSError into a StartError with a message in front."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __enter__(self) -> None:
        """Do nothing: only errors matter."""

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> None:
        if isinstance(error, OSError):
            where = f" ({error.filename})" if error.filename and error.filename not in self._message else ""
            raise StartError(f"{self._message}: {error.strerror or error}{where}") from error


def become_command(config: "dict[str, Any]", parent: int) -> "NoReturn":
    """Replace this process by the command; its descriptors and namespaces must be set up already."""
    with StartErrorContext(f"cannot run as user {config['user']} and group {config['group']}"):
        _set_identity(config["user"], config["group"], config["groups"])
    system.die_with_parent(parent)  # after the change of user, which clears this setting
    with StartErrorContext(f"cannot change to the directory {config['cwd']}"):
        os.chdir(config["cwd"])
    os.umask(0o022)
    system.restore_signals()
    _exec_command(config["argv"], config["env"])


def _set_identity(user: "int | None", group: "int | None", groups: "list[int]") -> None:
    """Change user and groups; a no-op, which needs no privileges, if they are the current ones."""
    if user in {None, os.geteuid()} and group in {None, os.getegid()} and not groups:
        return
    os.setgroups(groups)
    if group is not None:
        os.setresgid(group, group, group)
    if user is not None:
        os.setresuid(user, user, user)


def _exec_command(argv: "list[str]", env: "dict[str, str]") -> "NoReturn":
    """Execute a command, looked up in the PATH of its own environment."""
    command = argv[0]
    if "/" in command:
        candidates = [command]
    else:
        candidates = [f"{folder}/{command}" for folder in env.get("PATH", os.defpath).split(":") if folder]
    failure: OSError | None = None
    for path in candidates:
        try:
            os.execve(path, argv, env)  # noqa: S606 - running the user's command is the purpose
        except (FileNotFoundError, NotADirectoryError) as error:
            failure = failure or (error if "/" in command else None)
        except OSError as error:
            failure = error
    if failure is None:
        raise StartError(f'exec: "{command}": executable file not found in $PATH', NOT_FOUND)
    code = NOT_FOUND if isinstance(failure, FileNotFoundError) else NOT_EXECUTABLE
    raise StartError(f'exec: "{command}": {(failure.strerror or str(failure)).lower()}', code)


# --- exec in a running container ---------------------------------------------------------------------------


def main() -> None:
    """Become a command in a running container; on failure print the reason and exit like a shell."""
    config = receive_config(_CONFIG)
    try:
        if config["tty"]:
            import fcntl  # noqa: PLC0415 - a shared library, which the start of a container does not need

            fcntl.ioctl(0, _TIOCSCTTY, 0)
        _enter_container(config)
        become_command(config, config["parent"])
    except (StartError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.code if isinstance(error, StartError) else 1)


def _enter_container(config: "dict[str, Any]") -> None:
    """Join the cgroups and namespaces of the container's first process, after checking its start time."""
    pid: int = config["pid"]
    container = os.pidfd_open(pid)
    found = process.stat(pid)
    if found is None or found.started != config["start"] or not found.alive:
        raise StartError("the container is not running")
    process.join_cgroups(config["cgroups"])
    flags = sum(flag for name, flag in _NAMESPACES if _namespace(pid, name) != _namespace("self", name))
    if flags:
        system.setns(container, flags)
    os.close(container)


def _namespace(pid: "int | str", name: str) -> int:
    return os.stat(f"/proc/{pid}/ns/{name}").st_ino
