"""Damaged objects: the result is an object or a ClusterError, never another exception."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.api import registry as kind_registry
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import ClusterError, InternalError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import PODS, Object, Resource, by_kind
from tests.api import test_crds
from tests.apiserver.registry import test_strategies
from tests.apiserver.registry.objects import opened

GOOD: list[tuple[Resource[Object], Object]] = [
    *((row[0], row[1]) for row in test_strategies.FILLED.values()),
    *(
        (by_kind()[kind.api_version, kind.kind], raw | {"metadata": {"name": "a"}})
        for kind, raw in test_crds.VALID
        if kind in kind_registry.kinds()
    ),
]
METADATA = {
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["a.b/c"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}],
    "generateName": "x-",
    "resourceVersion": "1",
    "uid": "u",
}
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["a", "-1", "1Gi", "100%", "", [], {}]),
)
json = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401 - any JSON value
    """Yield the paths of all values inside a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, inner in steps for found in ((*path, step), *paths_in(inner, (*path, step)))]


def with_value_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy with another value at a path."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = with_value_at(copy[path[0]], path[1:], new)
    return copy


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Resource[Object], Object, Object]:
    """Draw a resource, a valid object, and the same object with one or two values replaced."""
    resource, good = draw(st.sampled_from(GOOD))
    field = draw(st.sampled_from([None, *METADATA]))
    more = {} if field is None else {field: METADATA[field]}
    bad: Any = good | {"metadata": good["metadata"] | more}
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(paths_in(bad) or [()]))
        bad = with_value_at(bad, path, draw(json)) if path else bad
    return resource, good, bad


async def attempt(registry: Registry, resource: Resource[Object], good: Object, bad: Object) -> None:
    name = good["metadata"]["name"]
    attempts = [
        lambda: registry.create(resource, bad),
        lambda: registry.create(resource, good),
        lambda: registry.update(resource, bad),
        lambda: registry.patch(resource, name, patch=bad),
        lambda: registry.patch_status(resource, name, patch=bad),
        lambda: registry.patch_status(resource, name, patch={"status": bad.get("spec")}),
        lambda: registry.update(resource, bad, status=True),
        lambda: registry.delete(resource, name, deletion=Deletion(propagation="Foreground")),
    ]
    for attempt in attempts:
        try:
            made: Any = await attempt()  # type: ignore[no-untyped-call]
        except ClusterError as error:
            made = error
        if isinstance(made, ClusterError):
            odd = isinstance(made, InternalError) and "resourceVersion" not in made.message
            assert not odd, "there is one thing that an API server answers with 500"
        else:
            assert made is None or made["metadata"]["uid"]
    assert isinstance((await registry.list(PODS)).items, list)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_every_input_gives_an_object_or_a_cluster_error(
    case: tuple[Resource[Object], Object, Object],
) -> None:
    async def run() -> None:
        async with opened() as registry:
            await attempt(registry, *case)

    asyncio.run(run())
