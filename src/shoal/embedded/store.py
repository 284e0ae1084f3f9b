"""Opening an embedded home."""

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
    rules: Mapping[str, Strategy] | None = None,
) -> AsyncIterator[Registry]:
    """The registry whose objects are kept in a directory; StorageError, for people, if it cannot be had."""
    journal = SqliteJournal(directory)
    try:
        registry = Registry(journal, clock=clock, rng=rng, retention=retention, strategies=rules)
    except (msgspec.DecodeError, ValueError) as error:
        await journal.close()
        raise StorageError(
            f"{directory} has objects that are damaged ({error}): nothing was changed"
        ) from error
    async with registry:
        yield registry


def with_pod_validation(table: Mapping[str, Strategy], validate: PodValidator) -> Mapping[str, Strategy]:
    """Rules that refuse what cannot be run, besides what they refuse anyway."""
    return {
        name: _with_pod_validation(rules, validate) if has_pods(rules.resource.kind) else rules
        for name, rules in table.items()
    }


def _with_pod_validation(rules: Strategy, validate: PodValidator) -> Strategy:
    kind = rules.resource.kind

    def admit(obj: Object, old: Object | None, reader: ObjectReader) -> None:
        rules.admit(obj, old, reader)
        if old is None or (old.get("spec") != obj.get("spec") and kind != PODS.kind):
            rules.raise_if_invalid(obj["metadata"]["name"], validate_pods(obj, validate, kind))

    return replace(rules, admit=admit)
