"""The journal on disk: one SQLite file in a directory that one process locks.

Records are only appended: the newest record of an object is its state, older ones are history until they are
compacted. A write costs one row at the end of one table; a commit costs one sync of the write-ahead log,
however many writes it contains.

A commit runs inline or in a worker thread, by recent fsync latency: handing over to a thread costs about as
much as a commit on a fast disk. While commits are frequent and fast they run inline; if the disk is slow, or
its latency is not known from the last second, the commit runs in the thread and the event loop goes on. A
disk that starts to hang blocks the loop for one commit only.
"""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeVar

from shoal.apiserver.registry.records import Key, Record
from shoal.cluster.errors import StorageError

_LOCK: Final = "lock"
_HOME_FILES: Final = {_LOCK, "state.db", "token"}
"""A directory with any of these files is a home of Shoal."""
_IGNORED_FILES: Final = {"lost+found"}


def lock_directory(directory: Path) -> IO[bytes]:
    """Create the directory if needed, and lock it until the returned file is closed.

    The lock is advisory (flock), so it ends with the process, however that ends.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_directory(directory)
        path = directory / _LOCK
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    except OSError as problem:
        raise StorageError(f"{directory} cannot be used: {problem.strerror}") from problem
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        file.close()
        raise StorageError(
            f"{directory} is in use by another process; stop it, or choose another directory"
        ) from problem
    except OSError as problem:
        file.close()
        raise StorageError(f"{directory} cannot be locked: {problem.strerror}") from problem
    return file


def _check_directory(directory: Path) -> None:
    """Refuse a directory with files of other programs: the home is made private to its owner."""
    names = {path.name for path in directory.iterdir()}
    if names - _IGNORED_FILES and not names & _HOME_FILES:
        raise StorageError(
            f"{directory} contains files that are not Shoal's; choose an empty directory, or one that does "
            "not exist"
        )


INLINE_LATENCY: Final = 0.001
"""Mean commit latency in seconds up to which commits run inline."""
LATENCY_MAX_AGE: Final = 1.0
"""Seconds after which a measured latency is out of date."""
_NEWEST_WEIGHT: Final = 1 / 8
"""Weight of the newest commit in the running mean."""
_MAX_MEASUREMENT: Final = 0.1
"""Upper bound of one measurement in seconds: about twenty fast commits outweigh a slow one."""


class CommitLatency:
    """Running mean of the commit latency."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with the assumption that the disk is slow."""
        self._clock = clock
        self._mean = _MAX_MEASUREMENT
        self._measured_at = -LATENCY_MAX_AGE

    @property
    def is_low(self) -> bool:
        """Whether the next commit is expected to be fast."""
        return self._mean < INLINE_LATENCY and self._clock() - self._measured_at < LATENCY_MAX_AGE

    def measure(self, commit: Callable[[], None]) -> None:
        """Run a commit and update the mean."""
        began = self._clock()
        try:
            commit()
        finally:
            self._measured_at = self._clock()
            self._mean += (min(self._measured_at - began, _MAX_MEASUREMENT) - self._mean) * _NEWEST_WEIGHT


T = TypeVar("T")

APPLICATION_ID: Final = 0x53686F61  # "Shoa"
SCHEMA_VERSION: Final = 1
FILE: Final = "state.db"
_SCHEMA: Final = (
    """
    CREATE TABLE records (
        version INTEGER PRIMARY KEY,
        time REAL NOT NULL,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        body BLOB NOT NULL,
        deleted INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE TABLE compaction (version INTEGER NOT NULL) STRICT",
    "INSERT INTO compaction VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_MAX_INLINE_RECORDS: Final = 64
"""Maximum number of records in an inline commit; for so few the sync takes most of the time."""
_INSERT: Final = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)"
_SELECT: Final = (
    "SELECT version, time, resource, namespace, name, body, deleted FROM records ORDER BY version"
)


class SqliteJournal:
    """A journal in a directory, which it locks."""

    def __init__(self, directory: Path, latency: CommitLatency | None = None) -> None:
        """Open or create the file; StorageError, with a message for users, if that fails."""
        self._lock: IO[bytes] = lock_directory(directory)
        self._path = directory / FILE
        try:
            self._connection = _open(self._path)
        except BaseException:
            self._lock.close()
            raise
        self._latency = latency or CommitLatency()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    def load(self) -> tuple[int, Iterator[Record]]:
        """Return the version up to which the history is compacted, and all records, oldest first."""
        with _storage_errors(self._path, "cannot be read"):
            ((compacted,),) = self._connection.execute("SELECT version FROM compaction")
        return compacted, self._records()

    def _records(self) -> Iterator[Record]:
        with _storage_errors(self._path, "cannot be read"):
            for version, time, resource, namespace, name, body, deleted in self._connection.execute(_SELECT):
                yield Record(version, time, Key(resource, namespace, name), body, bool(deleted))

    def append_now(self, records: Sequence[Record]) -> bool:
        """Store records inline if recent commits were fast; returns whether it did."""
        if len(records) > _MAX_INLINE_RECORDS or not self._latency.is_low:
            return False
        self._append(records)
        return True

    async def append(self, records: Sequence[Record]) -> None:
        """Store all records or none; they are on disk when this returns."""
        if not self.append_now(records):
            await self._run(lambda: self._append(records))

    def _append(self, records: Sequence[Record]) -> None:
        rows = [(r.version, r.time, *r.key, r.body, int(r.deleted)) for r in records]
        self._latency.measure(lambda: self._transact(lambda: self._connection.executemany(_INSERT, rows)))

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Delete superseded records, and note that history before `version` is gone."""
        rows = [(number,) for number in superseded]

        def forget() -> None:
            self._connection.executemany("DELETE FROM records WHERE version = ?", rows)
            self._connection.execute("UPDATE compaction SET version = ?", (version,))

        await self._run(lambda: self._transact(forget))

    async def close(self) -> None:
        """Close the file and unlock the directory."""
        try:
            await self._run(self._connection.close)
        finally:
            self._thread.shutdown()
            self._lock.close()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _transact(self, work: Callable[[], object]) -> None:
        with _storage_errors(self._path, "cannot be written"):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                work()
                self._connection.execute("COMMIT")
            except BaseException:  # roll back after any error, so that the next transaction can start
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


# --- opening -----------------------------------------------------------------------------------------------


def _open(path: Path) -> sqlite3.Connection:
    """Open a connection that syncs every commit; the file is checked first."""
    with _storage_errors(path, "cannot be opened"):
        path.touch(mode=0o600)
        path.chmod(0o600)  # SQLite gives its -wal and -shm files the same mode
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_file_format(connection, path)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "locking_mode = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        plain = " ".join(verdict.split())
        raise StorageError(f"{path} is damaged ({plain}); nothing was changed; restore it from a backup")
    if _number(connection, "user_version") == 0:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("COMMIT")


def _check_file_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program, or of a newer version of Shoal."""
    version, application_id = _number(connection, "user_version"), _number(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application_id != APPLICATION_ID and (tables or version or application_id):
        raise StorageError(f"{path} is a database of another program; nothing was changed")
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by a newer version of Shoal (format {version}; this one supports "
            f"{SCHEMA_VERSION}); nothing was changed; use the newer version"
        )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    found: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return found


class _storage_errors:  # noqa: N801 - used like a function
    """Context manager that converts errors of SQLite and the system to StorageError."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error | OSError):
            raise StorageError(f"{self._path} {self._what}: {_message(error)}") from error


def _message(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error)
    if "malformed" in text or "not a database" in text:
        return f"it is damaged ({text}); nothing was changed; restore it from a backup"
    return text
