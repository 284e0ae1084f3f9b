"""Every printer returns the same cells as Kubernetes for the same object."""

import json
import re
import time
import urllib.request
from typing import Any, NamedTuple

import msgspec
import pytest

from shoal.apiserver.http.printers import printer_of
from shoal.apiserver.http.requests import parse_path
from shoal.apiserver.http.tables import Column, make_table
from tests.k8s.access import Client
from tests.k8s.controlplane import ControlPlane

THEN = "2026-01-02T03:04:05Z"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}
GATED = {"spec": POD["spec"] | {"readinessGates": [{"conditionType": "a/x"}, {"conditionType": "a/y"}]}}
INIT = {
    "spec": POD["spec"]
    | {
        "initContainers": [
            {"name": "i", "image": "i"},
            {"name": "side", "image": "i", "restartPolicy": "Always"},
            {"name": "j", "image": "i"},
        ]
    }
}
HELD = POD | {"metadata": {"finalizers": ["a.b/c"]}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


class Case(NamedTuple):
    path: str
    body: dict[str, Any]
    status: dict[str, Any] | None = None
    deleted: bool = False


def container(name: str, state: dict[str, Any], *, restarts: int = 0, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    last = {"terminated": {"exitCode": 1, "finishedAt": THEN}} if restarts else {}
    create_object = {"name": name, "image": "i", "imageID": "x", "ready": False, "restartCount": restarts}
    return {**create_object, "state": state, "lastState": last, **more}


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": THEN, **more}


def pod(status: dict[str, Any], body: dict[str, Any] = POD) -> Case:
    return Case("/api/v1/namespaces/{}/pods", body, {"phase": "Running", **status})


def job(conditions: list[dict[str, Any]], **status: Any) -> Case:  # noqa: ANN401 - as JSON has it
    body = {"spec": {"completions": 3, "template": TEMPLATE}}
    return Case("/apis/batch/v1/namespaces/{}/jobs", body, {"conditions": conditions, **status})


RUN = {"running": {"startedAt": THEN}}
WAIT = {"waiting": {"reason": "CrashLoopBackOff"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
KILLED = {"terminated": {"exitCode": 137, "signal": 9}}
EXITED = {"terminated": {"exitCode": 3}}

CASES: dict[str, Case] = {
    "a new pod": Case("/api/v1/namespaces/{}/pods", POD),
    "a pod with a scheduling gate": pod(
        {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason="SchedulingGated")]}
    ),
    "a pod that was evicted": pod({"phase": "Failed", "reason": "Evicted"}),
    "a pod that has succeeded": pod(
        {"phase": "Succeeded", "containerStatuses": [container("c", DONE), container("d", DONE)]}
    ),
    "a running pod with restarts": pod(
        {
            "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::1"}],
            "nominatedNodeName": "n",
            "containerStatuses": [
                container("c", RUN, ready=True, restarts=2),
                container("d", RUN, restarts=1),
            ],
        }
    ),
    "a container that crashes": pod(
        {"containerStatuses": [container("c", WAIT, restarts=3), container("d", RUN, ready=True)]}
    ),
    "a container that failed": pod({"containerStatuses": [container("c", FAILED), container("d", RUN)]}),
    "a container that was killed": pod({"containerStatuses": [container("c", KILLED)]}),
    "a container that exited with a code": pod({"containerStatuses": [container("c", EXITED)]}),
    "one has completed and one runs, ready": pod(
        {
            "conditions": [condition("Ready")],
            "containerStatuses": [container("c", DONE), container("d", RUN, ready=True)],
        }
    ),
    "one has completed and one runs, not ready": pod(
        {"containerStatuses": [container("c", DONE), container("d", RUN, ready=True)]}
    ),
    "one has completed and one failed": pod(
        {"containerStatuses": [container("c", DONE), container("d", FAILED)]}
    ),
    "readiness gates": pod({"conditions": [condition("a/x"), condition("a/y", "False")]}, GATED),
    "initialising": pod(
        {
            "phase": "Pending",
            "initContainerStatuses": [container("i", RUN, restarts=1), container("side", {})],
        },
        INIT,
    ),
    "initialising, behind a sidecar": pod(
        {
            "initContainerStatuses": [
                container("i", DONE, restarts=1),
                container("side", RUN, started=True, ready=True, restarts=2),
                container("j", {"waiting": {"reason": "PodInitializing"}}),
            ]
        },
        INIT,
    ),
    "an init container that crashes": pod(
        {"phase": "Pending", "initContainerStatuses": [container("i", WAIT, restarts=4)]}, INIT
    ),
    "an init container that failed": pod(
        {"phase": "Pending", "initContainerStatuses": [container("i", FAILED)]}, INIT
    ),
    "an init container that was killed": pod(
        {"phase": "Pending", "initContainerStatuses": [container("i", KILLED)]}, INIT
    ),
    "initialised, with a sidecar": pod(
        {
            "conditions": [condition("Initialized"), condition("Ready")],
            "initContainerStatuses": [
                container("i", DONE, restarts=1),
                container("side", RUN, started=True, ready=True, restarts=2),
                container("j", DONE),
            ],
            "containerStatuses": [
                container("c", RUN, ready=True),
                container("d", RUN, ready=True, restarts=1),
            ],
        },
        INIT,
    ),
    "a node": Case(
        "/api/v1/nodes",
        {"metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}}},
        {
            "conditions": [condition("Ready", "False") | {"lastHeartbeatTime": THEN}],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "ExternalIP", "address": "1.1.1.1"},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1",
                "osImage": "os",
                "kernelVersion": "6",
                "architecture": "amd64",
            },
        },
    ),
    "a cordoned node": Case("/api/v1/nodes", {"spec": {"unschedulable": True}}),
    "a ready node": Case("/api/v1/nodes", {}, {"conditions": [condition("Ready")]}),
    "a headless service": Case(
        "/api/v1/namespaces/{}/services",
        {
            "spec": {
                "clusterIP": "None",
                "ports": [{"name": "w", "port": 80}, {"name": "x", "port": 81, "protocol": "UDP"}],
            }
        },
    ),
    "an ExternalName service": Case(
        "/api/v1/namespaces/{}/services", {"spec": {"type": "ExternalName", "externalName": "example.org"}}
    ),
    "a NodePort service": Case(
        "/api/v1/namespaces/{}/services",
        {"spec": {"type": "NodePort", "selector": {"b": "2", "a": "1"}, "ports": [{"port": 80}]}},
    ),
    "a LoadBalancer service": Case(
        "/api/v1/namespaces/{}/services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}},
    ),
    "a config map": Case(
        "/api/v1/namespaces/{}/configmaps", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}}
    ),
    "a secret": Case("/api/v1/namespaces/{}/secrets", {"stringData": {"a": "1"}}),
    "a namespace": Case("/api/v1/namespaces", {}),
    "a lease": Case("/apis/coordination.k8s.io/v1/namespaces/{}/leases", {"spec": {"holderIdentity": "me"}}),
    "a lease without a holder": Case("/apis/coordination.k8s.io/v1/namespaces/{}/leases", {}),
    "a priority class": Case(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"value": -5, "preemptionPolicy": "Never"}
    ),
    "a budget with minAvailable": Case(
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets", {"spec": {"minAvailable": "50%"}}
    ),
    "a budget with maxUnavailable": Case(
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
        {"spec": {"maxUnavailable": 0}},
        {"disruptionsAllowed": 2, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    ),
    "an event": Case(
        "/api/v1/namespaces/{}/events",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
            "type": "Warning",
            "reason": "Why",
            "message": " a message\n",
            "count": 4,
            "source": {"component": "x", "host": "y"},
            "firstTimestamp": THEN,
            "lastTimestamp": THEN,
        },
    ),
    "an event of events.k8s.io": Case(
        "/api/v1/namespaces/{}/events",
        {
            "involvedObject": {"kind": "Pod"},
            "type": "Normal",
            "reason": "Why",
            "action": "Do",
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingComponent": "x/y",
            "reportingInstance": "z",
            "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000000Z"},
        },
    ),
    "a new job": Case("/apis/batch/v1/namespaces/{}/jobs", {"spec": {"template": TEMPLATE}}),
    "a job without completions": Case(
        "/apis/batch/v1/namespaces/{}/jobs", {"spec": {"parallelism": 4, "template": TEMPLATE}}
    ),
    "an active job": job([], startTime=THEN, active=1),
    "a suspended job": job([condition("Suspended")]),
    "a job with condition FailureTarget": job([condition("FailureTarget")], startTime=THEN),
    "a TYJob": Case(
        "/apis/tyrl.io/v1alpha1/namespaces/{}/tyjobs",
        {
            "apiVersion": "tyrl.io/v1alpha1",
            "kind": "TYJob",
            "spec": {
                "leader": {"name": "l", "template": {"spec": POD["spec"]}},
                "workerSets": [{"name": "w", "counts": 2, "template": {"spec": POD["spec"]}}],
            },
        },
        {"stage": "Running", "ready": "1/3"},
    ),
    "a pool": Case(
        "/apis/resource.aibee.cn/v1alpha1/pools",
        {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool", "spec": {}},
        {"nodes": 3, "sharing": False},
    ),
    "a terminating pod": pod({}, HELD)._replace(deleted=True),
    "a terminating pod that has ended": pod({"phase": "Failed"}, HELD)._replace(deleted=True),
    "a terminating pod on a lost node": pod({"reason": "NodeLost"}, HELD)._replace(deleted=True),
    "a terminating job": Case(
        "/apis/batch/v1/namespaces/{}/jobs", HELD | {"spec": {"template": TEMPLATE}}, deleted=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cells_are_those_of_kubernetes(k8s: ControlPlane, namespace: str, name: str) -> None:
    case, client = CASES[name], k8s.client()
    path = create_object(client, case, namespace)
    try:
        theirs, ours = kubernetes_table(client, path), our_cells(client, path)
        assert [column(each) for each in ours["columnDefinitions"]] == [
            column(each) for each in theirs["columnDefinitions"]
        ]
        assert cells(ours) == cells(theirs)
        assert ours["rows"][0].get("conditions") == theirs["rows"][0].get("conditions")
    finally:
        client.call("DELETE", path)


def create_object(client: Client, case: Case, namespace: str) -> str:
    """Create the object with its status; returns its path."""
    place, body = case.path.format(namespace), json.loads(json.dumps(case.body))
    body.setdefault("metadata", {})["generateName"] = "a-"
    if "involvedObject" in body:
        body["involvedObject"]["namespace"] = namespace
        body["metadata"]["namespace"] = namespace
    found = client.create(place, body)
    path = f"{place}/{found['metadata']['name']}"
    if case.status is not None:
        code, answer = client.call("PUT", f"{path}/status", found | {"status": case.status})
        assert code == 200, answer["message"]
    if case.deleted:
        client.call("DELETE", path)
    return path


def kubernetes_table(client: Client, path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {client.token}", "Accept": TABLE}
    request = urllib.request.Request(client.url + path, headers=headers)  # noqa: S310 - https
    with client._open(request) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def our_cells(client: Client, path: str) -> dict[str, Any]:
    target = parse_path(path)
    assert target is not None
    text = msgspec.json.encode(client.get(path))
    return make_table(printer_of(target.resource), [text], "None", time.time())


def column(definition: dict[str, Any]) -> Column:
    return Column(definition["name"], definition["type"], bool(definition["priority"]), definition["format"])


def cells(found: dict[str, Any]) -> list[Any]:
    """Return the cells of the only row, without ages, which change."""
    return [
        re.sub(r"\b(\d+[smhdy]){1,2}\b", "AGE", cell) if isinstance(cell, str) else cell
        for cell in found["rows"][0]["cells"]
    ]
