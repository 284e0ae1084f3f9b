"""Credentials: creation, reuse, renewal and file modes."""

import base64
import json
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from shoal.apiserver.credentials import Credentials, CredentialsError

SECRET = ("token", "ca.key", "server.key")


def expiry(path: Path) -> datetime:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


def names(path: Path) -> set[str]:
    found = x509.load_pem_x509_certificate(path.read_bytes()).extensions
    return {str(name.value) for name in found.get_extension_for_class(x509.SubjectAlternativeName).value}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    made = Credentials(tmp_path / "state")
    made.write_kubeconfig("https://127.0.0.1:1")
    assert mode(tmp_path / "state") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "state").iterdir()} == dict.fromkeys(
        ("token", "ca.key", "ca.crt", "server.key", "server.crt", "kubeconfig"), 0o600
    )


@pytest.mark.parametrize("name", SECRET)
def test_readable_secrets_are_made_private(tmp_path: Path, name: str) -> None:
    Credentials(tmp_path)
    (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)
    Credentials(tmp_path)
    assert (mode(tmp_path / name), mode(tmp_path)) == (0o600, 0o700)


def test_files_are_reused(tmp_path: Path) -> None:
    Credentials(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    Credentials(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_certificate_covers_loopback_and_the_hosts(tmp_path: Path) -> None:
    made = Credentials(tmp_path, hosts=["10.1.2.3", "example.org"])
    assert names(made.certificate) == {"localhost", "127.0.0.1", "::1", "10.1.2.3", "example.org"}


def test_names_are_idna_encoded(tmp_path: Path) -> None:
    assert "xn--bcher-kva.example" in names(Credentials(tmp_path, hosts=["b\xfccher.example"]).certificate)


@pytest.mark.parametrize("host", ["n" * 64, "a..b"])
def test_an_invalid_host_is_one_error_message(tmp_path: Path, host: str) -> None:
    with pytest.raises(CredentialsError, match="cannot create a certificate"):
        Credentials(tmp_path, hosts=[host])


def test_another_host_gets_a_new_certificate_of_the_same_ca(tmp_path: Path) -> None:
    first = Credentials(tmp_path)
    authority, token = first.authority.read_bytes(), first.token
    second = Credentials(tmp_path, hosts=["10.1.2.3"])
    assert "10.1.2.3" in names(second.certificate)
    assert (second.authority.read_bytes(), second.token) == (authority, token)


def test_a_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    end, authority = expiry(made.certificate), made.authority.read_bytes()
    assert not made.renew(end - timedelta(days=40))
    assert made.renew(end - timedelta(days=20))
    assert expiry(made.certificate) > end
    assert made.authority.read_bytes() == authority


def test_certificates_from_the_future_are_replaced(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    earlier = datetime.now(UTC) - timedelta(days=400)
    assert made.renew(earlier)
    for path in (made.authority, made.certificate):
        assert x509.load_pem_x509_certificate(path.read_bytes()).not_valid_before_utc < earlier


def test_the_last_port_is_found_in_a_kubeconfig_edited_by_kubectl(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    assert made.last_port() == 0
    config = json.loads(made.write_kubeconfig("https://127.0.0.1:6443").read_text())
    config["clusters"].insert(0, {"name": "other", "cluster": {"server": "https://example.org:1"}})
    made.kubeconfig.write_text(yaml.safe_dump(config))
    assert made.last_port() == 6443


@pytest.mark.parametrize("text", ["", "{", "[]", "clusters: 1", "clusters: [{name: shoal, cluster: {}}]"])
def test_an_invalid_kubeconfig_has_no_port(tmp_path: Path, text: str) -> None:
    made = Credentials(tmp_path)
    made.kubeconfig.write_text(text)
    assert made.last_port() == 0


def test_a_renewed_ca_replaces_the_server_certificate(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    end = expiry(made.authority)
    assert made.renew(end - timedelta(days=1))
    assert expiry(made.authority) > end
    context = ssl.create_default_context(cafile=str(made.authority))
    context.load_cert_chain(made.certificate, made.key)


def test_a_renewed_ca_updates_the_kubeconfig(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    made.write_kubeconfig("https://127.0.0.1:6443")
    made.renew(expiry(made.authority) - timedelta(days=1))
    cluster = json.loads(made.kubeconfig.read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == made.authority.read_bytes()
    assert cluster["server"] == "https://127.0.0.1:6443"


def test_a_missing_key_is_replaced(tmp_path: Path) -> None:
    (Credentials(tmp_path).key).unlink()
    made = Credentials(tmp_path)
    ssl.create_default_context().load_cert_chain(made.certificate, made.key)


def test_the_kubeconfig_has_all_that_a_client_needs(tmp_path: Path) -> None:
    made = Credentials(tmp_path)
    config = json.loads(made.write_kubeconfig("https://127.0.0.1:6443").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["users"][0]["user"] == {"token": made.token}
    assert config["current-context"] == config["contexts"][0]["name"]


BROKEN = {
    "an invalid certificate": ("ca.crt", b"nonsense", "ca.crt and ca.key are not a valid certificate"),
    "an invalid key": (
        "server.key",
        b"nonsense",
        "server.crt and server.key are not a valid certificate",
    ),
    "an empty token": ("token", b"", "token is empty"),
    "a token that is not UTF-8": ("token", b"\xff", "is not text"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_reported_and_kept(tmp_path: Path, name: str) -> None:
    Credentials(tmp_path)
    file, content, message = BROKEN[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(CredentialsError, match=message):
        Credentials(tmp_path)
    assert (tmp_path / file).read_bytes() == content


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialsError, match=r"cannot read or write credentials in .*file"):
        Credentials(tmp_path / "file")


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Credentials(tmp_path)
    made.write_kubeconfig("https://127.0.0.1:1")
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CredentialsError, match="No space left on device"):
        made.write_kubeconfig("https://127.0.0.1:2")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert "https://127.0.0.1:1" in made.kubeconfig.read_text()


def test_new_certificates_are_valid_now(tmp_path: Path) -> None:
    found = x509.load_pem_x509_certificate(Credentials(tmp_path).certificate.read_bytes())
    assert found.not_valid_before_utc < datetime.now(UTC) < found.not_valid_after_utc
