"""The directory of an embedded home: ours alone, and of one process at a time."""

import fcntl
import os
from pathlib import Path
from typing import IO, Final

from shoal.cluster.errors import StorageError

_LOCK: Final = "lock"
_OURS: Final = {_LOCK, "state.db", "token"}
"""A directory with any of these is a home."""
_OF_THE_SYSTEM: Final = {"lost+found"}


def take_directory(directory: Path) -> IO[bytes]:
    """Make the directory if it is not there, and lock it until the file that is returned is closed.

    The lock is the system's: it ends with the process, however that ends.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_what_is_not_ours(directory)
        path = directory / _LOCK
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    except OSError as problem:
        raise StorageError(f"{directory} cannot be used: {problem.strerror}") from problem
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        file.close()
        raise StorageError(
            f"{directory} is in use by another process: a state has one owner at a time"
        ) from problem
    except OSError as problem:
        file.close()
        raise StorageError(f"{directory} cannot be locked: {problem.strerror}") from problem
    return file


def _refuse_what_is_not_ours(directory: Path) -> None:
    """Others are locked out of a home: that must not happen to a directory in which they have something."""
    names = {path.name for path in directory.iterdir()}
    if names - _OF_THE_SYSTEM and not names & _OURS:
        raise StorageError(
            f"{directory} has files in it, and none of them is Shoal's: name a directory that is empty, "
            "or not there"
        )
