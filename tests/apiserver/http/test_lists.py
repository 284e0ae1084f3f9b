"""Lists, pages, tables, partial metadata, discovery and OpenAPI."""

import asyncio
import json
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from shoal.apiserver.http.responses import Representation
from shoal.cluster.port import Page
from shoal.cluster.resources import CONFIG_MAPS, Object, Resource, resources
from tests.apiserver.http.api_server import Embedded

JSON = "application/json"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},{JSON};as=Table;v=v1beta1;g=meta.k8s.io,{JSON}"
PARTIAL = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{JSON}"
TYPED = f"application/vnd.kubernetes.protobuf,{JSON}"


@pytest.fixture
def maps(api: Embedded, space: str) -> str:
    """Path of three config maps, a to c."""
    path = f"/api/v1/namespaces/{space}/configmaps"
    for name in "abc":
        labels = {"name": name, "vowel": str(name in "ae").lower()}
        api.client().create(path, {"metadata": {"name": name, "labels": labels}, "data": {"x": name}})
    return path


def names(found: Object) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


def test_a_list_is_ordered(api: Embedded, maps: str) -> None:
    found = api.client().get(maps)
    assert (found["kind"], found["apiVersion"], names(found)) == ("ConfigMapList", "v1", ["a", "b", "c"])
    assert found["items"][0] == api.client().get(f"{maps}/a")


SELECTED = {
    "labelSelector=vowel%3Dtrue": ["a"],
    "labelSelector=name+in+(a,c),vowel!%3Dtrue": ["c"],
    "fieldSelector=metadata.name%3Db": ["b"],
    "fieldSelector=metadata.name!%3Db&labelSelector=vowel%3Dfalse": ["c"],
    "labelSelector=nope": [],
}


@pytest.mark.parametrize("query", SELECTED)
def test_selectors(api: Embedded, maps: str, query: str) -> None:
    assert names(api.client().get(f"{maps}?{query}")) == SELECTED[query]


def test_pages_show_one_consistent_state(api: Embedded, maps: str) -> None:
    client = api.client()
    first = client.get(f"{maps}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 1)
    client.call("DELETE", f"{maps}/c")
    second = client.get(f"{maps}?limit=2&continue={first['metadata']['continue']}")
    assert (names(second), second["metadata"].get("continue")) == (["c"], None)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_list_at_an_exact_version(api: Embedded, maps: str) -> None:
    client = api.client()
    version = client.get(maps)["metadata"]["resourceVersion"]
    client.call("DELETE", f"{maps}/a")
    then = client.get(f"{maps}?resourceVersion={version}&resourceVersionMatch=Exact")
    now = client.get(f"{maps}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert (names(then), names(now)) == (["a", "b", "c"], ["b", "c"])


@pytest.mark.parametrize("accept", [TABLE, KUBECTL])
def test_a_list_as_a_table(api: Embedded, maps: str, accept: str) -> None:
    found = api.ask("GET", maps, headers={"Accept": accept}).json
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in found["rows"]] == [["a", 1], ["b", 1], ["c", 1]]
    assert found["metadata"]["resourceVersion"]


INCLUDED: dict[str, str | None] = {
    "": "PartialObjectMetadata",
    "includeObject=Metadata": "PartialObjectMetadata",
    "includeObject=Object": "ConfigMap",
    "includeObject=None": None,
}


@pytest.mark.parametrize("query", INCLUDED)
def test_include_object_of_table_rows(api: Embedded, maps: str, query: str) -> None:
    found = api.ask("GET", f"{maps}/a?{query}", headers={"Accept": TABLE}).json
    obj = found["rows"][0].get("object", {})
    assert obj.get("kind") == INCLUDED[query]
    assert obj.get("metadata", {}).get("name") == ((obj and "a") or None)
    assert (
        found["metadata"]["resourceVersion"] == api.client().get(f"{maps}/a")["metadata"]["resourceVersion"]
    )


def test_partial_object_metadata(api: Embedded, maps: str) -> None:
    found = api.ask("GET", f"{maps}/a", headers={"Accept": PARTIAL}).json
    assert found.keys() == {"kind", "apiVersion", "metadata"}
    listed = api.ask("GET", maps, headers={"Accept": PARTIAL_LIST}).json
    assert (listed["kind"], names(listed)) == ("PartialObjectMetadataList", ["a", "b", "c"])
    assert {item["kind"] for item in listed["items"]} == {"PartialObjectMetadata"}


@pytest.mark.parametrize("accept", ["", "*/*", "application/*", TYPED, "text/html, */*;q=0.1"])
def test_accept_headers_that_allow_json(api: Embedded, maps: str, accept: str) -> None:
    assert api.ask("GET", f"{maps}/a", headers={"Accept": accept}).json["kind"] == "ConfigMap"


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.full_name)
def test_every_resource_is_in_discovery(api: Embedded, resource: Resource[Object]) -> None:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    listed = {entry["name"]: entry for entry in api.client().get(root)["resources"]}
    entry = listed[resource.plural]
    assert (entry["kind"], entry["namespaced"]) == (resource.kind, resource.namespaced)
    assert (f"{resource.plural}/status" in listed) == resource.status
    assert api.client().get(f"{root}/{resource.plural}")["kind"] == f"{resource.kind}List"
    table = api.ask("GET", f"{root}/{resource.plural}", headers={"Accept": TABLE}).json
    assert "Name" in [column["name"] for column in table["columnDefinitions"]]


def test_aggregated_discovery_equals_plain_discovery(api: Embedded) -> None:
    accept = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
    at_once = [
        item
        for path in ("/api", "/apis")
        for item in api.ask("GET", path, headers={"Accept": accept}).json["items"]
    ]
    for group in at_once:
        name, version = group["metadata"].get("name", ""), group["versions"][0]
        root = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
        listed = {entry["name"]: entry["verbs"] for entry in api.client().get(root)["resources"]}
        listed.pop("bindings", None)
        assert listed == dict(_flat(version["resources"]))


def _flat(resources: list[Object]) -> Any:  # noqa: ANN401 - pairs
    for resource in resources:
        yield resource["resource"], resource["verbs"]
        for part in resource.get("subresources", ()):
            yield f"{resource['resource']}/{part['subresource']}", part["verbs"]


def test_openapi_references_resolve(api: Embedded) -> None:
    paths = api.client().get("/openapi/v3")["paths"]
    assert len(paths) == len({resource.api_version for resource in resources()})
    for place in paths.values():
        answer = api.ask("GET", place["serverRelativeURL"])
        schemas = answer.json["components"]["schemas"]
        text = answer.text.decode()
        references = {part.partition('"')[0] for part in text.split('"$ref":"#/components/schemas/')[1:]}
        assert references <= schemas.keys()
        assert "immutable" in answer.headers["Cache-Control"]


def test_openapi_v2_is_empty(api: Embedded) -> None:
    assert api.client().get("/openapi/v2")["definitions"] == {}
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = api.ask("GET", "/openapi/v2", headers={"Accept": accept})
    assert (answer.code, answer.text) == (200, b"")


def test_warnings_name_dropped_fields(api: Embedded, space: str) -> None:
    body = {"metadata": {"name": "a", "nope": 1}, 'qu"ote': 1, "ü": 1}
    answer = api.ask("POST", f"/api/v1/namespaces/{space}/configmaps", json.dumps(body).encode())
    assert answer.code == 201
    assert answer.headers.get_all("Warning") == [
        r'299 - "unknown field \"metadata.nope\""',
        r'299 - "unknown field \"[qu\"ote]\""',
        r'299 - "unknown field \"[\\xfc]\""',
    ]
    assert answer.json.keys() == {"apiVersion", "kind", "metadata"}


async def test_a_long_table_yields_to_the_event_loop() -> None:
    texts = [b'{"metadata":{"name":"a"}}'] * 1000
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count_turns())
    representation = Representation(CONFIG_MAPS, "Table", QueryParams(), lambda: 0.0)
    made = json.loads(await representation.encode_page(Page(items=texts, version="1")))
    other.cancel()
    assert ([row["cells"][0] for row in made["rows"]], made["metadata"]) == (
        ["a"] * 1000,
        {"resourceVersion": "1"},
    )
    assert turns > 5


def test_a_warning_names_a_restart_policy_that_is_ignored(api: Embedded, space: str) -> None:
    template = {"spec": {"containers": [{"name": "a", "command": ["b"]}], "restartPolicy": "Always"}}
    body = {"metadata": {"name": "a"}, "spec": {"template": template}}
    path = f"/apis/diengine.opendilab.org/v2alpha1/namespaces/{space}/dijobs"
    answer = api.ask("POST", path, json.dumps(body).encode())
    assert answer.code == 201, answer.json
    (warning,) = answer.headers.get_all("Warning", [])
    assert warning.startswith('299 - "spec.template.spec.restartPolicy: is always Never, because ')
