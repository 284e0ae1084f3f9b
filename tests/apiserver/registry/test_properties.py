"""Properties of random writes: watches, restarts and failing journals."""

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.registry.records import Record
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.errors import ClusterError, StorageError
from shoal.cluster.port import Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, Object, Resource
from tests.apiserver.registry.objects import Clock, config_map, owned_by, pod

SETTINGS = settings(deadline=None, max_examples=60)
RESOURCES = (CONFIG_MAPS, PODS, NAMESPACES)


class TestJournal:
    """Stores records in a dictionary; fails when the test says so."""

    __test__ = False

    def __init__(self, fails: Iterable[bool] = ()) -> None:
        self.records: dict[int, Record] = {}
        self.compacted = 0
        self.batches: list[list[int]] = []
        self.fails = iter(fails)
        self.quick = itertools.cycle((True, False))

    def load(self) -> tuple[int, Iterable[Record]]:
        return self.compacted, [self.records[version] for version in sorted(self.records)]

    def append_now(self, records: Sequence[Record]) -> bool:
        """Commit inline every other time."""
        quick = next(self.quick)
        if quick:
            self._keep(records)
        return quick

    async def append(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(0)
        self._keep(records)

    def _keep(self, records: Sequence[Record]) -> None:
        if next(self.fails, False):
            raise StorageError("the disk is full")
        assert all(record.version not in self.records for record in records)
        self.batches.append([record.version for record in records])
        self.records |= {record.version: record for record in records}

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        for number in superseded:
            del self.records[number]
        self.compacted = version

    async def close(self) -> None:
        pass


names = st.sampled_from("abc")
operations = st.one_of(
    st.tuples(st.just("create"), names, names),
    st.tuples(st.just("label"), names, st.sampled_from(["x", "y"])),
    st.tuples(st.just("hold"), names, st.booleans()),
    st.tuples(st.just("delete"), names, st.sampled_from(["Background", "Foreground", "Orphan"])),
    st.tuples(st.just("pod"), names, st.booleans()),
    st.tuples(st.just("end"), names, st.just(0)),
    st.tuples(st.just("namespace"), names, st.booleans()),
)
Operation = tuple[str, str, Any]


async def apply(registry: Registry, operation: Operation) -> None:
    """Run one write; ignore refusals."""
    verb, name, value = operation
    try:
        match verb:
            case "create":
                await create(registry, name, owner=value)
            case "label":
                await registry.patch(CONFIG_MAPS, name, patch={"metadata": {"labels": {"team": value}}})
            case "hold":
                finalizers = ["a.b/c"] if value else None
                await registry.patch(CONFIG_MAPS, name, patch={"metadata": {"finalizers": finalizers}})
            case "delete":
                await registry.delete(CONFIG_MAPS, name, deletion=Deletion(propagation=value))
            case "pod":
                namespace = name if value else "default"
                await registry.create(PODS, pod(name, namespace=namespace))
                await registry.bind(name, namespace, "n")
            case "end":
                await registry.delete(PODS, name, deletion=Deletion(grace=value))
            case "namespace" if value:
                await registry.create(NAMESPACES, {"metadata": {"name": name}})
            case "namespace":
                await registry.delete(NAMESPACES, name)
    except ClusterError:
        pass


async def create(registry: Registry, name: str, owner: str) -> None:
    references = []
    if owner != name:
        references = [owned_by(await registry.get(CONFIG_MAPS, owner), blocks=True)]
    await registry.create(CONFIG_MAPS, config_map(name, ownerReferences=references))


def opened(journal: TestJournal, changes: int = 10_000) -> Registry:
    return Registry(journal, clock=Clock(), rng=random.Random(1), retention=Retention(changes=changes))


def identity(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


async def replay(
    registry: Registry, resource: Resource[Object], selector: Selector, version: str, end: int
) -> dict[tuple[str, str], Object]:
    """Return the state that a client computes from a list and a watch up to a version."""
    page = await registry.list(resource, selector, at=version)
    found = {identity(obj): obj for obj in page.items}
    last = int(version)
    async with registry.watch(resource, selector, version=version, timeout=0) as events:
        async for event in events:
            assert int(event.version) > last, "in order, and each once"
            last = int(event.version)
            if last > end:
                break
            if event.object is None:
                continue
            key = identity(event.object)
            assert (key in found) == (event.type != "ADDED")
            assert event.object["metadata"]["resourceVersion"] == event.version
            found[key] = event.object
            if event.type == "DELETED":
                del found[key]
    return found


@SETTINGS
@given(st.lists(operations, max_size=25), st.sampled_from(["", "team=x", "team!=x"]), st.data())
def test_a_list_equals_the_replayed_watch(done: list[Operation], labels: str, data: st.DataObject) -> None:
    async def run() -> None:
        async with opened(TestJournal()) as registry:
            start = int(registry.version)
            for operation in done:
                await apply(registry, operation)
            last = int(registry.version)
            begin = data.draw(st.integers(start, last))
            end = data.draw(st.integers(begin, last))
            for resource in RESOURCES:
                selector = Selector(labels=labels)
                page = await registry.list(resource, selector, at=str(end))
                expected = {identity(obj): obj for obj in page.items}
                assert await replay(registry, resource, selector, str(begin), end) == expected

    asyncio.run(run())


@SETTINGS
@given(st.lists(operations, max_size=25), st.integers(1, 20))
def test_a_reopened_registry_is_unchanged(done: list[Operation], changes: int) -> None:
    async def run() -> None:
        journal = TestJournal()
        async with opened(journal, changes) as registry:
            for operation in done:
                await apply(registry, operation)
            before = await full_state(registry)
        async with opened(journal, changes) as registry:
            assert await full_state(registry) == before
            await apply(registry, ("create", "a", "a"))

    asyncio.run(run())


async def full_state(registry: Registry) -> object:
    """Return all that a client can read: the state and the history."""
    found: list[object] = [registry.version]
    for resource in RESOURCES:
        found.append(await registry.list(resource))
        for version in range(int(registry.version) + 1):
            try:
                found.append(await registry.list(resource, at=str(version)))
                async with registry.watch(resource, version=str(version), timeout=0) as events:
                    found.append([event async for event in events])
            except ClusterError as error:
                found.append(error.code)
    return found


@SETTINGS
@given(st.lists(operations, max_size=25), st.lists(st.booleans(), max_size=25))
def test_failed_commits_leave_no_trace(done: list[Operation], fails: list[bool]) -> None:
    async def run() -> None:
        journal = TestJournal([*[False] * 6, *fails])
        async with opened(journal) as registry:
            await asyncio.gather(*(apply(registry, operation) for operation in done))
            kept = await full_state(registry)
            journal.fails = iter(())
            assert await registry.create(PODS, pod("later", namespace="kube-system"))
        async with opened(journal) as registry:
            await registry.delete(PODS, "later", "kube-system")
            again = await full_state(registry)
            assert [page.items for page in pages(again)] == [page.items for page in pages(kept)]

    asyncio.run(run())


def pages(found: Any) -> list[Any]:  # noqa: ANN401 - what `everything` found
    """Return the current list of each resource."""
    versions = int(found[0]) + 1
    width = (len(found) - 1) // len(RESOURCES)
    assert versions
    return [found[1 + i * width] for i in range(len(RESOURCES))]


@SETTINGS
@given(st.lists(operations, max_size=25))
def test_many_writes_share_a_commit_and_keep_their_order(done: list[Operation]) -> None:
    async def run() -> None:
        journal = TestJournal()
        async with opened(journal) as registry:
            built_in = len(journal.batches)
            await asyncio.gather(*(apply(registry, operation) for operation in done))
            versions = [version for batch in journal.batches for version in batch]
            assert versions == sorted(versions) == list(range(1, len(versions) + 1))
            assert len(journal.batches) - built_in <= 4

    asyncio.run(run())
