"""Random requests never cause an internal error, and every failure has a Status."""

import json
import urllib.parse
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.http.api_server import Embedded


class FuzzedRequest(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    media: str
    accept: str


def words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


METHODS = words("GET POST PUT PATCH DELETE")
STEPS = words(
    "api apis v1 namespaces default pods configmaps a status binding eviction batch jobs tyrl.io v1alpha1"
    " tyjobs openapi v2 v3 nodes bindings .. / // version healthz"
)
PATHS = st.lists(STEPS | st.text(max_size=4), max_size=8).map("/".join)
COLLECTIONS = words(
    "api/v1/namespaces/default/configmaps api/v1/namespaces/default/pods api/v1/nodes api/v1/namespaces"
    " api/v1/namespaces/default/services api/v1/namespaces/default/secrets api/v1/namespaces/default/events"
    " apis/batch/v1/namespaces/default/jobs apis/tyrl.io/v1alpha1/namespaces/default/tyjobs"
    " apis/policy/v1/namespaces/default/poddisruptionbudgets apis/scheduling.k8s.io/v1/priorityclasses"
    " apis/coordination.k8s.io/v1/namespaces/default/leases apis/resource.aibee.cn/v1alpha1/pools"
)
OBJECTS = st.tuples(COLLECTIONS, words("/a /a/status /a/binding /a/eviction") | st.just("")).map("".join)
QUERIES = st.dictionaries(
    words(
        "limit continue labelSelector fieldSelector resourceVersion resourceVersionMatch dryRun"
        " fieldValidation propagationPolicy gracePeriodSeconds includeObject orphanDependents timeoutSeconds"
    ),
    words("0 1 x All Strict Exact a=b a!=b (a in -1 999999999999999999999999999999") | st.text(max_size=5),
    max_size=3,
)
NAMES = words(
    "metadata name namespace labels annotations spec status data kind apiVersion containers template $patch"
    " op path value from target finalizers ownerReferences uid image resources requests cpu tolerations"
    " taints workerSets leader conditions resourceVersion generateName deletionTimestamp selector ports phase"
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | NAMES
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def with_name(body: Any) -> Any:  # noqa: ANN401 - as JSON has it
    return {"metadata": {"name": "a"}} | body if isinstance(body, dict) else body


BODIES = (JSON | JSON.map(with_name)).map(lambda body: json.dumps(body).encode())
MEDIA = words(
    "application/json application/yaml application/vnd.kubernetes.protobuf text/plain"
    " application/merge-patch+json application/json-patch+json application/strategic-merge-patch+json ;;"
)
ACCEPTS = words(
    "application/json */* application/json;as=Table;v=v1;g=meta.k8s.io ;;=, application/json;as=x"
)

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
THERE: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": {"metadata": {"name": "a"}, "data": {"x": "y"}},
    "/api/v1/namespaces/default/pods": POD,
    "/api/v1/nodes": {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
}
"""Objects that exist at the start, until a request deletes them."""

OFTEN = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", autouse=True)
def _create_objects(api: Embedded) -> None:
    for path, body in THERE.items():
        api.client().create(path, body)


@OFTEN
@given(
    request=st.builds(
        FuzzedRequest, METHODS, PATHS | OBJECTS, QUERIES, st.binary(max_size=40), MEDIA, ACCEPTS
    )
)
def test_random_bytes_are_answered(api: Embedded, request: FuzzedRequest) -> None:
    check(api, request)


@OFTEN
@given(request=st.builds(FuzzedRequest, METHODS, OBJECTS, QUERIES, BODIES, MEDIA, ACCEPTS))
def test_random_objects_are_answered(api: Embedded, request: FuzzedRequest) -> None:
    check(api, request)


def check(api: Embedded, request: FuzzedRequest) -> None:
    place = f"/{urllib.parse.quote(request.path, errors='replace')}"
    query = urllib.parse.urlencode(request.query, errors="replace")
    headers = {"Content-Type": request.media, "Accept": request.accept}
    answer = api.ask(request.method, f"{place}?{query}", request.body, headers)
    assert answer.code < 500 or b"Too large resource version" in answer.text
    if answer.code >= 400:
        assert (answer.json["kind"], answer.json["code"]) == ("Status", answer.code)
