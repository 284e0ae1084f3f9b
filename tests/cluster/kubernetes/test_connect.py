"""Where the way to a cluster is found, and what happens when tokens and authorities are replaced."""

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
    """A service account as it is put into a pod."""
    directory = tmp_path / "account"
    directory.mkdir()
    (directory / "token").write_text("t1")
    (directory / "ca.crt").write_bytes(CertificateAuthority("first").pem)
    (directory / "namespace").write_text("shoal-system")
    return directory


def pod(url: str) -> Mapping[str, str]:
    """The environment of a pod."""
    host, port = url.removeprefix("https://").rsplit(":", 1)
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def replace(path: Path, content: bytes) -> None:
    """As Kubernetes does it: a new file takes the place of the old one."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


# --- where it is found ------------------------------------------------------------------------------------


def test_what_is_named_comes_first(tmp_path: Path, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(KUBECONFIG.replace("from-kubeconfig", "from-home"))
    (tmp_path / "config").write_text(KUBECONFIG)
    named = str(tmp_path / "config")
    here = pod("https://10.0.0.1:443")
    assert find_access(named, env=here, service_account=account).url == "http://from-kubeconfig"
    assert (
        find_access(env={**here, "KUBECONFIG": named}, service_account=account).url
        == "http://from-kubeconfig"
    )
    assert find_access(env=here, service_account=account).url == "https://10.0.0.1:443"
    assert find_access(context="x", env=here, service_account=account).url == "http://from-home"
    assert find_access(env={}, service_account=account).url == "http://from-home"


def test_a_pod_knows_its_namespace_and_speaks_to_any_address(account: Path) -> None:
    access = in_cluster_access(pod("https://fd00::1:6443"), account)
    assert (access.url, access.namespace) == ("https://[fd00::1]:6443", "shoal-system")


def test_outside_of_a_pod(account: Path) -> None:
    with pytest.raises(AccessError, match="not in a pod of a cluster: KUBERNETES_SERVICE_HOST is not set"):
        in_cluster_access({}, account)


def test_a_service_account_that_is_not_whole(account: Path) -> None:
    (account / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"cannot read the service account: .*ca\.crt"):
        in_cluster_access(pod("https://10.0.0.1:443"), account)


# --- what is replaced -------------------------------------------------------------------------------------


async def test_tokens_and_authorities_are_replaced_while_we_run(account: Path) -> None:
    """First the token, then the certificate of the server together with who vouches for it."""
    first, second = CertificateAuthority("first"), CertificateAuthority("second")
    replace(account / "ca.crt", first.pem)
    shown = server_context(first.server())
    async with ScriptedServer([FOUND]).serving(shown) as server:
        cluster = KubernetesCluster(in_cluster_access(pod(server.url), account))
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
    assert [requests.headers["Authorization"] for requests in server.requests] == [
        "Bearer t1",
        "Bearer t2",
        "Bearer t2",
    ]


async def test_a_token_that_is_refused_is_not_tried_again_unless_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("t1")
    someone = TokenFileCredentials(path)
    before = await someone.credentials()
    assert not someone.reject(before)
    replace(path, b"t2")
    assert someone.reject(before)
    path.unlink()
    assert not someone.reject(before)
    with pytest.raises(AccessError, match="the token cannot be read"):
        await someone.credentials()


async def test_a_token_replaced_on_the_way_is_used_at_once(account: Path) -> None:
    """The server refuses the old token, and by then there is a new one."""
    authority = CertificateAuthority("of the server")
    replace(account / "ca.crt", authority.pem)
    async with ScriptedServer([error_response(401), FOUND]).serving(
        server_context(authority.server())
    ) as server:
        cluster = KubernetesCluster(in_cluster_access(pod(server.url), account))
        asking = asyncio.ensure_future(cluster.get(CONFIG_MAPS, "a", "ns"))
        await server.received(1)
        replace(account / "token", b"t2")
        await asking
        await cluster.close()
    assert [requests.headers["Authorization"] for requests in server.requests] == ["Bearer t1", "Bearer t2"]


def test_a_context_is_kept_as_long_as_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(CertificateAuthority("first").pem)
    tls = TlsConfig(authority=path)
    first = tls.context()
    assert tls.context() is first
    replace(path, CertificateAuthority("second").pem)
    assert tls.context() is not first
    assert tls.context().verify_mode == ssl.CERT_REQUIRED


async def test_the_name_in_the_certificate_may_be_another() -> None:
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


async def test_an_authority_that_is_empty_does_not_mean_that_of_the_system(account: Path) -> None:
    (account / "ca.crt").write_bytes(b"")
    with pytest.raises(AccessError, match=r"ca\.crt is empty"):
        in_cluster_access(pod("https://127.0.0.1:9"), account)


async def test_a_certificate_that_vanishes_is_told(account: Path) -> None:
    cluster = KubernetesCluster(in_cluster_access(pod("https://127.0.0.1:9"), account))
    (account / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"the certificates cannot be used: .*ca\.crt"):
        await cluster.get(CONFIG_MAPS, "a", "ns")
    await cluster.close()


# --- proxies ----------------------------------------------------------------------------------------------

AROUND = {"https_proxy": "http://p:1", "http_proxy": "http://q:2", "no_proxy": ".inner,10.0.0.1"}
PROXIES = {
    "https": ("https://example.com:6443", "http://p:1"),
    "http": ("http://example.com", "http://q:2"),
    "a domain without": ("https://api.inner:6443", ""),
    "an address without": ("https://10.0.0.1:443", ""),
    "this machine": ("https://127.0.0.1:6443", ""),
    "this machine by its other address": ("https://[::1]:6443", ""),
    "this machine by its name": ("https://localhost:6443", ""),
}


@pytest.mark.parametrize("url, proxy", PROXIES.values(), ids=PROXIES)
def test_proxies(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in AROUND.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


async def test_a_proxy_is_asked() -> None:
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
