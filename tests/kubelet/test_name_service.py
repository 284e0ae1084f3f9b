"""Addresses of host names, and hosts files."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.node_status import HOST_IP
from shoal.cluster.object_store import Change, Deleted, Put
from shoal.cluster.resources import Object
from shoal.kinds.base import JobKind
from shoal.kinds.batchjob.kind import KIND as JOB
from shoal.kinds.dijob.kind import KIND as DIJOB
from shoal.kubelet import name_service
from shoal.kubelet.name_service import (
    AddressAllocator,
    AddressesExhaustedError,
    HostName,
    HostsFiles,
    NameService,
    hosts_line,
)

NAMES = st.builds(
    HostName, st.sampled_from(["ns", "other"]), st.sampled_from("abcdef"), st.sampled_from(["", "svc"])
)


@given(st.lists(NAMES))
def test_every_name_has_a_stable_address_of_its_own(names: list[HostName]) -> None:
    addresses = AddressAllocator(Path("/nowhere/addresses.json"))
    allocated = {name: addresses.allocate(name) for name in names}
    assert len(set(allocated.values())) == len(allocated)
    assert {name: addresses.allocate(name) for name in reversed(names)} == allocated
    for address in allocated.values():
        first, network, *_, last = map(int, address.split("."))
        assert (first, network in range(1, 255), last in (0, 255)) == (127, True, False)


def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    before = AddressAllocator(path)
    allocated = [before.allocate(HostName("ns", str(i))) for i in range(300)]
    before.save(before.encode())
    after = AddressAllocator(path)
    assert [after.allocate(HostName("ns", str(i))) for i in range(300)] == allocated


def test_names_with_the_same_preferred_address_get_different_ones() -> None:
    addresses = AddressAllocator(Path("/nowhere/addresses.json"))
    allocated = {addresses.allocate(HostName("ns", str(i))) for i in range(5000)}
    assert len(allocated) == 5000


def test_an_unreadable_file_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text("{")
    home, other = AddressAllocator(path), AddressAllocator(tmp_path / "none.json")
    assert (
        home.allocate(HostName("ns", "a")).split(".")[2:]
        == other.allocate(HostName("ns", "a")).split(".")[2:]
    )


def test_concurrent_homes_have_networks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    homes = [AddressAllocator(path) for _ in range(20)]
    assert len({network(home) for home in homes}) == len(homes)
    chosen = network(homes[7])
    homes[7].save(homes[7].encode())
    homes.clear()
    others = [AddressAllocator(path), AddressAllocator(path)]
    assert [network(home) for home in others] == [chosen, chosen], "a home with addresses keeps its network"


def network(home: AddressAllocator) -> str:
    return home.allocate(HostName("ns", "a")).split(".")[1]


def test_hosts_lines() -> None:
    inside = "a.svc.ns a.svc.ns.svc a.svc.ns.svc.cluster.local"
    assert hosts_line(HostName("ns", "a", "svc"), "1", "ns", ("p",)) == f"1 a.svc p {inside}\n"
    assert hosts_line(HostName("ns", "a", "svc"), "1", "other", ("p",)) == f"1 {inside}\n"
    assert hosts_line(HostName("ns", "a"), "1", "ns", ("b",)) == "1 a b\n"
    assert hosts_line(HostName("ns", "a"), "1", "other") == ""


@given(st.lists(st.tuples(NAMES, st.sampled_from(["1", "2", ""]))))
def test_a_hosts_file_resolves_all_current_names(steps: list[tuple[HostName, str]]) -> None:
    import tempfile  # noqa: PLC0415 - tmp_path is shared by all examples

    with tempfile.TemporaryDirectory() as directory:
        hosts = HostsFiles(Path(directory), "127.0.0.1 localhost")
        path, now = hosts.path("ns"), dict[HostName, str]()
        hosts.write()
        inode = path.stat().st_ino
        for name, address in steps:
            if address:
                hosts.put(name, address)
                now[name] = address
            else:
                hosts.drop(name)
                now.pop(name, None)
            hosts.write()
        first = dict[str, str]()
        for text in path.read_text().splitlines():
            address, *called = text.split()
            for one in called:
                first.setdefault(one, address)
        for name, address in now.items():
            for one in hosts_line(name, address, "ns").split()[1:]:
                assert first[one] == address
        assert path.stat().st_ino == inode
        assert first["localhost"] == "127.0.0.1"


# --- owners of names ---------------------------------------------------------------------------------------


def pod(name: str, **spec: object) -> Put[Object]:
    return Put(("ns", name), "1", {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def job(name: str, completions: int, *conditions: Object) -> Change[Object]:
    spec = {
        "completionMode": "Indexed",
        "completions": completions,
        "template": {"spec": {"subdomain": "svc"}},
    }
    status = {"conditions": list(conditions)}
    metadata = {"name": name, "namespace": "ns"}
    return Put(("ns", name), "1", {"metadata": metadata, "spec": spec, "status": status})


SERVICE: Change[Object] = Put(("ns", "svc"), "1", {})


async def resolvable_names(service: NameService) -> set[str]:
    """All names in the hosts file."""
    path = service.hosts_file("ns")
    await service.flush()
    return {name for text in path.read_text().splitlines() for name in text.split()[1:]}


async def test_a_recreated_pod_keeps_its_address_while_its_service_exists(
    tmp_path: Path,
) -> None:
    service = NameService(tmp_path, "")
    service.on_service_changes([SERVICE])
    service.on_pod_changes([pod("w-1", hostname="w", subdomain="svc")])
    first = service.address(pod("w-1", hostname="w", subdomain="svc").item)
    service.on_pod_changes([Deleted(("ns", "w-1"))])
    await service.flush()
    assert AddressAllocator(tmp_path / "addresses.json").names() == [HostName("ns", "w", "svc")]
    after = NameService(tmp_path, "")
    after.on_service_changes([SERVICE])
    after.release_unused()
    after.on_pod_changes([pod("w-2", hostname="w", subdomain="svc")])
    assert after.address(pod("w-2", hostname="w", subdomain="svc").item) == first
    assert {"w.svc", "w-2"} <= await resolvable_names(after)


async def test_names_without_owner_are_released(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    service.on_service_changes([SERVICE])
    service.on_pod_changes([pod("w", subdomain="svc"), pod("loose")])
    service.on_pod_changes([Deleted(("ns", "w")), Deleted(("ns", "loose"))])
    service.on_service_changes([Deleted(("ns", "svc"))])
    await service.flush()
    assert AddressAllocator(tmp_path / "addresses.json").names() == []


async def test_names_of_expected_pods_of_a_job_resolve(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    service.on_job_changes(JOB, [job("train", 2)])
    assert {"train-0.svc", "train-1.svc.ns.svc.cluster.local"} <= await resolvable_names(service)
    service.on_job_changes(JOB, [job("train", 3)])
    assert "train-2.svc" in await resolvable_names(service)


@pytest.mark.parametrize(
    "end",
    [job("train", 2, {"type": "Complete", "status": "True"}), Deleted(("ns", "train"))],
    ids=["finished", "deleted"],
)
async def test_names_of_a_job_are_released_at_its_end(tmp_path: Path, end: Change[Object]) -> None:
    service = NameService(tmp_path, "")
    service.on_job_changes(JOB, [job("train", 2, {"type": "Suspended", "status": "True"})])
    service.on_pod_changes([pod("train-0", subdomain="svc")])
    service.on_job_changes(JOB, [end])
    await service.flush()
    assert AddressAllocator(tmp_path / "addresses.json").names() == [HostName("ns", "train-0", "svc")]


async def test_jobs_of_different_kinds_may_have_the_same_name(tmp_path: Path) -> None:
    class Ranks(JobKind[Any], frozen=True, eq=False, kw_only=True):
        def host_names(self, manifest: Object) -> Iterator[tuple[str, str]]:
            yield f"{manifest['metadata']['name']}-0", "di-svc"

    service = NameService(tmp_path, "")
    ranks = Ranks(**{field: getattr(DIJOB, field) for field in DIJOB.__struct_fields__})
    for kind in (ranks, JOB):
        service.on_job_changes(kind, [job("train", 1)])
    service.on_job_changes(JOB, [Deleted(("ns", "train"))])
    assert await resolvable_names(service) >= {"train-0.di-svc"}
    assert "train-0.svc" not in await resolvable_names(service)


# --- names in values ---------------------------------------------------------------------------------------


def qualified(host: str) -> str:
    return f"{host}.svc.ns.svc.cluster.local"


VALUES = {
    "a name": (qualified("train-1"), "<1>"),
    "the pod's own name": (qualified("train-0"), "<0>"),
    "a list": (",".join(qualified(f"train-{i}") for i in (0, 1, 10)), "<0>,<1>,<10>"),
    "urls": (
        f"--attach-to=tcp://{qualified('train-1')}:22270,tcp://{qualified('train-10')}:22270",
        "--attach-to=tcp://<1>:22270,tcp://<10>:22270",
    ),
    "a user and a path": (
        f"http://me@{qualified('train-1')}/x?y={qualified('train-1')}#z",
        "http://me@<1>/x?y=<1>#z",
    ),
    "a name with a final dot": (f"{qualified('train-1')}.:80", "<1>:80"),
    "a longer host": (qualified("x-train-1"), None),
    "a host of two labels": (qualified("x.train-1"), None),
    "a longer domain": (f"{qualified('train-1')}.example.com {qualified('train-1')}-x", None),
    "another namespace": ("train-1.svc.other.svc.cluster.local", None),
    "another service": ("train-1.else.ns.svc.cluster.local", None),
    "a name without a host": (qualified("train-11"), None),
    "a short name": ("train-1.svc train-1.svc.ns.svc", None),
    "no name": ("", None),
}


@pytest.mark.parametrize("case", VALUES)
def test_fully_qualified_names_are_replaced_by_addresses(tmp_path: Path, case: str) -> None:
    service = NameService(tmp_path, "")
    me = pod("train-0", subdomain="svc")
    service.on_job_changes(JOB, [job("train", 11)])
    service.on_pod_changes([me])
    addresses = {f"<{i}>": service.address(pod(f"train-{i}", subdomain="svc").item) for i in (0, 1, 10)}
    text, template = VALUES[case]
    expected = text if template is None else template
    for placeholder, address in addresses.items():
        expected = expected.replace(placeholder, address)
    assert service.replace_names(me.item, text) == expected


def test_the_name_of_a_pod_in_the_network_of_the_host_is_replaced_by_its_address(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    me = pod("a", subdomain="svc", hostNetwork=True)
    service.on_pod_changes([me])
    assert service.replace_names(me.item, qualified("a")) == service.address(me.item) == HOST_IP


def test_many_names_are_replaced_quickly(tmp_path: Path) -> None:
    """500 values of 500 names; 0.3 s on one core."""
    service = NameService(tmp_path, "")
    service.on_job_changes(JOB, [job("train", 500)])
    value = ",".join(qualified(f"train-{i}") for i in range(500))
    pods = [pod(f"train-{i}", subdomain="svc").item for i in range(500)]
    start = time.process_time()
    for one in pods:
        assert "svc" not in service.replace_names(one, value)
    assert time.process_time() - start < 5


def test_peers_are_the_hosts_of_the_same_service(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    service.on_job_changes(JOB, [job("train", 2)])
    service.on_pod_changes([pod("w", subdomain="svc"), pod("other", subdomain="else"), pod("loose")])
    peers = service.peers(pod("w", subdomain="svc").item)
    assert list(peers) == ["train-0", "train-1", "w"]
    assert peers["w"] == service.address(pod("w", subdomain="svc").item)
    assert service.peers(pod("loose").item) == {}


async def test_expected_names_leave_addresses_for_existing_pods(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    service.on_job_changes(JOB, [job(f"train-{i}", 10_000) for i in range(20)])
    service.on_pod_changes([pod(f"p-{i}") for i in range(10_000)])
    assert len({service.address(pod(f"p-{i}").item) for i in range(10_000)}) == 10_000


async def test_exhausted_addresses_do_not_affect_existing_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_service, "_LAST_HOST", 100)
    service = NameService(tmp_path, "")
    many = [pod(f"p-{i}") for i in range(101)]
    service.on_pod_changes(many)
    with pytest.raises(AddressesExhaustedError):
        service.address(many[-1].item)
    service.on_pod_changes([Deleted(one.key) for one in many])
    assert service.address(many[-1].item)


async def test_pods_with_the_same_host_name_and_no_service_have_different_addresses(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    both = [pod("a", hostname="w"), pod("b", hostname="w")]
    service.on_pod_changes(both)
    assert len({service.address(one.item) for one in both}) == 2


async def test_a_pod_on_the_host_network_has_the_host_address(tmp_path: Path) -> None:
    service = NameService(tmp_path, "")
    made = pod("a", hostNetwork=True)
    service.on_pod_changes([made])
    assert service.address(made.item) == "127.0.0.1"
