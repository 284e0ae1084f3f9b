"""Objects in protobuf are decoded to the JSON that a real API server returns for them."""

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
    "a pod with many fields": {
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
def test_protobuf_agrees_with_json(k8s: ControlPlane, namespace: str, name: str) -> None:
    path_template, body = ALL[name]
    client = k8s.client()
    metadata = {"name": "a", "namespace": namespace, "labels": {"x": "y"}, "finalizers": ["a.b/c"]}
    if "involvedObject" in body:
        body = body | {"involvedObject": body["involvedObject"] | {"namespace": namespace}}
    client.create(path_template.format(namespace), {"metadata": metadata, **body})
    path = f"{path_template.format(namespace)}/a"
    assert protobuf.decode(get_protobuf(client, path)) == without_nulls(client.get(path))


def get_protobuf(client: Client, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {client.token}", "Accept": protobuf.MEDIA_TYPE}
    request = urllib.request.Request(client.url + path, headers=headers)  # noqa: S310 - https
    with client._open(request) as response:
        return response.read()


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Remove nulls, which protobuf does not have."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


INVALID = {
    "no bytes": b"",
    "JSON": b"{}",
    "an envelope that ends too early": MAGIC + b"\x0a\x05abc",
    "an unknown kind": MAGIC + b"\x0a\x0b\x0a\x02v1\x12\x05Other",
    "a number that never ends": MAGIC + b"\xff" * 20,
    "an unknown wire type": MAGIC + b"\x0b",
    "a number for a string": MAGIC + b"\x08\x01",
    "a string that is not UTF-8": MAGIC + b"\x0a\x03\x0a\x01\xff",
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_messages(name: str) -> None:
    with pytest.raises(ProtobufError):
        protobuf.decode(INVALID[name])


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_rejected(inner: bytes) -> None:
    type_meta = b"\x0a\x09\x0a\x02v1\x12\x03Pod"
    with contextlib.suppress(ProtobufError):
        protobuf.decode(MAGIC + type_meta + b"\x12" + bytes([len(inner)]) + inner)
