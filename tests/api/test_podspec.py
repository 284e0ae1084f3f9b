"""What a pod asks of a node: Kubernetes' arithmetic, host ports, names of resources."""

from typing import Any

import pytest

from shoal.api.decode import decode
from shoal.api.podspec import HostPort, PodSpec, host_ports, requests
from shoal.api.quantity import NANO


def _c(cpu: object = None, limit: object = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - raw YAML
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"resources": resources, **more}


def _sidecar(cpu: object) -> dict[str, Any]:
    return _c(cpu, restartPolicy="Always")


SPECS: list[tuple[str, dict[str, Any], float]] = [
    ("containers add up", {"containers": [_c(1), _c("500m")]}, 1.5),
    ("nothing asked, nothing taken", {"containers": [_c()]}, 0),
    ("limits stand in for requests", {"containers": [_c(limit=2)]}, 2),
    ("a request goes before its limit", {"containers": [_c(1, 2)]}, 1),
    (
        "the largest init container, if larger",
        {"containers": [_c(1)], "initContainers": [_c(3), _c(2)]},
        3,
    ),
    ("init containers do not add up", {"containers": [_c(3)], "initContainers": [_c(2), _c(2)]}, 3),
    ("sidecars stay", {"containers": [_c(1)], "initContainers": [_sidecar(2)]}, 3),
    ("init beside an earlier sidecar", {"containers": [_c(1)], "initContainers": [_sidecar(2), _c(4)]}, 6),
    ("init before a later sidecar", {"containers": [_c(1)], "initContainers": [_c(4), _sidecar(2)]}, 4),
    ("overhead is added", {"containers": [_c(1)], "overhead": {"cpu": "250m"}}, 1.25),
    (
        "the whole pod's request goes before its containers",
        {"containers": [_c(1)], "resources": {"requests": {"cpu": 5}}},
        5,
    ),
    ("the whole pod's limit", {"containers": [_c(1)], "resources": {"limits": {"cpu": 5}}}, 1),
]


@pytest.mark.parametrize("sentence, raw, asked", SPECS, ids=[row[0] for row in SPECS])
def test_requests(sentence: str, raw: dict[str, Any], asked: float) -> None:
    spec = decode(PodSpec, raw)
    assert requests(spec).get("cpu", 0) == asked * NANO, sentence


def test_the_old_name_of_a_gpu() -> None:
    resources = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    assert requests(decode(PodSpec, {"containers": [{"resources": resources}]})) == {"nvidia.com/gpu": NANO}


PORTS: list[tuple[str, dict[str, Any], list[HostPort]]] = [
    ("no host port", {"containers": [{"ports": [{"containerPort": 80}]}]}, []),
    ("a host port", {"containers": [{"ports": [{"hostPort": 80}]}]}, [HostPort(port=80)]),
    (
        "on the host's network every port counts",
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
        [HostPort(port=80)],
    ),
    (
        "all addresses have one name",
        {"containers": [{"ports": [{"hostPort": 80, "hostIP": "::", "protocol": "UDP"}]}]},
        [HostPort(port=80, protocol="UDP")],
    ),
    (
        "init containers are gone when it matters",
        {"containers": [{}], "initContainers": [{"ports": [{"hostPort": 80}]}]},
        [],
    ),
]


@pytest.mark.parametrize("sentence, raw, ports", PORTS, ids=[row[0] for row in PORTS])
def test_host_ports(sentence: str, raw: dict[str, Any], ports: list[HostPort]) -> None:
    assert list(host_ports(decode(PodSpec, raw))) == ports, sentence


def test_when_ports_conflict() -> None:
    anywhere, here, there = HostPort(port=1), HostPort(port=1, ip="10.0.0.1"), HostPort(port=1, ip="10.0.0.2")
    assert anywhere.conflicts(here)
    assert here.conflicts(anywhere)
    assert not here.conflicts(there)
    assert not here.conflicts(HostPort(port=1, ip="10.0.0.1", protocol="UDP"))
