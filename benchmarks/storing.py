"""Durable writes: the embedded store, compared with a loop that inserts the same bytes into SQLite."""

import asyncio
import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clusters import Raw, new_pods
from measuring import Row, best_times, throughput_row
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.resources import PODS
from shoal.embedded.store import open_home

_TABLE = "CREATE TABLE records (version INTEGER PRIMARY KEY, namespace TEXT, name TEXT, body BLOB) STRICT"


async def writes(place: Path, count: int, *, writers: int, at_once: int = 1) -> Row:
    """Create pods with concurrent writers; each waits for the commit before its next create.

    The bare loop commits `at_once` inserts at a time.
    """
    bare = _bare(place / "bare.db")
    numbers = itertools.count()
    async with open_home(place / "home") as home:
        (first,) = new_pods([next(numbers)])
        kept = msgspec.json.encode(await home.create(PODS, first))
        taken, floor = await best_times(
            lambda: _create(home, [*new_pods(itertools.islice(numbers, count))], writers),
            lambda: _insert(bare, [kept] * count, at_once),
        )
    bare.close()
    return throughput_row(count, taken, floor, "writes", "≥ 0.5")


async def _create(home: Registry, pods: Sequence[Raw], writers: int) -> None:
    waiting = iter(pods)

    async def write() -> None:
        for pod in waiting:
            await home.create(PODS, pod)

    await asyncio.gather(*(write() for _ in range(writers)))


async def _insert(connection: sqlite3.Connection, bodies: Sequence[bytes], at_once: int) -> None:
    for first in range(0, len(bodies), at_once):
        batch = bodies[first : first + at_once]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO records (namespace, name, body) VALUES ('default', 'pod', ?)",
            [(body,) for body in batch],
        )
        connection.execute("COMMIT")


def _bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _TABLE):
        connection.execute(statement)
    return connection
