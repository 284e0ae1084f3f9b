"""Simple kubeconfigs mean the same as to the library; all others are left to the library."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cluster.kubernetes.access import Access, StaticCredentials
from shoal.cluster.kubernetes.connect import find_access, list_contexts, simple_access
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from tests.cluster.certificates import CertificateAuthority
from tests.cluster.kubernetes.test_kubeconfig import config, write_config

AUTHORITY = CertificateAuthority("test")


def cluster(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return a kubeconfig with these fields of its cluster; `_` stands for `-`."""
    return config(**{key.replace("_", "-"): value for key, value in fields.items()})


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


SIMPLE: dict[str, dict[str, Any]] = {
    "a token": config(user={"token": "t1"}),
    "a token with a line break": config(user={"token": "t1\n"}),
    "no credentials": config(),
    "an inline authority": cluster(certificate_authority_data=encoded(AUTHORITY.pem)),
    "an authority in a file": cluster(certificate_authority="ca.crt"),
    "an unverified server": cluster(insecure_skip_tls_verify=True),
    "another server name": cluster(tls_server_name="inner"),
    "a namespace": config(context={"namespace": "team"}),
    "null is ignored": config(user={"exec": None, "tokenFile": None, "token": "t1"}),
}


def summary(access: Access) -> tuple[object, ...]:
    assert isinstance(access.credential_source, StaticCredentials)
    verified = access.tls.context().verify_mode
    return (
        access.url,
        access.namespace,
        access.server_name,
        access.proxy,
        access.headers,
        access.credential_source.read(),
        verified,
        [one["serialNumber"] for one in access.tls.context().get_ca_certs()],
    )


@pytest.mark.parametrize("content", SIMPLE.values(), ids=SIMPLE)
@pytest.mark.parametrize("write", [lambda content: content, yaml.safe_dump], ids=["json", "yaml"])
def test_a_simple_kubeconfig_agrees_with_the_library(
    tmp_path: Path,
    content: dict[str, Any],
    write: Any,  # noqa: ANN401 - either writer
) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    path = write_config(tmp_path / "config", write(content))
    quick = simple_access(path)
    assert quick is not None
    assert summary(quick) == summary(from_kubeconfig(path))


OTHERS: dict[str, object] = {
    "a plugin": config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
    "a token in a file": config(user={"tokenFile": "token"}),
    "a name and a password": config(user={"username": "me", "password": "secret"}),
    "a provider": config(user={"auth-provider": {"name": "oidc"}}),
    "impersonation": config(user={"token": "t", "as": "root"}),
    "a proxy": cluster(proxy_url="http://127.0.0.1:1"),
    "no TLS": config(server="http://127.0.0.1:1"),
    "no such context": {**config(), "current-context": "other"},
    "no context": {**config(), "current-context": None},
    "an invalid authority": cluster(certificate_authority_data=encoded(b"invalid")),
    "invalid base64": cluster(certificate_authority_data="§"),
    "a list": [],
    "invalid YAML": "{a: [",
    "an empty file": "",
    "clusters that are not a list": {**config(), "clusters": 1},
    "an invalid cluster": {**config(), "clusters": [{"name": "c", "cluster": "x"}]},
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_other_kubeconfigs_are_not_read(tmp_path: Path, content: object) -> None:
    assert simple_access(write_config(tmp_path / "config", content)) is None


def test_a_missing_file(tmp_path: Path) -> None:
    assert simple_access(str(tmp_path / "nope")) is None


def test_the_library_reads_what_is_not_simple(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file")
    path = write_config(tmp_path / "config", config(user={"tokenFile": "token"}))
    assert not isinstance(find_access(path).credential_source, StaticCredentials)


def test_list_contexts(tmp_path: Path) -> None:
    first = write_config(tmp_path / "a", config())
    second = write_config(tmp_path / "b", {**config(), "contexts": [{"name": "y", "context": {}}]})
    assert list_contexts(f"{first}:{second}:{tmp_path / 'nope'}") == ["x", "y"]
