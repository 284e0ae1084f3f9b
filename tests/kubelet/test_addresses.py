"""Addresses of host names, and the hosts files that tell them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.object_store import Change, Gone, Put
from shoal.cluster.resources import Object
from shoal.kubelet import names as name_service
from shoal.kubelet.names import Addresses, Directory, FullError, Hosts, Name, line

NAMES = st.builds(
    Name, st.sampled_from(["ns", "other"]), st.sampled_from("abcdef"), st.sampled_from(["", "svc"])
)


@given(st.lists(NAMES))
def test_every_name_has_an_address_of_its_own_and_keeps_it(names: list[Name]) -> None:
    addresses = Addresses(Path("/nowhere/addresses.json"))
    given = {name: addresses.of(name) for name in names}
    assert len(set(given.values())) == len(given)
    assert {name: addresses.of(name) for name in reversed(names)} == given
    for address in given.values():
        first, network, *_, last = map(int, address.split("."))
        assert (first, network in range(1, 255), last in (0, 255)) == (127, True, False)


def test_addresses_are_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    before = Addresses(path)
    given = [before.of(Name("ns", str(i))) for i in range(300)]
    before.save(before.text())
    after = Addresses(path)
    assert [after.of(Name("ns", str(i))) for i in range(300)] == given


def test_two_names_that_want_the_same_address_do_not_get_it() -> None:
    addresses = Addresses(Path("/nowhere/addresses.json"))
    given = {addresses.of(Name("ns", str(i))) for i in range(5000)}
    assert len(given) == 5000


def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text("{")
    home, other = Addresses(path), Addresses(tmp_path / "none.json")
    assert home.of(Name("ns", "a")).split(".")[2:] == other.of(Name("ns", "a")).split(".")[2:]


def test_homes_that_run_at_once_have_networks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    homes = [Addresses(path) for _ in range(20)]
    assert len({network(home) for home in homes}) == len(homes)
    chosen = network(homes[7])
    homes[7].save(homes[7].text())
    homes.clear()
    others = [Addresses(path), Addresses(path)]
    assert [network(home) for home in others] == [chosen, chosen], "what has addresses keeps its network"


def network(home: Addresses) -> str:
    return home.of(Name("ns", "a")).split(".")[1]


def test_lines() -> None:
    inside = "a.svc.ns a.svc.ns.svc a.svc.ns.svc.cluster.local"
    assert line(Name("ns", "a", "svc"), "1", "ns", ("p",)) == f"1 a.svc p {inside}\n"
    assert line(Name("ns", "a", "svc"), "1", "other", ("p",)) == f"1 {inside}\n"
    assert line(Name("ns", "a"), "1", "ns", ("b",)) == "1 a b\n"
    assert line(Name("ns", "a"), "1", "other") == ""


@given(st.lists(st.tuples(NAMES, st.sampled_from(["1", "2", ""]))))
def test_a_file_resolves_all_names_that_there_are(steps: list[tuple[Name, str]]) -> None:
    import tempfile  # noqa: PLC0415 - hypothesis has no directory for each example

    with tempfile.TemporaryDirectory() as directory:
        hosts = Hosts(Path(directory), "127.0.0.1 localhost")
        path, now = hosts.path("ns"), dict[Name, str]()
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
            for one in line(name, address, "ns").split()[1:]:
                assert first[one] == address
        assert path.stat().st_ino == inode
        assert first["localhost"] == "127.0.0.1"


# --- who has a name ----------------------------------------------------------------------------------------


def pod(name: str, **spec: object) -> Put[Object]:
    return Put(("ns", name), "1", {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def job(name: str, completions: int) -> Change[Object]:
    spec = {
        "completionMode": "Indexed",
        "completions": completions,
        "template": {"spec": {"subdomain": "svc"}},
    }
    return Put(("ns", name), "1", {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


SERVICE: Change[Object] = Put(("ns", "svc"), "1", {})


async def names(directory: Directory) -> set[str]:
    """All that resolves."""
    path = directory.hosts_file("ns")
    await directory.settled()
    return {name for text in path.read_text().splitlines() for name in text.split()[1:]}


async def test_a_pod_that_is_made_again_has_its_address_as_long_as_its_service_is_there(
    tmp_path: Path,
) -> None:
    directory = Directory(tmp_path, "")
    directory.hear_of_services([SERVICE])
    directory.hear_of_pods([pod("w-1", hostname="w", subdomain="svc")])
    first = directory.address(pod("w-1", hostname="w", subdomain="svc").item)
    directory.hear_of_pods([Gone(("ns", "w-1"))])
    await directory.settled()
    assert Addresses(tmp_path / "addresses.json").names() == [Name("ns", "w", "svc")]
    after = Directory(tmp_path, "")
    after.hear_of_services([SERVICE])
    after.tidy()
    after.hear_of_pods([pod("w-2", hostname="w", subdomain="svc")])
    assert after.address(pod("w-2", hostname="w", subdomain="svc").item) == first
    assert {"w.svc", "w-2"} <= await names(after)


async def test_names_are_given_up_when_nobody_has_them(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    directory.hear_of_services([SERVICE])
    directory.hear_of_pods([pod("w", subdomain="svc"), pod("loose")])
    directory.hear_of_pods([Gone(("ns", "w")), Gone(("ns", "loose"))])
    directory.hear_of_services([Gone(("ns", "svc"))])
    await directory.settled()
    assert Addresses(tmp_path / "addresses.json").names() == []


async def test_the_indices_to_come_of_a_job_resolve(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    directory.hear_of_jobs([job("train", 2)])
    assert {"train-0.svc", "train-1.svc.ns.svc.cluster.local"} <= await names(directory)
    directory.hear_of_jobs([job("train", 3)])
    assert "train-2.svc" in await names(directory)


def test_peers_are_the_hosts_of_the_same_service(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    directory.hear_of_jobs([job("train", 2)])
    directory.hear_of_pods([pod("w", subdomain="svc"), pod("other", subdomain="else"), pod("loose")])
    peers = directory.peers(pod("w", subdomain="svc").item)
    assert list(peers) == ["train-0", "train-1", "w"]
    assert peers["w"] == directory.address(pod("w", subdomain="svc").item)
    assert directory.peers(pod("loose").item) == {}


async def test_names_to_come_leave_addresses_for_pods_that_are_there(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    directory.hear_of_jobs([job(f"train-{i}", 10_000) for i in range(20)])
    directory.hear_of_pods([pod(f"p-{i}") for i in range(10_000)])
    assert len({directory.address(pod(f"p-{i}").item) for i in range(10_000)}) == 10_000


async def test_who_comes_when_every_address_is_taken_is_no_trouble_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_service, "_LAST", 100)
    directory = Directory(tmp_path, "")
    many = [pod(f"p-{i}") for i in range(101)]
    directory.hear_of_pods(many)
    with pytest.raises(FullError):
        directory.address(many[-1].item)
    directory.hear_of_pods([Gone(one.key) for one in many])
    assert directory.address(many[-1].item)


async def test_pods_of_one_host_name_and_no_service_have_addresses_of_their_own(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    both = [pod("a", hostname="w"), pod("b", hostname="w")]
    directory.hear_of_pods(both)
    assert len({directory.address(one.item) for one in both}) == 2


async def test_who_uses_the_hosts_network_has_its_address(tmp_path: Path) -> None:
    directory = Directory(tmp_path, "")
    made = pod("a", hostNetwork=True)
    directory.hear_of_pods([made])
    assert directory.address(made.item) == "127.0.0.1"
