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
    "the root path": Case("GET", "/", 404, "NotFound"),
    "an unknown path": Case("GET", "/nope", 404, "NotFound"),
    "an unknown resource": Case("GET", "/api/v1/foos", 404, "NotFound"),
    "an unknown version": Case("GET", "/api/v2/pods", 404, "NotFound"),
    "an unknown group": Case("GET", "/apis/nope/v1/pods", 404, "NotFound"),
    "a group without a name": Case("GET", "/apis//v1/pods", 404, "NotFound"),
    "a resource of another group": Case("GET", "/apis/batch/v1/pods", 404, "NotFound"),
    "a namespaced object without its namespace": Case("GET", "/api/v1/pods/a", 404, "NotFound"),
    "nodes have no namespace": Case("GET", "/api/v1/namespaces/{}/nodes", 404, "NotFound"),
    "an unknown subresource": Case("GET", f"{MAPS}/a/scale", 404, "NotFound"),
    "the status of a kind without one": Case("GET", f"{MAPS}/a/status", 404, "NotFound"),
    "a path below a subresource": Case("GET", "/api/v1/namespaces/{}/pods/a/status/x", 404, "NotFound"),
    "an object that does not exist": Case(
        "GET", f"{MAPS}/nope", 404, "NotFound", says='configmaps "nope" not found'
    ),
    "an unknown document": Case("GET", "/openapi/v3/apis/nope/v1", 404, "NotFound"),
    "PUT of a collection": Case("PUT", MAPS, 405, "MethodNotAllowed", {}),
    "PATCH of a collection": Case("PATCH", MAPS, 405, "MethodNotAllowed", {}, MERGE),
    "POST to an object": Case("POST", f"{MAPS}/a", 405, "MethodNotAllowed", {}),
    "create in all namespaces": Case("POST", "/api/v1/configmaps", 405, "MethodNotAllowed", {}),
    "deletion of all namespaces": Case("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
    "deletion of a status": Case("DELETE", "/api/v1/namespaces/{}/pods/a/status", 405, "MethodNotAllowed"),
    "GET of a binding": Case("GET", "/api/v1/namespaces/{}/pods/a/binding", 405, "MethodNotAllowed"),
    "deletion of the version document": Case("DELETE", "/version", 405, "MethodNotAllowed"),
    "an unknown method": Case("BREW", f"{MAPS}/a", 405, "MethodNotAllowed"),
    # --- bodies
    "no body": Case("POST", MAPS, 400, "BadRequest", b""),
    "a truncated body": Case("POST", MAPS, 400, "BadRequest", b"{"),
    "a list": Case("POST", MAPS, 400, "BadRequest", []),
    "a text that is not UTF-8": Case("POST", MAPS, 400, "BadRequest", b'{"metadata":{"name":"\xff"}}'),
    "a lone surrogate": Case("POST", MAPS, 400, "BadRequest", b'{"metadata":{"name":"\\ud800"}}'),
    "a body that is nested deeply": Case("POST", MAPS, 400, "BadRequest", b'{"a":' * 200 + b"1" + b"}" * 200),
    "a body that is nested very deeply": Case("POST", MAPS, 400, "BadRequest", b"[" * 100_000),
    "another kind": Case(
        "POST", MAPS, 400, "BadRequest", named("a") | {"kind": "Pod"}, says="cannot be handled as a ConfigMap"
    ),
    "another version": Case("POST", MAPS, 400, "BadRequest", named("a") | {"apiVersion": "v2"}),
    "metadata that is no object": Case("POST", MAPS, 400, "BadRequest", {"metadata": 1}),
    "a numeric name": Case("POST", MAPS, 400, "BadRequest", {"metadata": {"name": 1}}),
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
    "an invalid name": Case("POST", MAPS, 422, "Invalid", named("A_")),
    "a namespace that does not exist": Case(
        "POST",
        "/api/v1/namespaces/nope/configmaps",
        404,
        "NotFound",
        named("a"),
        says='namespaces "nope" not found',
    ),
    "a body that is too large": Case("POST", MAPS, 413, "RequestEntityTooLarge", b" " * (MAX_BODY_BYTES + 1)),
    "a body of an unknown media type": Case(
        "POST", MAPS, 415, "UnsupportedMediaType", named("a"), "text/plain"
    ),
    "a body that is not protobuf": Case("POST", MAPS, 400, "BadRequest", named("a"), PROTOBUF),
    "a Shoal kind in protobuf": Case("POST", TYJOBS, 400, "BadRequest", b"k8s\x00", PROTOBUF),
    "a body that is not YAML": Case("POST", MAPS, 400, "BadRequest", b"a: [", "application/yaml"),
    "two documents in YAML": Case("POST", MAPS, 400, "BadRequest", b"a: 1\n---\nb: 1\n", "application/yaml"),
    # --- patches
    "a patch of an unknown media type": Case("PATCH", f"{MAPS}/there", 415, "UnsupportedMediaType", {}, JSON),
    "server-side apply": Case(
        "PATCH",
        f"{MAPS}/there?fieldManager=x",
        415,
        "UnsupportedMediaType",
        {},
        "application/apply-patch+yaml",
    ),
    "a strategic patch of a Shoal kind": Case(
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
    "a patch whose result is no object": Case(
        "PATCH", f"{MAPS}/there", 422, "Invalid", [{"op": "replace", "path": "", "value": 1}], JSON_PATCH
    ),
    "a patch with a field of a wrong type": Case(
        "PATCH", f"{MAPS}/there", 422, "Invalid", {"data": {"a": 1}}, MERGE
    ),
    "a patch that changes the name": Case("PATCH", f"{MAPS}/there", 400, "BadRequest", named("b"), MERGE),
    "a patch of an object that does not exist": Case("PATCH", f"{MAPS}/nope", 404, "NotFound", {}, MERGE),
    # --- conflicts
    "a name that exists": Case("POST", MAPS, 409, "AlreadyExists", named("there")),
    "an outdated resourceVersion": Case(
        "PUT", f"{MAPS}/there", 409, "Conflict", named("there", resourceVersion="1")
    ),
    "another uid": Case("DELETE", f"{MAPS}/there", 409, "Conflict", {"preconditions": {"uid": "x"}}),
    # --- options
    "an unknown dryRun value": Case("POST", f"{MAPS}?dryRun=Some", 422, "Invalid", named("a")),
    "an unknown fieldValidation value": Case(
        "POST", f"{MAPS}?fieldValidation=Maybe", 422, "Invalid", named("a")
    ),
    "an unknown field with fieldValidation Strict": Case(
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        400,
        "BadRequest",
        named("a") | {"nope": 1},
        says='strict decoding error: unknown field "nope"',
    ),
    "a duplicate field with fieldValidation Strict": Case(
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        400,
        "BadRequest",
        b'{"metadata":{"name":"a"},"data":{"x":"1","x":"2"}}',
        says='duplicate field "data.x"',
    ),
    "a limit that is not a number": Case("GET", f"{MAPS}?limit=x", 400, "BadRequest"),
    "a negative limit": Case("GET", f"{MAPS}?limit=-1", 400, "BadRequest"),
    "a watch parameter that is no boolean": Case("GET", f"{MAPS}?watch=maybe", 400, "BadRequest"),
    "an invalid continue token": Case("GET", f"{MAPS}?continue=x", 400, "BadRequest"),
    "an invalid label selector": Case("GET", f"{MAPS}?labelSelector=a+in+b", 400, "BadRequest"),
    "an unsupported field selector": Case("GET", f"{MAPS}?fieldSelector=data.x%3D1", 400, "BadRequest"),
    "a resourceVersion that is not a number": Case("GET", f"{MAPS}?resourceVersion=x", 400, "BadRequest"),
    "a resourceVersion in the future": Case(
        "GET", f"{MAPS}?resourceVersion=999999", 503, "ServiceUnavailable", says="Too large"
    ),
    "resourceVersionMatch without resourceVersion": Case(
        "GET", f"{MAPS}?resourceVersionMatch=Exact", 422, "Invalid"
    ),
    "an unknown resourceVersionMatch": Case(
        "GET", f"{MAPS}?resourceVersion=1&resourceVersionMatch=x", 422, "Invalid"
    ),
    "resourceVersionMatch Exact with resourceVersion 0": Case(
        "GET", f"{MAPS}?resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"
    ),
    "resourceVersionMatch in a watch": Case(
        "GET", f"{MAPS}?watch=1&resourceVersionMatch=Exact", 422, "Invalid"
    ),
    "sendInitialEvents in a list": Case("GET", f"{MAPS}?sendInitialEvents=true", 422, "Invalid"),
    "sendInitialEvents without resourceVersionMatch": Case(
        "GET", f"{MAPS}?watch=1&sendInitialEvents=true", 422, "Invalid"
    ),
    "a watch with an invalid selector": Case("GET", f"{MAPS}?watch=1&labelSelector=%3D", 400, "BadRequest"),
    "delete options with a field of a wrong type": Case(
        "DELETE", f"{MAPS}/there", 400, "BadRequest", {"gracePeriodSeconds": "x"}
    ),
    "an unknown propagation policy": Case("DELETE", f"{MAPS}/there?propagationPolicy=Up", 400, "BadRequest"),
    "orphanDependents and propagationPolicy together": Case(
        "DELETE", f"{MAPS}/there?propagationPolicy=Orphan&orphanDependents=true", 400, "BadRequest"
    ),
    "options of another kind": Case("DELETE", f"{MAPS}/there", 400, "BadRequest", {"kind": "Pod"}),
    "an unsupported Accept header": Case("GET", f"{MAPS}/there", 406, "NotAcceptable", accept="text/html"),
    "Accept with protobuf only": Case("GET", MAPS, 406, "NotAcceptable", accept=PROTOBUF),
    "a table of an unknown version": Case(
        "GET", MAPS, 406, "NotAcceptable", accept=f"{JSON};as=Table;v=v9;g=meta.k8s.io"
    ),
    "an unknown includeObject value": Case(
        "GET", f"{MAPS}?includeObject=Some", 400, "BadRequest", accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io"
    ),
    # --- pods
    "a binding whose target has no name": Case(
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
    "a binding of a pod that does not exist": Case(
        "POST", "/api/v1/namespaces/{}/pods/a/binding", 404, "NotFound", {"target": {"name": "n"}}
    ),
    "an eviction of a pod that does not exist": Case(
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
