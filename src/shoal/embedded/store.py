"""Opening an embedded home."""

import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.apiserver.sqlite import SqliteJournal
from shoal.apiserver.strategies.strategy import Rules
from shoal.apiserver.strategies.table import RULES
from shoal.cluster.errors import StorageError


@asynccontextmanager
async def open_home(
    directory: Path,
    *,
    clock: Callable[[], float] = time.time,
    dice: random.Random | None = None,
    retention: Retention | None = None,
    rules: Mapping[str, Rules] = RULES,
) -> AsyncIterator[Registry]:
    """The registry whose objects are kept in a directory; StorageError, for people, if it cannot be had."""
    journal = SqliteJournal(directory)
    try:
        registry = Registry(journal, clock=clock, dice=dice, retention=retention, rules=rules)
    except (msgspec.DecodeError, ValueError) as problem:
        await journal.close()
        raise StorageError(
            f"{directory} has objects that are damaged ({problem}): nothing was changed"
        ) from problem
    async with registry:
        yield registry
