"""Access to a cluster by a kubeconfig, as kubectl reads it.

The Kubernetes library merges several files and runs credential plugins; no other module knows it. It takes
long to import: import this module only where such a kubeconfig is read.
"""

import asyncio
import base64
import binascii
import contextlib
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import yaml
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from shoal.cluster.kubernetes.access import (
    NO_CERTIFICATE,
    Access,
    AccessError,
    ClientCertificate,
    Credentials,
    CredentialSource,
    PemSource,
    StaticCredentials,
    TlsConfig,
    TokenFileCredentials,
    proxy_for,
)

_RENEW_BEFORE: Final = timedelta(seconds=30)
"""Credentials that expire sooner are renewed: a request that is sent with them must still arrive in time."""

_LIBRARY_ERRORS: Final = (
    ConfigException,
    OSError,
    yaml.YAMLError,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
"""Exceptions of the library for files that it cannot read."""

Clock = Callable[[], datetime]

# The library logs problems; here each is raised as an error, once and with the name of the file.
logging.getLogger("kubernetes_asyncio.config").addHandler(logging.NullHandler())


def from_kubeconfig(paths: str, context: str = "") -> Access:
    """Return the access of a context (by default the current one) of one or several files (`a:b`)."""
    with _translate_errors(paths):
        return _Reader(paths, context).access()


@contextlib.contextmanager
def _translate_errors(paths: str) -> Iterator[None]:
    try:
        yield
    except (*_LIBRARY_ERRORS, AccessError) as error:
        raise AccessError(f"kubeconfig {paths}: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    if isinstance(error, AttributeError | KeyError | TypeError | AssertionError):
        return f"is not a valid kubeconfig ({type(error).__name__}: {error})"
    return str(error)


class _Reader:
    """Reads one context of a kubeconfig."""

    def __init__(self, paths: str, context: str) -> None:
        self._files: Final = KubeConfigMerger(paths)
        if self._files.config is None:
            raise ConfigException("no such file")
        self._merged: Final = self._files.config
        self._name: Final = context or self._current()
        self._context: Final = self._entry("context", self._name)
        self._cluster: Final = self._entry("cluster", str(self._context.safe_get("cluster") or ""))
        user = str(self._context.safe_get("user") or "")
        self._user: Final = self._entry("user", user) if user else ConfigNode("anonymous", {})

    def access(self) -> Access:
        cluster, user = self._cluster, self._user
        url = str(cluster["server"])
        tls = TlsConfig(
            authority=_pem(cluster, "certificate-authority"),
            chain=_pem(user, "client-certificate"),
            key=_pem(user, "client-key"),
            insecure=bool(cluster.safe_get("insecure-skip-tls-verify")),
        )
        tls.context()  # finds invalid certificates now
        return Access(
            url=url,
            tls=tls,
            credential_source=self._credential_source(),
            namespace=str(self._context.safe_get("namespace") or "default"),
            server_name=str(cluster.safe_get("tls-server-name") or ""),
            proxy=str(cluster.safe_get("proxy-url") or "") or proxy_for(url),
            headers=tuple(_impersonation(user)),
        )

    def _current(self) -> str:
        """Return the current context: the first file that has one decides, as for kubectl.

        The library would take the last.
        """
        found = (file.get("current-context") for file in self._files.config_files.values())
        if name := next(filter(None, found), ""):
            return str(name)
        raise ConfigException(f"has no current-context; known: {self._names('context')}")

    def _entry(self, kind: str, name: str) -> ConfigNode:
        try:
            entry: ConfigNode = self._merged[f"{kind}s"].get_with_name(name)[kind]  # type: ignore[index]
        except ConfigException:
            raise ConfigException(f"has no {kind} {name!r}; known: {self._names(kind)}") from None
        return entry

    def _names(self, kind: str) -> str:
        entries = self._merged.safe_get(f"{kind}s") or ()
        return ", ".join(sorted(repr(entry["name"]) for entry in entries)) or "none"

    def _credential_source(self) -> CredentialSource:
        """Return the source of credentials. Without TLS none are sent: they could be read on the way."""
        user = self._user
        if not str(self._cluster["server"]).startswith("https:"):
            return StaticCredentials(Credentials())
        if user.safe_get("exec"):
            return ExecPluginCredentials(
                ExecProvider(_resolve_command(user["exec"], user.path)), _install_hint(user["exec"])
            )
        if user.safe_get("tokenFile"):
            return TokenFileCredentials(_path_of(user, "tokenFile"))
        if user.safe_get("auth-provider"):
            return AuthProviderCredentials(KubeConfigLoader(self._merged, self._name, config_base_path=None))
        return StaticCredentials(Credentials(_authorization(user)))


def _authorization(user: ConfigNode) -> str:
    if token := str(user.safe_get("token") or "").strip():
        return f"Bearer {token}"
    if not user.safe_get("username"):
        return ""
    pair = f"{user['username']}:{user.safe_get('password') or ''}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _path_of(node: ConfigNode, key: str) -> Path:
    """Return the path of a file that a kubeconfig names, relative to the kubeconfig."""
    return Path(node.path or "").absolute().parent / str(node[key])


def _pem(node: ConfigNode, key: str) -> PemSource:
    if text := node.safe_get(f"{key}-data"):
        try:
            return base64.b64decode("".join(str(text).split()), validate=True)
        except binascii.Error as error:
            raise ConfigException(f"{key}-data is not base64: {error}") from error
    return _path_of(node, key) if node.safe_get(key) else b""


def _impersonation(user: ConfigNode) -> Iterator[tuple[str, str]]:
    """Yield the headers of user impersonation."""
    for key, header in (("as", "User"), ("as-uid", "Uid")):
        if user.safe_get(key):
            yield f"Impersonate-{header}", str(user[key])
    for group in user.safe_get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in (user.safe_get("as-user-extra") or {}).items():
        yield from ((f"Impersonate-Extra-{quote(key, safe='')}", str(value)) for value in values)


# --- plugins ----------------------------------------------------------------------------------------------


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The status of the ExecCredential that a plugin returns."""

    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class ExecPluginCredentials:
    """Credentials of an exec plugin: requested when needed, cached until they expire or are rejected."""

    def __init__(
        self, program: ExecProvider, hint: str = "", clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self._program: Final = program
        self._hint: Final = hint
        self._clock: Final = clock
        self._lock: Final = asyncio.Lock()
        self._cached: tuple[Credentials, datetime | None] | None = None

    async def credentials(self) -> Credentials:
        async with self._lock:  # many requests may find them expired: one renews them for all
            if self._cached is None or self._is_expiring(self._cached[1]):
                self._cached = await self._run()
            return self._cached[0]

    def reject(self, credentials: Credentials) -> bool:
        if self._cached is not None and self._cached[0] == credentials:
            self._cached = None
        return True

    def _is_expiring(self, when: datetime | None) -> bool:
        return when is not None and when - _RENEW_BEFORE <= self._clock()

    async def _run(self) -> tuple[Credentials, datetime | None]:
        command = self._program.args[0]
        try:
            issued = msgspec.convert(await self._program.run(), _ExecCredential)
        except FileNotFoundError as error:
            hint = f". {self._hint}" if self._hint else ""
            raise AccessError(f"credential plugin {command!r} not found{hint}") from error
        except _LIBRARY_ERRORS as error:
            raise AccessError(f"credential plugin {command!r}: {error}") from error
        if not issued.token and not issued.client_certificate_data:
            raise AccessError(f"credential plugin {command!r} issued neither a token nor a certificate")
        return _credentials(issued), issued.expiration_timestamp


def _credentials(issued: _ExecCredential) -> Credentials:
    certificate = (
        ClientCertificate(issued.client_certificate_data.encode(), issued.client_key_data.encode())
        if issued.client_certificate_data
        else NO_CERTIFICATE
    )
    return Credentials(f"Bearer {issued.token}" if issued.token else "", certificate)


def _resolve_command(program: ConfigNode, path: str | None) -> ConfigNode:
    """Return the program, relative to the kubeconfig if it has a `/`; others are looked up in PATH."""
    command = str(program["command"])
    if "/" not in command or command.startswith("/"):
        return program
    path_beside = str(Path(path or "").absolute().parent / command)
    return ConfigNode(program.name, {**program.value, "command": path_beside}, path)


def _install_hint(program: ConfigNode) -> str:
    return str(program.safe_get("installHint") or "").strip()


class AuthProviderCredentials:
    """Credentials that the library renews itself (`auth-provider`, which is obsolete)."""

    def __init__(self, loader: KubeConfigLoader) -> None:
        self._loader: Final = loader
        self._lock: Final = asyncio.Lock()

    async def credentials(self) -> Credentials:
        settings = _Settings()
        async with self._lock:
            try:
                await self._loader.load_and_set(settings)
            except _LIBRARY_ERRORS as error:
                raise AccessError(f"auth-provider: {error}") from error
        return Credentials(settings.api_key.get("BearerToken", ""))

    def reject(self, credentials: Credentials) -> bool:  # noqa: ARG002 - the same would be issued again
        """Return False: the library goes by the expiry time alone, and would issue the same token again."""
        return False


class _Settings:
    """Receives the settings that the library loads."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
