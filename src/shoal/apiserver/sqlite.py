"""The directory of an embedded home: ours alone, and of one process at a time.

The pace of a disk: whether it is worth a way to another thread to wait for it there.

The way there and back takes as long as a good disk needs for a commit. So while commits follow each other and
are quick, they are waited for on the spot; a disk that is slow, or that nothing was heard of for a while, is
waited for elsewhere, and whatever else there is to do goes on. A disk that begins to hang is found out by one
commit.

The journal on disk: one SQLite file, to which records are appended.

Nothing is ever written over: the newest record of an object is its state, older ones are its history until
they are thrown away. So a write costs one row at the end of one table, and a commit costs one sync of the
write-ahead log, however many writes it holds.
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


QUICK: Final = 0.001
"""Seconds that everything may stand still for a commit."""
LATELY: Final = 1.0
"""Seconds after which what was known of the disk is no news."""
_WEIGHT: Final = 1 / 8
"""How much the newest commit counts in the mean."""
_LONGEST: Final = 0.1
"""A commit counts as no longer than this: about twenty quick ones outweigh it."""


class Pace:
    """A running mean of how long commits take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with a disk that has yet to show that it is quick."""
        self._clock = clock
        self._mean = _LONGEST
        self._told = -LATELY

    @property
    def is_quick(self) -> bool:
        """Whether the next commit is likely to be quick."""
        return self._mean < QUICK and self._clock() - self._told < LATELY

    def time(self, commit: Callable[[], None]) -> None:
        """Do a commit, and learn from it."""
        began = self._clock()
        try:
            commit()
        finally:
            self._told = self._clock()
            self._mean += (min(self._told - began, _LONGEST) - self._mean) * _WEIGHT


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
_FEW: Final = 64
"""Records that are written in next to no time: what takes long is to have them safe."""
_INSERT: Final = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)"
_SELECT: Final = (
    "SELECT version, time, resource, namespace, name, body, deleted FROM records ORDER BY version"
)


class SqliteJournal:
    """A journal in a directory, which is this process's alone."""

    def __init__(self, directory: Path, pace: Pace | None = None) -> None:
        """Open the file, or make it; StorageError with one message for people if that cannot be."""
        self._lock: IO[bytes] = take_directory(directory)
        self._path = directory / FILE
        try:
            self._connection = _open(self._path)
        except BaseException:
            self._lock.close()
            raise
        self._pace = pace or Pace()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    def load(self) -> tuple[int, Iterator[Record]]:
        """How far the history has been compacted, and all records, oldest first."""
        with _problems(self._path, "cannot be read"):
            ((compacted,),) = self._connection.execute("SELECT version FROM compaction")
        return compacted, self._records()

    def _records(self) -> Iterator[Record]:
        with _problems(self._path, "cannot be read"):
            for version, time, resource, namespace, name, body, deleted in self._connection.execute(_SELECT):
                yield Record(version, time, Key(resource, namespace, name), body, bool(deleted))

    def append_now(self, records: Sequence[Record]) -> bool:
        """Keep records without a way to another thread, if the disk was quick lately; whether it was done."""
        if len(records) > _FEW or not self._pace.is_quick:
            return False
        self._append(records)
        return True

    async def append(self, records: Sequence[Record]) -> None:
        """Keep all these records, or none: when it returns they are on the disk."""
        if not self.append_now(records):
            await self._run(lambda: self._append(records))

    def _append(self, records: Sequence[Record]) -> None:
        rows = [(r.version, r.time, *r.key, r.body, int(r.deleted)) for r in records]
        self._pace.time(lambda: self._transact(lambda: self._connection.executemany(_INSERT, rows)))

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Forget records, and that anything was known of what came before `version`."""
        rows = [(number,) for number in superseded]

        def forget() -> None:
            self._connection.executemany("DELETE FROM records WHERE version = ?", rows)
            self._connection.execute("UPDATE compaction SET version = ?", (version,))

        await self._run(lambda: self._transact(forget))

    async def close(self) -> None:
        """Let go of the file and of the directory."""
        try:
            await self._run(self._connection.close)
        finally:
            self._thread.shutdown()
            self._lock.close()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _transact(self, work: Callable[[], object]) -> None:
        with _problems(self._path, "cannot be written"):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                work()
                self._connection.execute("COMMIT")
            except BaseException:  # whatever it is, the next transaction must be able to begin
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


# --- opening -----------------------------------------------------------------------------------------------


def _open(path: Path) -> sqlite3.Connection:
    """A connection that syncs every commit, to a file that is ours and whole."""
    with _problems(path, "cannot be opened"):
        path.touch(mode=0o600)
        path.chmod(0o600)  # what SQLite puts beside it has the same mode
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_whose(connection, path)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "locking_mode = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        plain = " ".join(verdict.split())
        raise StorageError(f"{path} is damaged ({plain}): nothing was changed; restore it from a copy")
    if _number(connection, "user_version") == 0:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("COMMIT")


def _check_whose(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of somebody else, and one of a Shoal to come."""
    version, whose = _number(connection, "user_version"), _number(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if whose != APPLICATION_ID and (tables or version or whose):
        raise StorageError(f"{path} is a database of another program: nothing was changed")
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by a newer Shoal (its format is {version}, this one knows "
            f"{SCHEMA_VERSION}): nothing was changed; use that version"
        )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    found: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return found


class _problems:  # noqa: N801 - reads as a clause
    """Turns what SQLite and the system say into one message for people."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error | OSError):
            raise StorageError(f"{self._path} {self._what}: {_plain(error)}") from error


def _plain(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error)
    if "malformed" in text or "not a database" in text:
        return f"it is damaged ({text}); nothing was changed; restore it from a copy"
    return text
