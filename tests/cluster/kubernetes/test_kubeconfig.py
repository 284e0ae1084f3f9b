"""Kubeconfigs: what is read from them, errors in them, and credentials that expire."""

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import ConfigNode

from shoal.cluster import errors
from shoal.cluster.kubernetes.access import Access, AccessError, Credentials
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import ExecPluginCredentials, from_kubeconfig
from shoal.cluster.resources import CONFIG_MAPS, NODES
from tests.cluster.certificates import CertificateAuthority
from tests.cluster.kubernetes.scripted_server import ScriptedServer, error_response, response
from tests.cluster.local_server import server_context
from tests.k8s.controlplane import ControlPlane, control_plane
from tests.k8s.fixtures import need_assets

FOUND = response(200, {"metadata": {"name": "a"}})


def config(
    *, server: str = "https://127.0.0.1:1", user: object = None, context: object = None, **cluster: object
) -> dict[str, Any]:
    """Return a kubeconfig with one context."""
    return {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],  # type: ignore[dict-item]
        "current-context": "x",
    }


def write_config(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


async def credentials(access: Access) -> Credentials:
    return await access.credential_source.credentials()


# --- reading ----------------------------------------------------------------------------------------------


BASIC = "Basic " + base64.b64encode(b"me:secret").decode()
USERS: dict[str, tuple[Mapping[str, object], str]] = {
    "a token": ({"token": "t1"}, "Bearer t1"),
    "a token with a line break": ({"token": "t1\n"}, "Bearer t1"),
    "a token in a file beside the kubeconfig": ({"tokenFile": "token"}, "Bearer from-file"),
    "a token file takes precedence over a token": ({"token": "t1", "tokenFile": "token"}, "Bearer from-file"),
    "a name and a password": ({"username": "me", "password": "secret"}, BASIC),
    "no credentials": ({}, ""),
    "null is ignored": ({"exec": None, "tokenFile": None, "as": None, "token": "t1"}, "Bearer t1"),
    "an obsolete auth-provider": (
        {"auth-provider": {"name": "oidc", "config": {"id-token": "a.e30=.c"}}},
        "Bearer a.e30=.c",
    ),
}


@pytest.mark.parametrize("user, expected", USERS.values(), ids=USERS)
async def test_users(tmp_path: Path, user: Mapping[str, object], expected: str) -> None:
    (tmp_path / "token").write_text("from-file\n")
    access = from_kubeconfig(write_config(tmp_path / "config", config(user=user)))
    assert (await credentials(access)).authorization == expected


async def test_without_tls_no_credentials_are_sent(tmp_path: Path) -> None:
    content = config(server="http://example.com", user={"token": "t1"})
    access = from_kubeconfig(write_config(tmp_path / "config", content))
    assert await credentials(access) == Credentials()


async def test_all_fields_of_a_context(tmp_path: Path) -> None:
    content = config(
        server="https://example.com:6443",
        user={"token": "t", "as": "carol", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["z"]}},
        context={"namespace": "team-a"},
        **{"tls-server-name": "inner", "proxy-url": "http://proxy:3128", "insecure-skip-tls-verify": True},
    )
    access = from_kubeconfig(write_config(tmp_path / "config", content))
    assert (access.url, access.namespace, access.server_name, access.proxy, access.headers) == (
        "https://example.com:6443",
        "team-a",
        "inner",
        "http://proxy:3128",
        (
            ("Impersonate-User", "carol"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-x%2Fy", "z"),
        ),
    )
    assert not access.tls.context().check_hostname


async def test_impersonation(k8s: ControlPlane, tmp_path: Path) -> None:
    content = json.loads(k8s.kubeconfig().read_text())
    content["users"][0]["user"] |= {"as": "carol", "as-groups": ["guests"]}
    cluster = KubernetesCluster(from_kubeconfig(write_config(tmp_path / "config", content)))
    with pytest.raises(errors.ForbiddenError, match='User "carol" cannot list'):
        await cluster.list(NODES)
    await cluster.close()


async def test_a_context_without_user_and_namespace(tmp_path: Path) -> None:
    content = config(server="https://example.com")
    del content["contexts"][0]["context"]["user"]
    access = from_kubeconfig(write_config(tmp_path / "config", content))
    assert (access.namespace, await credentials(access)) == ("default", Credentials())


async def test_several_files_are_merged(tmp_path: Path) -> None:
    """The first file that has a value decides; paths are relative to the file that contains them."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "token").write_text("of-sub")
    first = {"current-context": "x", "contexts": config()["contexts"]}
    second = config(user={"tokenFile": "token"}) | {"current-context": "another"}
    paths = [
        write_config(tmp_path / "first", first),
        str(tmp_path / "missing"),
        write_config(tmp_path / "sub" / "second", second),
    ]
    access = from_kubeconfig(":".join(paths))
    assert (await credentials(access)).authorization == "Bearer of-sub"


async def test_a_named_context(tmp_path: Path) -> None:
    content = config()
    content["contexts"].append({"name": "y", "context": {"cluster": "c", "namespace": "of-y"}})
    assert from_kubeconfig(write_config(tmp_path / "config", content), "y").namespace == "of-y"


# --- errors -----------------------------------------------------------------------------------------------


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in config().items() if name != key}


def encoded(**texts: bytes) -> dict[str, str]:
    """Encode certificates and keys as inline data, on several lines."""
    return {
        f"{name.replace('_', '-')}-data": base64.encodebytes(text).decode() for name, text in texts.items()
    }


LOCKED = CertificateAuthority("of clients").client("carol", "all", password=b"secret")
ENCRYPTED = encoded(client_certificate=LOCKED.chain, client_key=LOCKED.key)
INVALID: dict[str, tuple[object, str, str]] = {
    "no such context": (config(), "z", r"has no context 'z'; known: 'x'$"),
    "no current context": (without("current-context"), "", r"has no current-context; known: 'x'$"),
    "no such cluster": (config(context={"cluster": "d"}), "", r"has no cluster 'd'; known: 'c'$"),
    "no such user": (config(context={"user": "v"}), "", r"has no user 'v'; known: 'u'$"),
    "no server": (config() | {"clusters": [{"name": "c", "cluster": {"a": 1}}]}, "", "Expected key server"),
    "a server without a scheme": (
        config(server="10.0.0.1:6443"),
        "",
        "invalid server address '10.0.0.1:6443'; use https",
    ),
    "an unsupported proxy": (config(**{"proxy-url": "socks5://p"}), "", "invalid proxy address 'socks5://p'"),
    "an encrypted key": (config(user=ENCRYPTED), "", "the key of the client certificate is encrypted"),
    "invalid YAML": ("a: [", "", "while parsing"),
    "an empty file": ("", "", "is not a valid kubeconfig"),
    "a list": ("[1]", "", "is not a valid kubeconfig"),
    "invalid clusters": (config() | {"clusters": [5]}, "", "is not a valid kubeconfig"),
    "invalid base64": (
        config(**{"certificate-authority-data": "#"}),
        "",
        "certificate-authority-data is not base64",
    ),
    "an invalid certificate": (config(**{"certificate-authority-data": "YWFhYQ=="}), "", "(?i)pem|ssl|x509"),
    "a missing certificate file": (
        config(**{"certificate-authority": "ca.crt"}),
        "",
        "No such file.*ca.crt",
    ),
    "a missing key file": (
        config(user={"client-certificate-data": "YWFhYQ==", "client-key": "key"}),
        "",
        "No such file.*key",
    ),
    "a plugin without a command": (config(user={"exec": {"apiVersion": "v1"}}), "", "command"),
}


@pytest.mark.parametrize("content, context, message", INVALID.values(), ids=INVALID)
def test_error_messages(tmp_path: Path, content: object, context: str, message: str) -> None:
    path = write_config(tmp_path / "config", content)
    with pytest.raises(AccessError, match=message) as caught:
        from_kubeconfig(path, context)
    assert str(caught.value).startswith(f"kubeconfig {path}: ")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=f"^kubeconfig {tmp_path}/no: no such file$"):
        from_kubeconfig(str(tmp_path / "no"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="directory"):
        from_kubeconfig(str(tmp_path))


# --- plugins ----------------------------------------------------------------------------------------------

SERVER_AUTHORITY = CertificateAuthority("of servers")
SERVER_TLS = server_context(SERVER_AUTHORITY.server())
TRUSTED = encoded(certificate_authority=SERVER_AUTHORITY.pem)
VERSION = "client.authentication.k8s.io/v1"
PLUGIN = """#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" > "$DIRECTORY/input"
echo >> "$DIRECTORY/count"
cat "$DIRECTORY/output"
"""


@dataclass
class PluginProgram:
    """A credential plugin that prints the content of a file, and counts its runs."""

    directory: Path

    def issue(self, **status: object) -> None:
        self.print({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})

    def print(self, output: object) -> None:
        write_config(self.directory / "output", output)

    @property
    def runs(self) -> int:
        return len((self.directory / "count").read_text())

    @property
    def user(self) -> dict[str, Any]:
        env = [{"name": "DIRECTORY", "value": str(self.directory)}]
        return {"exec": {"apiVersion": VERSION, "command": "./plugin", "env": env, "installHint": "Get it."}}


@pytest.fixture
def program(tmp_path: Path) -> PluginProgram:
    (tmp_path / "plugin").write_text(PLUGIN)
    (tmp_path / "plugin").chmod(0o755)
    return PluginProgram(tmp_path)


async def test_a_plugin_runs_once_for_many_requests(program: PluginProgram) -> None:
    program.issue(token="issued")  # noqa: S106 - of a test
    async with ScriptedServer([FOUND]).serving(SERVER_TLS) as server:
        path = write_config(
            program.directory / "config", config(server=server.url, user=program.user, **TRUSTED)
        )
        cluster = KubernetesCluster(from_kubeconfig(path))
        await asyncio.gather(*(cluster.get(CONFIG_MAPS, "a", "ns") for _ in range(5)))
        await cluster.close()
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer issued"}
    assert program.runs == 1
    assert json.loads((program.directory / "input").read_text())["kind"] == "ExecCredential"


async def test_rejected_credentials_are_renewed_once(program: PluginProgram) -> None:
    program.issue(token="old")  # noqa: S106 - of a test
    async with ScriptedServer([FOUND, error_response(401), FOUND, error_response(401, "expired")]).serving(
        SERVER_TLS
    ) as server:
        path = write_config(
            program.directory / "config", config(server=server.url, user=program.user, **TRUSTED)
        )
        cluster = KubernetesCluster(from_kubeconfig(path))
        await cluster.get(CONFIG_MAPS, "a", "ns")
        program.issue(token="new")  # noqa: S106 - of a test
        await cluster.get(CONFIG_MAPS, "a", "ns")
        with pytest.raises(errors.UnauthorizedError, match="expired"):
            await cluster.get(CONFIG_MAPS, "a", "ns")
        await cluster.close()
    sent = [request.headers["Authorization"].removeprefix("Bearer ") for request in server.requests]
    assert sent == ["old", "old", "new", "new", "new"]
    assert program.runs == 3


async def test_credentials_are_renewed_before_they_expire(program: PluginProgram) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    node = ConfigNode("exec", {**program.user["exec"], "command": str(program.directory / "plugin")})
    plugin = ExecPluginCredentials(ExecProvider(node), clock=lambda: now)
    program.issue(token="first", expirationTimestamp="2030-01-01T01:00:00Z")  # noqa: S106 - of a test
    assert (await plugin.credentials()).authorization == "Bearer first"
    program.issue(token="second")  # noqa: S106 - of a test
    now += timedelta(minutes=59)
    assert (await plugin.credentials()).authorization == "Bearer first"
    now += timedelta(seconds=45)
    assert (await plugin.credentials()).authorization == "Bearer second"


FAILURES: dict[str, tuple[object, str]] = {
    "no credentials": ({"status": {}}, "issued neither a token nor a certificate"),
    "another API version": ({"apiVersion": "v9", "status": {"token": "t"}}, "v9 does not match"),
    "no JSON": ("what?", "failed to decode process output"),
    "a token that is a number": ({"status": {"token": 5}}, "Expected `str`, got `int`"),
    "no status": ({"status": None}, "Expected `object`"),
}


@pytest.mark.parametrize("output, message", FAILURES.values(), ids=FAILURES)
async def test_plugin_errors(program: PluginProgram, output: object, message: str) -> None:
    program.print(
        {"apiVersion": VERSION, "kind": "ExecCredential", **output} if isinstance(output, dict) else output
    )
    access = from_kubeconfig(write_config(program.directory / "config", config(user=program.user)))
    with pytest.raises(AccessError, match=rf"^credential plugin '.*/plugin'.*{message}"):
        await credentials(access)


async def test_a_plugin_that_fails(program: PluginProgram) -> None:
    (program.directory / "plugin").write_text("#!/bin/sh\necho 'log in first' >&2; exit 3\n")
    access = from_kubeconfig(write_config(program.directory / "config", config(user=program.user)))
    with pytest.raises(AccessError, match=r"process returned 3\. log in first"):
        await credentials(access)


async def test_a_missing_plugin(program: PluginProgram) -> None:
    (program.directory / "plugin").unlink()
    access = from_kubeconfig(write_config(program.directory / "config", config(user=program.user)))
    with pytest.raises(AccessError, match=r"credential plugin '.*/plugin' not found\. Get it\."):
        await credentials(access)


# --- certificates -----------------------------------------------------------------------------------------


async def test_client_certificates_on_a_real_server(tmp_path: Path, program: PluginProgram) -> None:
    """As files, as inline data, and from a plugin."""
    need_assets("etcd", "kube-apiserver", "kubectl")
    authority = CertificateAuthority("of clients")
    (tmp_path / "clients.crt").write_bytes(authority.pem)
    pair = authority.client("carol", "system:masters")
    (tmp_path / "tls.crt").write_bytes(pair.chain)
    (tmp_path / "tls.key").write_bytes(pair.key)
    program.issue(clientCertificateData=pair.chain.decode(), clientKeyData=pair.key.decode())
    users: list[Mapping[str, object]] = [
        {"client-certificate": "tls.crt", "client-key": "tls.key"},
        encoded(client_certificate=pair.chain, client_key=pair.key),
        program.user,
    ]
    with control_plane(
        tmp_path / "plane", api_server_flags=[f"--client-ca-file={tmp_path / 'clients.crt'}"]
    ) as plane:
        for user in users:
            content = config(server=plane.url, user=user, **{"certificate-authority": str(plane.authority)})
            cluster = KubernetesCluster(from_kubeconfig(write_config(tmp_path / "config", content)))
            assert (await cluster.list(NODES)).items == []
            await cluster.close()


async def test_a_server_of_another_authority_is_not_trusted(k8s: ControlPlane, tmp_path: Path) -> None:
    other = encoded(certificate_authority=CertificateAuthority("another").pem)
    content = config(server=k8s.url, user={"token": "t"}, **other)
    cluster = KubernetesCluster(from_kubeconfig(write_config(tmp_path / "config", content)))
    with pytest.raises(errors.UnavailableError, match="certificate verify failed"):
        await cluster.list(NODES)
    await cluster.close()


def test_temporary_key_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are written to temporary files, because Python loads them from files only."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "files"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "files").mkdir()
    pair = CertificateAuthority("of clients").client("carol", "all")
    user = encoded(client_certificate=pair.chain, client_key=pair.key)
    from_kubeconfig(write_config(tmp_path / "config", config(user=user)))
    assert list((tmp_path / "files").iterdir()) == []
