"""Runs every conformance test against every home, in one event loop; each home is opened once."""

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

CreateTemporary = Callable[[Resource[Object], Object], Awaitable[Object]]

_IN_ONE_LOOP: Final = pytest.mark.asyncio(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of homes in the session loop, and mark known differences as expected failures."""
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
    """A home without controllers."""
    async with home.open(request) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def managed_cluster(home: Home, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A home with controllers: garbage collection, namespaces, disruption budgets."""
    async with home.open_with_controllers(request) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(cluster: Cluster) -> str:
    """Namespace of the test in `cluster`."""
    return name_of(await cluster.create(NAMESPACES, make(NAMESPACES, unique())))


@pytest_asyncio.fixture(loop_scope="session")
async def managed_namespace(managed_cluster: Cluster) -> str:
    """Namespace of the test in `managed_cluster`."""
    return name_of(await managed_cluster.create(NAMESPACES, make(NAMESPACES, unique())))


@pytest_asyncio.fixture(loop_scope="session")
async def create_temporary(cluster: Cluster) -> AsyncIterator[CreateTemporary]:
    """Creates objects that are deleted after the test; for cluster-scoped objects."""
    kept: list[tuple[Resource[Object], Object]] = []

    async def create_and_record(resource: Resource[Object], body: Object) -> Object:
        made = await cluster.create(resource, body)
        kept.append((resource, made))
        return made

    yield create_and_record
    for resource, made in reversed(kept):
        await _remove(cluster, resource, made)


async def _remove(cluster: Cluster, resource: Resource[Object], made: Object) -> None:
    try:
        await cluster.delete(resource, name_of(made), deletion=Deletion(grace=0))
    except NotFoundError:
        return
