"""Where the access to a cluster is found, and how tokens and authorities are replaced at run time."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from shoal.cluster import errors
from shoal.cluster.kubernetes.access import Access, AccessError, TlsConfig, TokenFileCredentials, proxy_for
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access, in_cluster_access
from shoal.cluster.resources import CONFIG_MAPS
from tests.cluster.certificates import CertificateAuthority
from tests.cluster.kubernetes.scripted_server import ScriptedServer, error_response, response
from tests.cluster.local_server import server_context

FOUND = response(200, {"metadata": {"name": "a"}})
KUBECONFIG = """
clusters: [{name: c, cluster: {server: "http://from-kubeconfig"}}]
contexts: [{name: x, context: {cluster: c}}]
current-context: x
"""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A service account as mounted into a pod."""
    directory = tmp_path / "account"
    directory.mkdir()
    (directory / "token").write_text("t1")
    (directory / "ca.crt").write_bytes(CertificateAuthority("first").pem)
    (directory / "namespace").write_text("shoal-system")
    return directory


def pod_environment(url: str) -> Mapping[str, str]:
    """Return the environment of a pod."""
    host, port = url.removeprefix("https://").rsplit(":", 1)
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, as Kubernetes does."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


# --- where it is found ------------------------------------------------------------------------------------


def test_order_of_precedence(tmp_path: Path, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(KUBECONFIG.replace("from-kubeconfig", "from-home"))
    (tmp_path / "config").write_text(KUBECONFIG)
    named = str(tmp_path / "config")
    env = pod_environment("https://10.0.0.1:443")
    assert find_access(named, env=env, service_account=account).url == "http://from-kubeconfig"
    assert (
        find_access(env={**env, "KUBECONFIG": named}, service_account=account).url == "http://from-kubeconfig"
    )
    assert find_access(env=env, service_account=account).url == "https://10.0.0.1:443"
    assert find_access(context="x", env=env, service_account=account).url == "http://from-home"
    assert find_access(env={}, service_account=account).url == "http://from-home"


def test_a_pod_has_a_namespace_and_an_ipv6_address(account: Path) -> None:
    access = in_cluster_access(pod_environment("https://fd00::1:6443"), account)
    assert (access.url, access.namespace) == ("https://[fd00::1]:6443", "shoal-system")


def test_not_in_a_pod(account: Path) -> None:
    with pytest.raises(
        AccessError, match="not running in a pod of a cluster: KUBERNETES_SERVICE_HOST is not set"
    ):
        in_cluster_access({}, account)


def test_an_incomplete_service_account(account: Path) -> None:
    (account / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"cannot read the service account: .*ca\.crt"):
        in_cluster_access(pod_environment("https://10.0.0.1:443"), account)


# --- replaced files ---------------------------------------------------------------------------------------


async def test_tokens_and_authorities_are_reloaded(account: Path) -> None:
    """First the token is replaced, then the authority."""
    first, second = CertificateAuthority("first"), CertificateAuthority("second")
    replace(account / "ca.crt", first.pem)
    tls = server_context(first.server())
    async with ScriptedServer([FOUND]).serving(tls) as server:
        cluster = KubernetesCluster(in_cluster_access(pod_environment(server.url), account))
        await cluster.get(CONFIG_MAPS, "a", "ns")
        replace(account / "token", b"t2")
        await cluster.get(CONFIG_MAPS, "a", "ns")
        assert server.connections == 1
        replace(account / "ca.crt", second.pem)
        with pytest.raises(errors.UnavailableError, match="certificate verify failed"):
            await cluster.get(CONFIG_MAPS, "a", "ns")
        replace(account / "ca.crt", second.pem + first.pem)
        await cluster.get(CONFIG_MAPS, "a", "ns")
        await cluster.close()
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer t1",
        "Bearer t2",
        "Bearer t2",
    ]


async def test_a_rejected_token_is_retried_only_if_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("t1")
    source = TokenFileCredentials(path)
    before = await source.credentials()
    assert not source.reject(before)
    replace(path, b"t2")
    assert source.reject(before)
    path.unlink()
    assert not source.reject(before)
    with pytest.raises(AccessError, match="cannot read the token"):
        await source.credentials()


async def test_a_token_that_is_replaced_during_a_request(account: Path) -> None:
    """The server rejects the old token, and by then there is a new one."""
    authority = CertificateAuthority("of the server")
    replace(account / "ca.crt", authority.pem)
    async with ScriptedServer([error_response(401), FOUND]).serving(
        server_context(authority.server())
    ) as server:
        cluster = KubernetesCluster(in_cluster_access(pod_environment(server.url), account))
        pending = asyncio.ensure_future(cluster.get(CONFIG_MAPS, "a", "ns"))
        await server.received(1)
        replace(account / "token", b"t2")
        await pending
        await cluster.close()
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer t1", "Bearer t2"]


def test_a_tls_context_is_reused_until_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(CertificateAuthority("first").pem)
    tls = TlsConfig(authority=path)
    first = tls.context()
    assert tls.context() is first
    replace(path, CertificateAuthority("second").pem)
    assert tls.context() is not first
    assert tls.context().verify_mode == ssl.CERT_REQUIRED


async def test_the_server_name_of_the_certificate() -> None:
    authority = CertificateAuthority("of the server")
    async with ScriptedServer([FOUND]).serving(server_context(authority.server("inner.example"))) as server:
        for name, trusted in (("inner.example", True), ("outer.example", False)):
            access = Access(
                url=server.url,
                tls=TlsConfig(authority=authority.pem),
                credential_source=TokenFileCredentials(b"t"),
                server_name=name,
            )
            cluster = KubernetesCluster(access)
            if trusted:
                await cluster.get(CONFIG_MAPS, "a", "ns")
            else:
                with pytest.raises(errors.UnavailableError, match=r"outer\.example"):
                    await cluster.get(CONFIG_MAPS, "a", "ns")
            await cluster.close()


async def test_an_empty_authority_is_an_error(account: Path) -> None:
    (account / "ca.crt").write_bytes(b"")
    with pytest.raises(AccessError, match=r"ca\.crt is empty"):
        in_cluster_access(pod_environment("https://127.0.0.1:9"), account)


async def test_an_authority_that_is_deleted(account: Path) -> None:
    cluster = KubernetesCluster(in_cluster_access(pod_environment("https://127.0.0.1:9"), account))
    (account / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"invalid certificates: .*ca\.crt"):
        await cluster.get(CONFIG_MAPS, "a", "ns")
    await cluster.close()


# --- proxies ----------------------------------------------------------------------------------------------

ENVIRONMENT = {"https_proxy": "http://p:1", "http_proxy": "http://q:2", "no_proxy": ".inner,10.0.0.1"}
PROXIES = {
    "https": ("https://example.com:6443", "http://p:1"),
    "http": ("http://example.com", "http://q:2"),
    "a domain without a proxy": ("https://api.inner:6443", ""),
    "an address without a proxy": ("https://10.0.0.1:443", ""),
    "this machine": ("https://127.0.0.1:6443", ""),
    "this machine, IPv6": ("https://[::1]:6443", ""),
    "this machine by name": ("https://localhost:6443", ""),
}


@pytest.mark.parametrize("url, proxy", PROXIES.values(), ids=PROXIES)
def test_proxies(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


async def test_requests_go_through_the_proxy() -> None:
    async with ScriptedServer([FOUND]).serving() as proxy:
        access = Access(
            url="http://far.example",
            tls=TlsConfig(),
            credential_source=TokenFileCredentials(b"t"),
            proxy=proxy.url,
        )
        cluster = KubernetesCluster(access)
        await cluster.get(CONFIG_MAPS, "a", "ns")
        await cluster.close()
    assert proxy.request_lines == ["GET http://far.example/api/v1/namespaces/ns/configmaps/a"]
