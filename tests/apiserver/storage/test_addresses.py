"""What a server is called by those who reach it."""

import socket

import pytest

from shoal.apiserver.credentials import certificate_hosts


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "example.org"])
def test_one_address_is_called_what_it_is(host: str) -> None:
    assert certificate_hosts(host) == [host]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - nobody listens
def test_all_addresses_are_called_by_each_of_them_and_by_the_name_of_the_machine(host: str) -> None:
    found = certificate_hosts(host)
    assert {"127.0.0.1", socket.gethostname()} <= set(found)
    assert host not in found
    assert len(found) == len(set(found))


def test_a_name_that_no_certificate_can_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "n" * 64)
    assert "n" * 64 not in certificate_hosts("0.0.0.0")  # noqa: S104 - nobody listens
