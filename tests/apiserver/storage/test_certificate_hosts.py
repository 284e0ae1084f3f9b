"""Names and addresses that the server certificate covers."""

import socket

import pytest

from shoal.apiserver.credentials import certificate_hosts


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "example.org"])
def test_a_single_address(host: str) -> None:
    assert certificate_hosts(host) == [host]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - no server listens
def test_a_wildcard_means_all_addresses_and_the_hostname(host: str) -> None:
    found = certificate_hosts(host)
    assert {"127.0.0.1", socket.gethostname()} <= set(found)
    assert host not in found
    assert len(found) == len(set(found))


def test_an_invalid_hostname_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "n" * 64)
    assert "n" * 64 not in certificate_hosts("0.0.0.0")  # noqa: S104 - no server listens
