"""Runs every conformance test against every home, all in one event loop: a home is opened once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest
import pytest_asyncio

from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NAMESPACES, Object, Resource
from tests.conformance.differences import DIFFERENCES
from tests.conformance.homes import HOMES, Home
from tests.conformance.objects import make, name_of, unique

pytest.register_assert_rewrite("tests.conformance.waiting")

Keep = Callable[[Resource[Object], Object], Awaitable[Object]]

_IN_ONE_LOOP: Final = pytest.mark.asyncio(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put all tests that run in homes into the loop of the homes, and mark what is known not to hold."""
    for item in items:
        call = getattr(item, "callspec", None)
        home = call and call.params.get("home")
        if isinstance(home, Home):
            item.add_marker(_IN_ONE_LOOP, append=False)
            _mark_difference(item, home.name)


def _mark_difference(item: pytest.Item, home: str) -> None:
    reason = DIFFERENCES.get(home, {}).get(_case_name(item, home))
    if reason is not None:
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _case_name(item: pytest.Item, home: str) -> str:
    """`file::test[case]`, without the home."""
    name = item.name.replace(f"[{home}]", "").replace(f"[{home}-", "[").replace(f"-{home}]", "]")
    return f"{item.path.name}::{name}"


@pytest.fixture(scope="session", params=HOMES, ids=lambda home: home.name)
def home(request: pytest.FixtureRequest) -> Home:
    found: Home = request.param
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(home: Home, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A home as it is."""
    async with home.open(request) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tended(home: Home, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A home with everybody at work who tends what is in it: who owns whom, namespaces, budgets."""
    async with home.open_tended(request) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(cluster: Cluster) -> str:
    """A namespace of the test's own in `cluster`."""
    return name_of(await cluster.create(NAMESPACES, make(NAMESPACES, unique())))


@pytest_asyncio.fixture(loop_scope="session")
async def tended_namespace(tended: Cluster) -> str:
    """A namespace of the test's own in `tended`."""
    return name_of(await tended.create(NAMESPACES, make(NAMESPACES, unique())))


@pytest_asyncio.fixture(loop_scope="session")
async def keep(cluster: Cluster) -> AsyncIterator[Keep]:
    """Makes objects that are deleted after the test: those that live in no namespace."""
    kept: list[tuple[Resource[Object], Object]] = []

    async def make_and_keep(resource: Resource[Object], body: Object) -> Object:
        made = await cluster.create(resource, body)
        kept.append((resource, made))
        return made

    yield make_and_keep
    for resource, made in reversed(kept):
        await _remove(cluster, resource, made)


async def _remove(cluster: Cluster, resource: Resource[Object], made: Object) -> None:
    try:
        await cluster.delete(resource, name_of(made), deletion=Deletion(grace=0))
    except NotFoundError:
        return
