"""Nodes of this machine: detected capacity, GPU allocation, and users of containers."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.resources import Object
from shoal.kubelet.container_spec import RunAsIdentity, run_as_identity
from shoal.kubelet.devices import DeviceManager, InsufficientDevicesError, requested_gpus
from shoal.kubelet.nodes import LocalNode, build_node, detect_cpus, detect_gpus, detect_memory, local_nodes
from shoal.kubelet.runtime import ContainerSpec


def system(root: Path, groups: str, **files: str) -> Path:
    """A file tree with the /proc and cgroup files of another machine."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


CPUS = len(os.sched_getaffinity(0))
SYSTEMS: dict[str, tuple[str, dict[str, str], float, int]] = {
    "no cgroups": ("", {}, CPUS, 1000 * 1024),
    "no limits": ("0::/a\n", {"a/cpu.max": "max 100000", "a/memory.max": "max"}, CPUS, 1000 * 1024),
    "limits": ("0::/a\n", {"a/cpu.max": "50000 100000", "a/memory.max": "4096"}, 0.5, 4096),
    "limits of an ancestor": ("0::/a/b\n", {"a/cpu.max": "25000 100000", "a/memory.max": "8192"}, 0.25, 8192),
    "cgroups version 1": (
        "3:cpu,cpuacct:/a\n4:memory:/a\n",
        {
            "cpu/a/cpu.cfs_quota_us": "50000",
            "cpu/a/cpu.cfs_period_us": "100000",
            "memory/a/memory.limit_in_bytes": "4096",
        },
        0.5,
        4096,
    ),
    "cgroups version 1 without limits": (
        "3:cpu:/\n4:memory:/\n",
        {
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
            "memory/memory.limit_in_bytes": "9223372036854771712",
        },
        CPUS,
        1000 * 1024,
    ),
}


@pytest.mark.parametrize("groups, files, cpus, memory", SYSTEMS.values(), ids=SYSTEMS)
def test_detected_cpus_and_memory(
    tmp_path: Path, groups: str, files: dict[str, str], cpus: float, memory: int
) -> None:
    root = system(tmp_path, groups, **files)
    assert (detect_cpus(root), detect_memory(root)) == (cpus, memory)


def test_detected_gpus_are_those_of_the_driver(tmp_path: Path) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)
    assert detect_gpus(tmp_path) == 2


def test_one_node_has_all_of_the_machine() -> None:
    (local,) = local_nodes()
    assert local.cpu == int(detect_cpus() * 1000)
    node = build_node(local, 0)
    labels = node["metadata"]["labels"]
    assert (labels["kubernetes.io/hostname"], labels["kubernetes.io/os"]) == (local.name, "linux")
    assert node["status"]["capacity"]["pods"] == "110"


def test_nodes_have_the_given_capacity() -> None:
    made = local_nodes(2, cpu="1500m", memory="2Gi", gpus=2)
    assert [local.name for local in made] == ["node-0", "node-1"]
    assert [local.gpus for local in made] == [(0, 1), (2, 3)]
    capacity = {"cpu": "1500m", "memory": "2Gi", "pods": "110", "nvidia.com/gpu": "2"}
    assert all(local.capacity == capacity for local in made)


def test_nodes_share_the_machine_by_default() -> None:
    made = local_nodes(4)
    assert sum(local.memory for local in made) <= detect_memory()
    assert {local.cpu for local in made} == {int(detect_cpus() * 1000) // 4}


# --- GPUs --------------------------------------------------------------------------------------------------

NODE = LocalNode(name="n1", cpu=1000, memory=1, gpus=(0, 1, 2, 3))


def requesting(count: int, name: str = "main") -> Object:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(count)}}}


def test_requested_gpus() -> None:
    assert [requested_gpus(requesting(2)), requested_gpus({"name": "a"})] == [2, 0]
    assert requested_gpus({"resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": "1"}}}) == 1


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4), st.booleans())))
def test_no_gpu_is_allocated_twice(steps: list[tuple[str, int, bool]]) -> None:
    devices, held = DeviceManager(), dict[str, tuple[int, ...]]()
    for pod, count, released in steps:
        if released:
            devices.release(pod)
            held.pop(pod, None)
        elif pod not in held and count <= 4 - sum(map(len, held.values())):
            held[pod] = devices.allocate(NODE, pod, requesting(count), ()) or ()
            assert len(held[pod]) == count
    every = [device for taken in held.values() for device in taken]
    assert len(every) == len(set(every))


def test_allocation_is_repeatable_and_fails_if_gpus_are_insufficient() -> None:
    devices = DeviceManager()
    assert (
        devices.allocate(NODE, "a", requesting(3), ())
        == devices.allocate(NODE, "a", requesting(3), ())
        == (0, 1, 2)
    )
    with pytest.raises(InsufficientDevicesError, match="2 GPUs are requested, but node n1 has 1 free"):
        devices.allocate(NODE, "b", requesting(2), ())


def test_a_container_without_gpus_sees_none_on_a_node_with_gpus() -> None:
    assert DeviceManager().allocate(NODE, "a", requesting(0), ()) == ()
    assert DeviceManager().allocate(LocalNode(name="n2", cpu=1, memory=1), "a", requesting(0), ()) is None


def test_ended_containers_leave_their_gpus_to_others_of_the_pod() -> None:
    devices = DeviceManager()
    devices.allocate(NODE, "a", requesting(4, "first"), ())
    with pytest.raises(InsufficientDevicesError):
        devices.allocate(NODE, "a", requesting(4), {"first"})
    assert devices.allocate(NODE, "a", requesting(4), ()) == (0, 1, 2, 3)


def test_allocations_are_restored_after_a_restart() -> None:
    spec = ContainerSpec(
        pod="a", container="main", attempt=0, argv=[], env={"CUDA_VISIBLE_DEVICES": "1,3"}, cwd="/"
    )
    devices = DeviceManager()
    devices.restore(spec)
    assert devices.allocate(NODE, "b", requesting(2), ()) == (0, 2)
    assert devices.allocate(NODE, "a", requesting(2), ()) == (1, 3)


# --- users -------------------------------------------------------------------------------------------------

IDENTITIES: dict[str, tuple[Object, Object, int, RunAsIdentity]] = {
    "no user": ({}, {}, 0, RunAsIdentity()),
    "a user": ({"runAsUser": 64001}, {}, 0, RunAsIdentity(user=64001, group=64001)),
    "a user of the user database": (
        {"runAsUser": 0, "runAsGroup": 5},
        {},
        0,
        RunAsIdentity(user=0, group=5),
    ),
    "the container overrides the pod": (
        {"runAsUser": 1, "runAsGroup": 1},
        {"runAsUser": 64002, "runAsGroup": 7},
        0,
        RunAsIdentity(user=64002, group=7),
    ),
    "groups": (
        {"supplementalGroups": [8], "fsGroup": 9, "runAsUser": 64001},
        {},
        0,
        RunAsIdentity(user=64001, group=64001, groups=[8, 9]),
    ),
    "without root the user cannot change": ({"runAsUser": 1000, "fsGroup": 9}, {}, 1000, RunAsIdentity()),
}


@pytest.mark.parametrize("of_pod, of_container, user, identity", IDENTITIES.values(), ids=IDENTITIES)
def test_run_as_identity(of_pod: Object, of_container: Object, user: int, identity: RunAsIdentity) -> None:
    pod = {"spec": {"securityContext": of_pod}}
    assert run_as_identity(pod, {"securityContext": of_container}, user) == identity
