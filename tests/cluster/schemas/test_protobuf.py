"""Objects in protobuf are read as the JSON that a real API server gives of the same objects."""

import contextlib
import urllib.request
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.schemas import protobuf
from shoal.cluster.schemas.protobuf import ProtobufError
from tests.k8s.access import Client
from tests.k8s.controlplane import ControlPlane

MAGIC = b"k8s\x00"

PODS: dict[str, dict[str, Any]] = {
    "a pod with all sorts of fields": {
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": {"zone": "a"},
            "tolerations": [
                {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}
            ],
            "volumes": [
                {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "c", "configMap": {"name": "c", "optional": True, "defaultMode": 0}},
                {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}},
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}
                        ]
                    }
                }
            },
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "command": ["sh", "-c", ""],
                    "env": [
                        {"name": "A", "value": "ä"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                    "envFrom": [{"configMapRef": {"name": "c"}}],
                    "ports": [{"containerPort": 80, "hostPort": 80}],
                    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                    "securityContext": {"runAsUser": 0, "privileged": False},
                }
            ],
        }
    },
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a config map": ("/api/v1/namespaces/{}/configmaps", {"data": {"a": "1", "b": ""}, "immutable": False}),
    "a secret": ("/api/v1/namespaces/{}/secrets", {"data": {"a": "AAEC/w=="}}),
    "a service": (
        "/api/v1/namespaces/{}/services",
        {"spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}}},
    ),
    "a job": (
        "/apis/batch/v1/namespaces/{}/jobs",
        {
            "spec": {
                "parallelism": 0,
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            }
        },
    ),
    "a disruption budget": (
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
        {"spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    ),
    "a lease": (
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
        {"spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.678901Z"}},
    ),
    "an event": (
        "/api/v1/namespaces/{}/events",
        {
            "involvedObject": {"kind": "Pod", "name": "p"},
            "reason": "Tested",
            "count": 3,
            "firstTimestamp": "2026-01-02T03:04:05Z",
        },
    ),
}
ALL = OTHERS | {name: ("/api/v1/namespaces/{}/pods", pod) for name, pod in PODS.items()}


@pytest.mark.parametrize("name", ALL)
def test_an_object_is_read_as_its_json(k8s: ControlPlane, namespace: str, name: str) -> None:
    place, body = ALL[name]
    client = k8s.client()
    metadata = {"name": "a", "namespace": namespace, "labels": {"x": "y"}, "finalizers": ["a.b/c"]}
    if "involvedObject" in body:
        body = body | {"involvedObject": body["involvedObject"] | {"namespace": namespace}}
    client.create(place.format(namespace), {"metadata": metadata, **body})
    path = f"{place.format(namespace)}/a"
    assert protobuf.decode(in_protobuf(client, path)) == without_nothing(client.get(path))


def in_protobuf(client: Client, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {client.token}", "Accept": protobuf.MEDIA_TYPE}
    request = urllib.request.Request(client.url + path, headers=headers)  # noqa: S310 - https
    with client._open(request) as answer:
        return answer.read()


def without_nothing(value: Any) -> Any:  # noqa: ANN401 - as JSON has it
    """A null that JSON says is nothing in protobuf."""
    if isinstance(value, dict):
        return {name: without_nothing(inner) for name, inner in value.items() if inner is not None}
    return [without_nothing(inner) for inner in value] if isinstance(value, list) else value


REFUSED = {
    "nothing": b"",
    "JSON": b"{}",
    "an envelope that ends too early": MAGIC + b"\x0a\x05abc",
    "a kind that nobody knows": MAGIC + b"\x0a\x0b\x0a\x02v1\x12\x05Other",
    "a number that never ends": MAGIC + b"\xff" * 20,
    "a sort of field that there is not": MAGIC + b"\x0b",
    "a number for a text": MAGIC + b"\x08\x01",
    "a text that is not UTF-8": MAGIC + b"\x0a\x03\x0a\x01\xff",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_bytes_are_refused(name: str) -> None:
    with pytest.raises(ProtobufError):
        protobuf.decode(REFUSED[name])


@given(st.binary(max_size=64))
def test_no_bytes_break_the_reader(inner: bytes) -> None:
    said = b"\x0a\x09\x0a\x02v1\x12\x03Pod"
    with contextlib.suppress(ProtobufError):
        protobuf.decode(MAGIC + said + b"\x12" + bytes([len(inner)]) + inner)
