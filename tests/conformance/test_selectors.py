"""Label and field selectors of lists."""

import pytest
import pytest_asyncio

from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Object,
    Resource,
    resource_of,
)
from tests.conformance.cases import cases
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import config_map, make, name_of, pod, unique

LABELS: dict[str, dict[str, str]] = {
    "bare": {},
    "db": {"tier": "db", "team": "a"},
    "empty": {"tier": ""},
    "far": {"example.com/zone": "z1"},
    "web": {"tier": "web", "team": "b"},
}
ALL = list(LABELS)

BY_LABEL: list[tuple[str, list[str]]] = [
    ("", ALL),
    ("tier=db", ["db"]),
    ("tier==db", ["db"]),
    ("tier = db", ["db"]),
    ("tier!=db", ["bare", "empty", "far", "web"]),
    ("tier in (db,web)", ["db", "web"]),
    ("tier in ( db , web )", ["db", "web"]),
    ("tier in (db)", ["db"]),
    ("tier in ()", ["empty"]),
    ("tier in (db,)", ["db", "empty"]),
    ("tier notin (db)", ["bare", "empty", "far", "web"]),
    ("tier notin (db,web)", ["bare", "empty", "far"]),
    ("tier", ["db", "empty", "web"]),
    ("!tier", ["bare", "far"]),
    ("! tier", ["bare", "far"]),
    ("tier=", ["empty"]),
    ("tier==", ["empty"]),
    ("tier!=", ["bare", "db", "far", "web"]),
    ("tier,team", ["db", "web"]),
    ("tier=db,team=a", ["db"]),
    ("tier=db,team=b", []),
    ("tier,!team", ["empty"]),
    ("tier=db,tier=web", []),
    ("example.com/zone=z1", ["far"]),
    ("example.com/zone in (z1,z2),!tier", ["far"]),
    ("in in (in)", []),
    ("notin", []),
    ("other", []),
]


@pytest.mark.parametrize("labels, expected", BY_LABEL, ids=[row[0] or "none" for row in BY_LABEL])
async def test_label_selectors(cluster: Cluster, namespace: str, labels: str, expected: list[str]) -> None:
    for name, its in LABELS.items():
        await cluster.create(CONFIG_MAPS, config_map(name, namespace, metadata={"labels": its}))
    found = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace, labels=labels))
    assert [name_of(item) for item in found.items] == expected


BAD_LABELS = [
    "tier in db",
    "tier=db,",
    "tier in (db",
    "tier in",
    "=db",
    "!",
    "tier=db=web",
    "tier===db",
    "a b",
    "!tier=db",
    "tier=b c",
    "-tier",
    "tier=-db",
    "tier notin",
    ",",
    "tier in (a b)",
    "tier=@",
]


@pytest.mark.parametrize("labels", BAD_LABELS)
async def test_an_invalid_label_selector_is_refused(cluster: Cluster, namespace: str, labels: str) -> None:
    with pytest.raises(BadRequestError):
        await cluster.list(CONFIG_MAPS, Selector(namespace=namespace, labels=labels))
    with pytest.raises(BadRequestError):
        async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace, labels=labels)):
            pass


async def some_pods(cluster: Cluster, namespace: str) -> None:
    """Create pods `a` (bound, running), `b` (bound, failed), `c` (pending) and `d` (of another scheduler)."""
    for name in "abc":
        await cluster.create(PODS, pod(name, namespace))
    await cluster.create(PODS, pod("d", namespace, schedulerName="shoal", restartPolicy="Never"))
    for name, node, phase in (("a", "n1", "Running"), ("b", "n2", "Failed")):
        await cluster.bind(name, namespace, node)
        await cluster.patch_status(
            PODS, name, namespace, patch={"status": {"phase": phase, "podIP": "10.0.0.1"}}
        )


BY_POD_FIELD: list[tuple[str, str]] = [
    ("spec.nodeName=n1", "a"),
    ("spec.nodeName==n1", "a"),
    ("spec.nodeName!=n1", "bcd"),
    ("spec.nodeName=", "cd"),
    ("spec.nodeName!=", "ab"),
    ("status.phase=Pending", "cd"),
    ("status.phase=Running", "a"),
    ("status.phase!=Failed,status.phase!=Running", "cd"),
    ("spec.nodeName=n1,status.phase=Running", "a"),
    ("spec.nodeName=n1,status.phase=Failed", ""),
    ("spec.schedulerName=shoal", "d"),
    ("spec.schedulerName=default-scheduler", "abc"),
    ("spec.restartPolicy=Never", "d"),
    ("status.podIP=10.0.0.1", "ab"),
    ("metadata.name=b", "b"),
    ("metadata.name!=b", "acd"),
    ("", "abcd"),
]


@pytest.mark.parametrize("fields, expected", BY_POD_FIELD, ids=[row[0] or "none" for row in BY_POD_FIELD])
async def test_field_selectors_of_pods(cluster: Cluster, namespace: str, fields: str, expected: str) -> None:
    await some_pods(cluster, namespace)
    found = await cluster.list(PODS, Selector(namespace=namespace, fields=fields))
    assert [name_of(item) for item in found.items] == list(expected)


async def test_a_namespace_can_be_selected_as_a_field(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    fields = f"metadata.namespace={namespace},metadata.name=a"
    found = await cluster.list(CONFIG_MAPS, Selector(fields=fields))
    assert [item["metadata"]["namespace"] for item in found.items] == [namespace]


OTHER_FIELDS: list[tuple[str, Resource[Object], str, str]] = [
    ("nodes that are cordoned", NODES, "spec.unschedulable=true", "cordoned"),
    ("nodes that are not cordoned", NODES, "spec.unschedulable=false", "open"),
    ("secrets of no type", SECRETS, "type=Opaque", "plain"),
    ("secrets of a type", SECRETS, "type=example.com/other", "typed"),
    ("events by their reason", EVENTS, "reason=Seen", "seen"),
    ("events by their involved object", EVENTS, "involvedObject.name=other", "lost"),
    ("events by their type", EVENTS, "type=Warning", "lost"),
    ("namespaces that are active", NAMESPACES, "status.phase=Active", "active"),
]
OBJECTS: dict[str, dict[str, Object]] = {
    "Node": {"cordoned": {"spec": {"unschedulable": True}}, "open": {}},
    "Secret": {"plain": {}, "typed": {"type": "example.com/other"}},
    "Event": {"seen": {}, "lost": {"reason": "Lost", "type": "Warning"}},
    "Namespace": {"active": {}},
}
"""Objects to select from, by kind and name."""


@pytest_asyncio.fixture(loop_scope="session")
async def mark(namespace: str, create_temporary: CreateTemporary) -> str:
    """Create OBJECTS for the test, and return the label that all of them have."""
    mark = unique("mark")
    about = {"involvedObject": {"kind": "Pod", "namespace": namespace, "name": "other"}}
    for resource in (NODES, SECRETS, EVENTS, NAMESPACES):
        there = namespace if resource.namespaced else ""
        for name, fields in OBJECTS[resource.kind].items():
            more = {**fields, **about} if name == "lost" else fields
            await create_temporary(
                resource, make(resource, f"{mark}-{name}", there, metadata={"labels": {"mark": mark}}, **more)
            )
    return mark


@cases("resource, fields, expected", OTHER_FIELDS)
async def test_field_selectors_of_other_kinds(
    cluster: Cluster, mark: str, resource: Resource[Object], fields: str, expected: str
) -> None:
    found = await cluster.list(resource, Selector(labels=f"mark={mark}", fields=fields))
    assert [name_of(item) for item in found.items] == [f"{mark}-{expected}"]


BAD_FIELDS: list[tuple[Resource[Object], str]] = [
    (PODS, "spec.colour=red"),
    (PODS, "metadata.labels.a=b"),
    (PODS, "metadata.uid=x"),
    (PODS, "spec.nodeName"),
    (PODS, "spec.nodeName in (a)"),
    (PODS, "nodeName=a"),
    (CONFIG_MAPS, "spec.nodeName=a"),
    (CONFIG_MAPS, "data.a=1"),
    (NODES, "status.phase=Running"),
    (resource_of("TYJob"), "spec.nodeName=a"),
    (resource_of("TYJob"), "spec.priority=1"),
]


@pytest.mark.parametrize(
    "resource, fields", BAD_FIELDS, ids=[f"{row[0].plural} {row[1]}" for row in BAD_FIELDS]
)
async def test_an_unknown_field_is_refused(
    cluster: Cluster, namespace: str, resource: Resource[Object], fields: str
) -> None:
    where = Selector(namespace=namespace if resource.namespaced else "", fields=fields)
    with pytest.raises(BadRequestError):
        await cluster.list(resource, where)
    with pytest.raises(BadRequestError):
        async with cluster.watch(resource, where):
            pass


async def test_labels_and_fields_select_together(cluster: Cluster, namespace: str) -> None:
    for name in ("a", "b"):
        await cluster.create(PODS, pod(name, namespace, labels={"app": "x"}))
    where = Selector(namespace=namespace, labels="app=x", fields="metadata.name=b")
    assert [name_of(item) for item in (await cluster.list(PODS, where)).items] == ["b"]
