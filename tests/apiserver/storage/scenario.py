"""A deterministic scenario of many writes, for crash tests.

The steps of a phase run concurrently and share commits; a phase ends when all its steps are acknowledged. So
the records of the scenario, and their order, are always the same.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from shoal.apiserver.registry.records import Journal, MemoryJournal, Record, decode
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, Object, resources
from tests.apiserver.registry.objects import Clock, config_map, pod

Step = Callable[[Registry], Awaitable[object]]
State = dict[tuple[str, str, str], bytes]
"""JSON texts of objects by resource, namespace and name."""


def phases(rounds: int) -> Iterator[list[Step]]:
    """The scenario: create, change and delete owners with dependents, and a namespace with its contents."""
    for i in range(rounds):
        space = f"n{i}"
        owners = [f"owner{i}-{k}" for k in range(3)]
        yield [partial(Registry.create, resource=NAMESPACES, body={"metadata": {"name": space}})]
        yield [partial(_make, name=name, finalizers=["a.b/c"] * name.endswith("1")) for name in owners]
        yield [partial(_make_owned, name=f"{owner}-{k}", owner=owner) for owner in owners for k in range(2)]
        yield [partial(Registry.create, resource=PODS, body=pod(f"p{k}", namespace=space)) for k in range(3)]
        yield [partial(Registry.bind, name="p0", namespace=space, node="node")]
        yield [partial(_change, name=name, value=str(i)) for name in owners]
        yield [partial(_delete, name=owners[0], propagation="Foreground")]
        yield [partial(_delete, name=owners[1], propagation="Background")]
        yield [partial(Registry.delete, resource=NAMESPACES, name=space)]
        yield [
            partial(Registry.delete, resource=PODS, name="p0", namespace=space, deletion=Deletion(grace=0)),
            partial(_make, name=f"late{i}", finalizers=[]),
        ]


async def _make(registry: Registry, name: str, finalizers: list[str]) -> None:
    await registry.create(CONFIG_MAPS, config_map(name, finalizers=finalizers))


async def _change(registry: Registry, name: str, value: str) -> None:
    await registry.patch(CONFIG_MAPS, name, patch={"data": {"round": value}})


async def _delete(registry: Registry, name: str, propagation: Propagation) -> None:
    await registry.delete(CONFIG_MAPS, name, deletion=Deletion(propagation=propagation))


async def _make_owned(registry: Registry, name: str, owner: str) -> None:
    found = (await registry.get(CONFIG_MAPS, owner))["metadata"]
    reference: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": found["uid"]}
    await registry.create(CONFIG_MAPS, config_map(name, ownerReferences=[reference]))


async def play(journal: Journal, rounds: int, acknowledged: Callable[[int], None]) -> None:
    """Run the scenario; after each phase report the acknowledged version."""
    registry = Registry(
        journal, clock=Clock(), rng=random.Random(7), retention=Retention(changes=30), cleanup_interval=1e6
    )
    async with registry:
        for steps in phases(rounds):
            await asyncio.gather(*(step(registry) for step in steps))
            acknowledged(int(registry.version))


class _RecordingJournal(MemoryJournal):
    """Records everything that is appended."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, records: Sequence[Record]) -> None:
        self.records.extend(records)


def history(rounds: int) -> list[Record]:
    """Return all records of the scenario, starting with version 1."""
    witness = _RecordingJournal()
    asyncio.run(play(witness, rounds, lambda _: None))
    return witness.records


def state_at(records: Sequence[Record], version: int) -> State:
    """Return the state at a version."""
    state: State = {}
    for record in records[:version]:
        if record.deleted:
            del state[record.key[:]]
        else:
            state[record.key[:]] = record.body
    return state


async def state_of(registry: Registry) -> State:
    """Return the state of a registry."""
    found: State = {}
    for resource in resources():
        for body in (await registry.list(resource.read_as(bytes))).items:
            metadata = decode(body)["metadata"]
            found[resource.full_name, metadata.get("namespace", ""), metadata["name"]] = body
    return found


def is_consistent(state: State) -> bool:
    """Whether every object has its owner and its namespace: transactions are atomic."""
    uids = {decode(body)["metadata"]["uid"] for body in state.values()}
    for (_, namespace, _), body in state.items():
        owners = decode(body)["metadata"].get("ownerReferences", ())
        if any(owner["uid"] not in uids for owner in owners):
            return False
        if namespace and (NAMESPACES.full_name, "", namespace) not in state:
            return False
    return True
