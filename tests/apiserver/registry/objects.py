"""Small objects and a registry for tests."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shoal.apiserver.registry.records import Journal
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.port import Cluster
from shoal.cluster.resources import JOBS, PODS, Object, Resource

NOW = 1_800_000_000.0


class Clock:
    """A wall clock that the test advances."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(
    journal: Journal | None = None, clock: Clock | None = None, retention: Retention | None = None
) -> AsyncIterator[Registry]:
    registry = Registry(journal, clock=clock or Clock(), rng=random.Random(1), retention=retention)
    async with registry:
        yield registry


def as_port(registry: Registry) -> Cluster:
    """Let mypy check that a registry implements the cluster port."""
    return registry


def pod(name: str = "a", *, spec: Object | None = None, **metadata: Any) -> Object:  # noqa: ANN401 - as JSON has it
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"name": name} | metadata, "spec": {"containers": containers} | (spec or {})}


def job(name: str = "j", **spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    template = pod(spec={"restartPolicy": "Never"})["spec"]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": template}} | spec}


def config_map(name: str = "c", data: Object | None = None, **metadata: Any) -> Object:  # noqa: ANN401 - as JSON has it
    return {"metadata": {"name": name} | metadata, "data": data or {"a": "b"}}


def owned_by(owner: Object, *, blocks: bool | None = None) -> Object:
    """Return an owner reference."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return reference if blocks is None else reference | {"blockOwnerDeletion": blocks}


async def names(registry: Cluster, resource: Resource[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in (await registry.list(resource)).items]


__all__ = [
    "JOBS",
    "NOW",
    "PODS",
    "Clock",
    "as_port",
    "config_map",
    "job",
    "names",
    "opened",
    "owned_by",
    "pod",
]
