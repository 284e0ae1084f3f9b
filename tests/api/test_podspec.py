"""Effective requests of pods as Kubernetes computes them, host ports, resource names."""

from typing import Any

import pytest

from shoal.api.decode import decode
from shoal.api.podspec import HostPort, PodSpec, host_ports, requests
from shoal.api.quantity import NANO


def _container(cpu: object = None, limit: object = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - raw YAML
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"resources": resources, **more}


def _sidecar(cpu: object) -> dict[str, Any]:
    return _container(cpu, restartPolicy="Always")


SPECS: list[tuple[str, dict[str, Any], float]] = [
    ("containers add up", {"containers": [_container(1), _container("500m")]}, 1.5),
    ("no requests", {"containers": [_container()]}, 0),
    ("requests default to limits", {"containers": [_container(limit=2)]}, 2),
    ("a request takes precedence over its limit", {"containers": [_container(1, 2)]}, 1),
    (
        "the largest init container, if larger than the containers",
        {"containers": [_container(1)], "initContainers": [_container(3), _container(2)]},
        3,
    ),
    (
        "init containers do not add up",
        {"containers": [_container(3)], "initContainers": [_container(2), _container(2)]},
        3,
    ),
    ("sidecars are added", {"containers": [_container(1)], "initContainers": [_sidecar(2)]}, 3),
    (
        "an init container after a sidecar",
        {"containers": [_container(1)], "initContainers": [_sidecar(2), _container(4)]},
        6,
    ),
    (
        "an init container before a sidecar",
        {"containers": [_container(1)], "initContainers": [_container(4), _sidecar(2)]},
        4,
    ),
    ("overhead is added", {"containers": [_container(1)], "overhead": {"cpu": "250m"}}, 1.25),
    (
        "a pod-level request takes precedence over the containers",
        {"containers": [_container(1)], "resources": {"requests": {"cpu": 5}}},
        5,
    ),
    ("a pod-level limit does not", {"containers": [_container(1)], "resources": {"limits": {"cpu": 5}}}, 1),
]


@pytest.mark.parametrize("sentence, raw, cpus", SPECS, ids=[row[0] for row in SPECS])
def test_requests(sentence: str, raw: dict[str, Any], cpus: float) -> None:
    spec = decode(PodSpec, raw)
    assert requests(spec).get("cpu", 0) == cpus * NANO, sentence


def test_the_legacy_name_of_a_gpu() -> None:
    resources = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    assert requests(decode(PodSpec, {"containers": [{"resources": resources}]})) == {"nvidia.com/gpu": NANO}


PORTS: list[tuple[str, dict[str, Any], list[HostPort]]] = [
    ("no host port", {"containers": [{"ports": [{"containerPort": 80}]}]}, []),
    ("a host port", {"containers": [{"ports": [{"hostPort": 80}]}]}, [HostPort(port=80)]),
    (
        "with hostNetwork every port counts",
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
        [HostPort(port=80)],
    ),
    (
        "the addresses 0.0.0.0 and :: are the empty address",
        {"containers": [{"ports": [{"hostPort": 80, "hostIP": "::", "protocol": "UDP"}]}]},
        [HostPort(port=80, protocol="UDP")],
    ),
    (
        "ports of init containers do not count",
        {"containers": [{}], "initContainers": [{"ports": [{"hostPort": 80}]}]},
        [],
    ),
]


@pytest.mark.parametrize("sentence, raw, ports", PORTS, ids=[row[0] for row in PORTS])
def test_host_ports(sentence: str, raw: dict[str, Any], ports: list[HostPort]) -> None:
    assert list(host_ports(decode(PodSpec, raw))) == ports, sentence


def test_port_conflicts() -> None:
    every, first, second = HostPort(port=1), HostPort(port=1, ip="10.0.0.1"), HostPort(port=1, ip="10.0.0.2")
    assert every.conflicts(first)
    assert first.conflicts(every)
    assert not first.conflicts(second)
    assert not first.conflicts(HostPort(port=1, ip="10.0.0.1", protocol="UDP"))
