"""Refused requests (methods, paths, bodies, headers, queries) with the expected code and reason."""

import json
from typing import Any, NamedTuple

import pytest

from shoal.apiserver.http.bodies import MAX_BODY_BYTES
from tests.apiserver.http.api_server import Embedded

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAPS = "/api/v1/namespaces/{}/configmaps"
TYJOBS = "/apis/tyrl.io/v1alpha1/namespaces/{}/tyjobs"


class Case(NamedTuple):
    method: str
    path: str
    code: int
    reason: str = ""
    body: Any = None
    media: str = JSON
    accept: str = JSON
    says: str = ""


def named(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    return {"metadata": {"name": name, **more}}


CASES: dict[str, Case] = {
    # --- paths and methods
    "nothing is at the root": Case("GET", "/", 404, "NotFound"),
    "nothing is at an unknown path": Case("GET", "/nope", 404, "NotFound"),
    "an unknown resource": Case("GET", "/api/v1/foos", 404, "NotFound"),
    "an unknown version": Case("GET", "/api/v2/pods", 404, "NotFound"),
    "an unknown group": Case("GET", "/apis/nope/v1/pods", 404, "NotFound"),
    "a group without a name": Case("GET", "/apis//v1/pods", 404, "NotFound"),
    "a resource of another group": Case("GET", "/apis/batch/v1/pods", 404, "NotFound"),
    "a namespaced object without its namespace": Case("GET", "/api/v1/pods/a", 404, "NotFound"),
    "nodes have no namespace": Case("GET", "/api/v1/namespaces/{}/nodes", 404, "NotFound"),
    "an unknown part": Case("GET", f"{MAPS}/a/scale", 404, "NotFound"),
    "config maps have no status": Case("GET", f"{MAPS}/a/status", 404, "NotFound"),
    "something behind a part": Case("GET", "/api/v1/namespaces/{}/pods/a/status/x", 404, "NotFound"),
    "an object that is not there": Case(
        "GET", f"{MAPS}/nope", 404, "NotFound", says='configmaps "nope" not found'
    ),
    "an unknown document": Case("GET", "/openapi/v3/apis/nope/v1", 404, "NotFound"),
    "a collection cannot be put": Case("PUT", MAPS, 405, "MethodNotAllowed", {}),
    "a collection cannot be patched": Case("PATCH", MAPS, 405, "MethodNotAllowed", {}, MERGE),
    "an object cannot be posted to": Case("POST", f"{MAPS}/a", 405, "MethodNotAllowed", {}),
    "nothing is made in all namespaces": Case("POST", "/api/v1/configmaps", 405, "MethodNotAllowed", {}),
    "not all namespaces are deleted at once": Case("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
    "a status cannot be deleted": Case(
        "DELETE", "/api/v1/namespaces/{}/pods/a/status", 405, "MethodNotAllowed"
    ),
    "a binding cannot be read": Case("GET", "/api/v1/namespaces/{}/pods/a/binding", 405, "MethodNotAllowed"),
    "the version cannot be deleted": Case("DELETE", "/version", 405, "MethodNotAllowed"),
    "an unknown method": Case("BREW", f"{MAPS}/a", 405, "MethodNotAllowed"),
    # --- bodies
    "no body": Case("POST", MAPS, 400, "BadRequest", b""),
    "half a body": Case("POST", MAPS, 400, "BadRequest", b"{"),
    "a list": Case("POST", MAPS, 400, "BadRequest", []),
    "a text that is not UTF-8": Case("POST", MAPS, 400, "BadRequest", b'{"metadata":{"name":"\xff"}}'),
    "half a surrogate": Case("POST", MAPS, 400, "BadRequest", b'{"metadata":{"name":"\\ud800"}}'),
    "a body that is nested deeply": Case("POST", MAPS, 400, "BadRequest", b'{"a":' * 200 + b"1" + b"}" * 200),
    "a body that is nested very deeply": Case("POST", MAPS, 400, "BadRequest", b"[" * 100_000),
    "another kind": Case(
        "POST", MAPS, 400, "BadRequest", named("a") | {"kind": "Pod"}, says="cannot be handled as a ConfigMap"
    ),
    "another version": Case("POST", MAPS, 400, "BadRequest", named("a") | {"apiVersion": "v2"}),
    "metadata that is none": Case("POST", MAPS, 400, "BadRequest", {"metadata": 1}),
    "a name that is a number": Case("POST", MAPS, 400, "BadRequest", {"metadata": {"name": 1}}),
    "another namespace": Case(
        "POST", MAPS, 400, "BadRequest", named("a", namespace="other"), says="namespace"
    ),
    "another name": Case(
        "PUT", f"{MAPS}/a", 400, "BadRequest", named("b"), says="does not match the name on the URL"
    ),
    "a field of another type": Case(
        "POST",
        MAPS,
        400,
        "BadRequest",
        named("a") | {"data": {"x": 1}},
        says="data.x must be a string, not 1",
    ),
    "no name": Case("POST", MAPS, 422, "Invalid", {"metadata": {}}),
    "a bad name": Case("POST", MAPS, 422, "Invalid", named("A_")),
    "a namespace that is not there": Case(
        "POST",
        "/api/v1/namespaces/nope/configmaps",
        404,
        "NotFound",
        named("a"),
        says='namespaces "nope" not found',
    ),
    "a body that is too large": Case("POST", MAPS, 413, "RequestEntityTooLarge", b" " * (MAX_BODY_BYTES + 1)),
    "a body of an unknown sort": Case("POST", MAPS, 415, "UnsupportedMediaType", named("a"), "text/plain"),
    "a body that is not protobuf": Case("POST", MAPS, 400, "BadRequest", named("a"), PROTOBUF),
    "our kinds are not known in protobuf": Case("POST", TYJOBS, 400, "BadRequest", b"k8s\x00", PROTOBUF),
    "a body that is not YAML": Case("POST", MAPS, 400, "BadRequest", b"a: [", "application/yaml"),
    "two documents in YAML": Case("POST", MAPS, 400, "BadRequest", b"a: 1\n---\nb: 1\n", "application/yaml"),
    # --- patches
    "a patch of an unknown sort": Case("PATCH", f"{MAPS}/there", 415, "UnsupportedMediaType", {}, JSON),
    "server-side apply": Case(
        "PATCH",
        f"{MAPS}/there?fieldManager=x",
        415,
        "UnsupportedMediaType",
        {},
        "application/apply-patch+yaml",
    ),
    "a strategic patch of our kinds": Case(
        "PATCH", f"{TYJOBS}/a", 415, "UnsupportedMediaType", {}, STRATEGIC
    ),
    "a merge patch that is a list": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", [], MERGE),
    "a strategic patch that is a list": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", [], STRATEGIC),
    "a JSON patch that is an object": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", {}, JSON_PATCH),
    "a patch that is not JSON": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", b"{", MERGE),
    "a patch that does not apply": Case(
        "PATCH",
        f"{MAPS}/there",
        422,
        "Invalid",
        [{"op": "remove", "path": "/nope"}],
        JSON_PATCH,
        says="no 'nope'",
    ),
    "a patch that leaves no object": Case(
        "PATCH", f"{MAPS}/there", 422, "Invalid", [{"op": "replace", "path": "", "value": 1}], JSON_PATCH
    ),
    "a patch to another type": Case("PATCH", f"{MAPS}/there", 422, "Invalid", {"data": {"a": 1}}, MERGE),
    "a patch to another name": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", named("b"), MERGE),
    "a patch of nothing": Case("PATCH", f"{MAPS}/nope", 404, "NotFound", {}, MERGE),
    # --- conflicts
    "a name that is taken": Case("POST", MAPS, 409, "AlreadyExists", named("there")),
    "an old version": Case("PUT", f"{MAPS}/there", 409, "Conflict", named("there", resourceVersion="1")),
    "another uid": Case("DELETE", f"{MAPS}/there", 409, "Conflict", {"preconditions": {"uid": "x"}}),
    # --- options
    "a rehearsal of another sort": Case("POST", f"{MAPS}?dryRun=Some", 422, "Invalid", named("a")),
    "a validation of another sort": Case("POST", f"{MAPS}?fieldValidation=Maybe", 422, "Invalid", named("a")),
    "an unknown field, strictly": Case(
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        400,
        "BadRequest",
        named("a") | {"nope": 1},
        says='strict decoding error: unknown field "nope"',
    ),
    "a field twice, strictly": Case(
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        400,
        "BadRequest",
        b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}',
        says='duplicate field "data.x"',
    ),
    "a limit that is no number": Case("GET", f"{MAPS}?limit=x", 400, "BadRequest"),
    "a limit below nothing": Case("GET", f"{MAPS}?limit=-1", 400, "BadRequest"),
    "a watch that may be": Case("GET", f"{MAPS}?watch=maybe", 400, "BadRequest"),
    "a place to go on that is none": Case("GET", f"{MAPS}?continue=x", 400, "BadRequest"),
    "a selector that is none": Case("GET", f"{MAPS}?labelSelector=a+in+b", 400, "BadRequest"),
    "a field that cannot be selected by": Case("GET", f"{MAPS}?fieldSelector=data.x%3D1", 400, "BadRequest"),
    "a version that is no number": Case("GET", f"{MAPS}?resourceVersion=x", 400, "BadRequest"),
    "a version that is yet to come": Case(
        "GET", f"{MAPS}?resourceVersion=999999", 503, "ServiceUnavailable", says="Too large"
    ),
    "a match without a version": Case("GET", f"{MAPS}?resourceVersionMatch=Exact", 422, "Invalid"),
    "a match of another sort": Case(
        "GET", f"{MAPS}?resourceVersion=1&resourceVersionMatch=x", 422, "Invalid"
    ),
    "an exact match of anything": Case(
        "GET", f"{MAPS}?resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"
    ),
    "a match of a watch": Case("GET", f"{MAPS}?watch=1&resourceVersionMatch=Exact", 422, "Invalid"),
    "first events of a list": Case("GET", f"{MAPS}?sendInitialEvents=true", 422, "Invalid"),
    "first events without a match": Case("GET", f"{MAPS}?watch=1&sendInitialEvents=true", 422, "Invalid"),
    "a watch with a bad selector": Case("GET", f"{MAPS}?watch=1&labelSelector=%3D", 400, "BadRequest"),
    "options that are none": Case("DELETE", f"{MAPS}/there", 400, "BadRequest", {"gracePeriodSeconds": "x"}),
    "a propagation of another sort": Case("DELETE", f"{MAPS}/there?propagationPolicy=Up", 400, "BadRequest"),
    "two propagations": Case(
        "DELETE", f"{MAPS}/there?propagationPolicy=Orphan&orphanDependents=true", 400, "BadRequest"
    ),
    "other options": Case("DELETE", f"{MAPS}/there", 400, "BadRequest", {"kind": "Pod"}),
    "an answer of another sort": Case("GET", f"{MAPS}/there", 406, "NotAcceptable", accept="text/html"),
    "an answer in protobuf only": Case("GET", MAPS, 406, "NotAcceptable", accept=PROTOBUF),
    "a table of another version": Case(
        "GET", MAPS, 406, "NotAcceptable", accept=f"{JSON};as=Table;v=v9;g=meta.k8s.io"
    ),
    "objects of another sort in a table": Case(
        "GET", f"{MAPS}?includeObject=Some", 400, "BadRequest", accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io"
    ),
    # --- pods
    "a binding to nothing": Case(
        "POST", "/api/v1/namespaces/{}/pods/a/binding", 400, "BadRequest", {"target": {}}
    ),
    "a binding without a target": Case("POST", "/api/v1/namespaces/{}/pods/a/binding", 400, "BadRequest", {}),
    "a binding without a pod name": Case(
        "POST", "/api/v1/namespaces/{}/bindings", 400, "BadRequest", {"target": {"name": "n"}}
    ),
    "a binding of another pod": Case(
        "POST",
        "/api/v1/namespaces/{}/pods/a/binding",
        400,
        "BadRequest",
        named("b") | {"target": {"name": "n"}},
    ),
    "a binding of a pod that is not there": Case(
        "POST", "/api/v1/namespaces/{}/pods/a/binding", 404, "NotFound", {"target": {"name": "n"}}
    ),
    "an eviction of a pod that is not there": Case(
        "POST", "/api/v1/namespaces/{}/pods/a/eviction", 404, "NotFound", named("a")
    ),
    "an eviction of another pod": Case(
        "POST", "/api/v1/namespaces/{}/pods/a/eviction", 400, "BadRequest", named("b")
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_request_is_refused_with_a_status(api: Embedded, space: str, name: str) -> None:
    case = CASES[name]
    api.client().create(MAPS.format(space), named("there"))
    body = case.body if isinstance(case.body, bytes | None) else json.dumps(case.body).encode()
    answer = api.ask(
        case.method, case.path.format(space), body, {"Content-Type": case.media, "Accept": case.accept}
    )
    status = answer.json
    assert (answer.code, status["reason"]) == (case.code, case.reason), status["message"]
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == case.code
    assert "details" in status or case.code != 404, "kubectl debug falls over without"
    assert case.says in status["message"]
