"""The last steps to a command: user, directory, signals, and the command itself, found by its PATH.

All of it happens in the child. What fails is told in one sentence, and then there never was a container.
"""

import os

from shoal.kubelet.shim import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NOT_FOUND = 127
NOT_POSSIBLE = 126


class StartError(Exception):
    """Raised when a command cannot be started; says why, and how a shell would tell it by its exit code."""

    def __init__(self, message: str, code: int = NOT_POSSIBLE) -> None:
        super().__init__(message)
        self.code = code


class said:  # noqa: N801 - reads as a clause
    """Turns what the system refuses into a sentence."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, problem: "BaseException | None", trace: object) -> None:
        if isinstance(problem, OSError):
            where = (
                f" ({problem.filename})" if problem.filename and problem.filename not in self._what else ""
            )
            raise StartError(f"{self._what}: {problem.strerror or problem}{where}") from problem


def become(plan: "dict[str, Any]", parent: int) -> "NoReturn":
    """Turn this process, whose descriptors and namespaces are in order, into the command."""
    with said(f"cannot run as user {plan['user']} and group {plan['group']}"):
        _take_identity(plan["user"], plan["group"], plan["groups"])
    system.die_with_parent(parent)  # a change of user takes this back, so it comes after
    with said(f"cannot change to the directory {plan['cwd']}"):
        os.chdir(plan["cwd"])
    os.umask(0o022)
    system.restore()
    execute(plan["argv"], plan["env"])


def _take_identity(user: "int | None", group: "int | None", groups: "list[int]") -> None:
    """Become another user; whoever is that user already needs no right to."""
    if user in {None, os.geteuid()} and group in {None, os.getegid()} and not groups:
        return
    os.setgroups(groups)
    if group is not None:
        os.setresgid(group, group, group)
    if user is not None:
        os.setresuid(user, user, user)


def execute(argv: "list[str]", env: "dict[str, str]") -> "NoReturn":
    """Run a command, found by the PATH that it is to have."""
    name = argv[0]
    if "/" in name:
        candidates = [name]
    else:
        candidates = [f"{folder}/{name}" for folder in env.get("PATH", os.defpath).split(":") if folder]
    refusal: OSError | None = None
    for path in candidates:
        try:
            os.execve(path, argv, env)  # noqa: S606 - running the user's command is what this is for
        except (FileNotFoundError, NotADirectoryError) as problem:
            refusal = refusal or (problem if "/" in name else None)
        except OSError as problem:
            refusal = problem
    if refusal is None:
        raise StartError(f'exec: "{name}": executable file not found in $PATH', NOT_FOUND)
    code = NOT_FOUND if isinstance(refusal, FileNotFoundError) else NOT_POSSIBLE
    raise StartError(f'exec: "{name}": {(refusal.strerror or str(refusal)).lower()}', code)
