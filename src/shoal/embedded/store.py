"""The objects of an embedded home: its registry over SQLite, and admission of pods to this machine."""

import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.apiserver.sqlite import SqliteJournal
from shoal.apiserver.strategies.strategy import ObjectReader, Strategy
from shoal.cluster.errors import StorageError
from shoal.cluster.resources import PODS, Object
from shoal.kubelet.admission import PodValidator, has_pods, validate_pods


@asynccontextmanager
async def open_home(
    directory: Path,
    *,
    clock: Callable[[], float] = time.time,
    rng: random.Random | None = None,
    retention: Retention | None = None,
    strategies: Mapping[str, Strategy] | None = None,
) -> AsyncIterator[Registry]:
    """The registry of a home directory; StorageError, with a message for users, if it cannot be opened."""
    journal = SqliteJournal(directory)
    try:
        registry = Registry(journal, clock=clock, rng=rng, retention=retention, strategies=strategies)
    except (msgspec.DecodeError, ValueError) as error:
        await journal.close()
        raise StorageError(
            f"{directory} contains damaged objects ({error}); nothing was changed; restore it from a backup"
        ) from error
    async with registry:
        yield registry


def with_pod_validation(table: Mapping[str, Strategy], validate: PodValidator) -> Mapping[str, Strategy]:
    """Strategies that also reject pods, and jobs whose pods, cannot run on this machine."""
    return {
        name: _with_pod_validation(strategy, validate) if has_pods(strategy.resource.kind) else strategy
        for name, strategy in table.items()
    }


def _with_pod_validation(strategy: Strategy, validate: PodValidator) -> Strategy:
    kind = strategy.resource.kind

    def admit(obj: Object, old: Object | None, reader: ObjectReader) -> None:
        strategy.admit(obj, old, reader)
        if old is None or (old.get("spec") != obj.get("spec") and kind != PODS.kind):
            strategy.raise_if_invalid(obj["metadata"]["name"], validate_pods(obj, validate, kind))

    return replace(strategy, admit=admit)
