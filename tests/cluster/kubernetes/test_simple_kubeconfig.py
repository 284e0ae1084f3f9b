"""Kubeconfigs that are read quickly mean what they mean to the library; of all others nothing is said."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cluster.kubernetes.access import Access, StaticCredentials
from shoal.cluster.kubernetes.connect import find_access, list_contexts, simple_access
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from tests.cluster.certificates import CertificateAuthority
from tests.cluster.kubernetes.test_kubeconfig import config, written

AUTHORITY = CertificateAuthority("test")


def cluster(**said: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    """A kubeconfig that says more of its cluster; `_` stands for `-`."""
    return config(**{key.replace("_", "-"): value for key, value in said.items()})


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


SIMPLE: dict[str, dict[str, Any]] = {
    "a token": config(user={"token": "t1"}),
    "a token on a line of its own": config(user={"token": "t1\n"}),
    "nobody": config(),
    "an authority in place": cluster(certificate_authority_data=encoded(AUTHORITY.pem)),
    "an authority in a file": cluster(certificate_authority="ca.crt"),
    "whoever is there": cluster(insecure_skip_tls_verify=True),
    "another name": cluster(tls_server_name="inner"),
    "a namespace": config(context={"namespace": "team"}),
    "what is null is not there": config(user={"exec": None, "tokenFile": None, "token": "t1"}),
}


def told(access: Access) -> tuple[object, ...]:
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
@pytest.mark.parametrize("write", [lambda said: said, yaml.safe_dump], ids=["json", "yaml"])
def test_what_is_simple_means_the_same(tmp_path: Path, content: dict[str, Any], write: Any) -> None:  # noqa: ANN401
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    path = written(tmp_path / "config", write(content))
    quick = simple_access(path)
    assert quick is not None
    assert told(quick) == told(from_kubeconfig(path))


OTHERS: dict[str, object] = {
    "a plugin": config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
    "a token in a file": config(user={"tokenFile": "token"}),
    "a name and a password": config(user={"username": "me", "password": "secret"}),
    "a provider": config(user={"auth-provider": {"name": "oidc"}}),
    "somebody else": config(user={"token": "t", "as": "root"}),
    "a proxy": cluster(proxy_url="http://127.0.0.1:1"),
    "no TLS": config(server="http://127.0.0.1:1"),
    "no such context": {**config(), "current-context": "other"},
    "no context": {**config(), "current-context": None},
    "an authority that is none": cluster(certificate_authority_data=encoded(b"nonsense")),
    "what is not base64": cluster(certificate_authority_data="§"),
    "a list": [],
    "no YAML": "{a: [",
    "nothing": "",
    "clusters that are no list": {**config(), "clusters": 1},
    "a cluster that is none": {**config(), "clusters": [{"name": "c", "cluster": "x"}]},
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_of_whatever_else_nothing_is_said(tmp_path: Path, content: object) -> None:
    assert simple_access(written(tmp_path / "config", content)) is None


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert simple_access(str(tmp_path / "nope")) is None


def test_the_library_reads_what_is_not_simple(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file")
    path = written(tmp_path / "config", config(user={"tokenFile": "token"}))
    assert not isinstance(find_access(path).credential_source, StaticCredentials)


def test_contexts_to_choose_from(tmp_path: Path) -> None:
    first = written(tmp_path / "a", config())
    second = written(tmp_path / "b", {**config(), "contexts": [{"name": "y", "context": {}}]})
    assert list_contexts(f"{first}:{second}:{tmp_path / 'nope'}") == ["x", "y"]
