"""The way to a cluster that a kubeconfig describes, as kubectl reads it.

The library merges several files and runs credential plugins; nothing else knows that it exists. It takes its
time to be imported: import this module where a kubeconfig is really read.
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

from shoal.cluster.kubernetes.access import Access, AccessError, Constant, Credentials, Identity, TokenFile
from shoal.cluster.kubernetes.tls import NO_CERTIFICATE, Certificate, Pem, Tls
from shoal.cluster.kubernetes.transport import proxy_for

_SOON: Final = timedelta(seconds=30)
"""Credentials that expire this soon are renewed: what is asked with them must still arrive in time."""

_ODD: Final = (
    ConfigException,
    OSError,
    yaml.YAMLError,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
"""What the library raises about files that are not as it expects."""

Clock = Callable[[], datetime]

# What the library warns of is raised here as an error, once and with the name of the file.
logging.getLogger("kubernetes_asyncio.config").addHandler(logging.NullHandler())


def from_kubeconfig(paths: str, context: str = "") -> Access:
    """The way that a context (by default the current one) of one or several files (`a:b`) describes."""
    with _named(paths):
        return _Reader(paths, context).access()


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except (*_ODD, AccessError) as problem:
        raise AccessError(f"kubeconfig {what}: {_told(problem)}") from problem


def _told(problem: Exception) -> str:
    if isinstance(problem, AttributeError | KeyError | TypeError | AssertionError):
        return f"is not as a kubeconfig should be ({type(problem).__name__}: {problem})"
    return str(problem)


class _Reader:
    """Reads one context."""

    def __init__(self, paths: str, context: str) -> None:
        self._files: Final = KubeConfigMerger(paths)
        if self._files.config is None:
            raise ConfigException("there is no such file")
        self._merged: Final = self._files.config
        self._name: Final = context or self._current()
        self._context: Final = self._entry("context", self._name)
        self._cluster: Final = self._entry("cluster", str(self._context.safe_get("cluster") or ""))
        user = str(self._context.safe_get("user") or "")
        self._user: Final = self._entry("user", user) if user else ConfigNode("nobody", {})

    def access(self) -> Access:
        cluster, user = self._cluster, self._user
        url = str(cluster["server"])
        tls = Tls(
            authority=_pem(cluster, "certificate-authority"),
            chain=_pem(user, "client-certificate"),
            key=_pem(user, "client-key"),
            insecure=bool(cluster.safe_get("insecure-skip-tls-verify")),
        )
        tls.context()  # nonsense in a certificate is said now
        return Access(
            url=url,
            tls=tls,
            identity=self._identity(),
            namespace=str(self._context.safe_get("namespace") or "default"),
            server_name=str(cluster.safe_get("tls-server-name") or ""),
            proxy=str(cluster.safe_get("proxy-url") or "") or proxy_for(url),
            headers=tuple(_impersonation(user)),
        )

    def _current(self) -> str:
        """The first file that has a current context decides, as for kubectl; the library takes the last."""
        said = (file.get("current-context") for file in self._files.config_files.values())
        if name := next(filter(None, said), ""):
            return str(name)
        raise ConfigException(f"has no current-context; there are {self._names('context')}")

    def _entry(self, kind: str, name: str) -> ConfigNode:
        try:
            entry: ConfigNode = self._merged[f"{kind}s"].get_with_name(name)[kind]  # type: ignore[index]
        except ConfigException:
            raise ConfigException(f"has no {kind} {name!r}; there are {self._names(kind)}") from None
        return entry

    def _names(self, kind: str) -> str:
        entries = self._merged.safe_get(f"{kind}s") or ()
        return ", ".join(sorted(repr(entry["name"]) for entry in entries)) or "none"

    def _identity(self) -> Identity:
        """Who we are. Without TLS we are nobody: whoever listens could be us from then on."""
        user = self._user
        if not str(self._cluster["server"]).startswith("https:"):
            return Constant(Credentials())
        if user.safe_get("exec"):
            return Plugin(ExecProvider(_relative(user["exec"], user.path)), _hint(user["exec"]))
        if user.safe_get("tokenFile"):
            return TokenFile(_beside(user, "tokenFile"))
        if user.safe_get("auth-provider"):
            return Provider(KubeConfigLoader(self._merged, self._name, config_base_path=None))
        return Constant(Credentials(_authorization(user)))


def _authorization(user: ConfigNode) -> str:
    if token := str(user.safe_get("token") or "").strip():
        return f"Bearer {token}"
    if not user.safe_get("username"):
        return ""
    pair = f"{user['username']}:{user.safe_get('password') or ''}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _beside(node: ConfigNode, key: str) -> Path:
    """A file named in a kubeconfig; relative names mean beside it."""
    return Path(node.path or "").absolute().parent / str(node[key])


def _pem(node: ConfigNode, key: str) -> Pem:
    if text := node.safe_get(f"{key}-data"):
        try:
            return base64.b64decode("".join(str(text).split()), validate=True)
        except binascii.Error as problem:
            raise ConfigException(f"{key}-data is not base64: {problem}") from problem
    return _beside(node, key) if node.safe_get(key) else b""


def _impersonation(user: ConfigNode) -> Iterator[tuple[str, str]]:
    """The headers that make the server take us for somebody else, if we may."""
    for key, header in (("as", "User"), ("as-uid", "Uid")):
        if user.safe_get(key):
            yield f"Impersonate-{header}", str(user[key])
    for group in user.safe_get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in (user.safe_get("as-user-extra") or {}).items():
        yield from ((f"Impersonate-Extra-{quote(key, safe='')}", str(value)) for value in values)


# --- plugins ----------------------------------------------------------------------------------------------


class _Issued(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin answers."""

    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class Plugin:
    """Somebody whose credentials a program issues: asked for when needed, kept until they expire or fail."""

    def __init__(
        self, program: ExecProvider, hint: str = "", clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self._program: Final = program
        self._hint: Final = hint
        self._clock: Final = clock
        self._asking: Final = asyncio.Lock()
        self._issued: tuple[Credentials, datetime | None] | None = None

    async def credentials(self) -> Credentials:
        async with self._asking:  # many requests may find them expired: one asks for all
            if self._issued is None or self._expires(self._issued[1]):
                self._issued = await self._ask()
            return self._issued[0]

    def refused(self, credentials: Credentials) -> bool:
        if self._issued is not None and self._issued[0] == credentials:
            self._issued = None
        return True

    def _expires(self, when: datetime | None) -> bool:
        return when is not None and when - _SOON <= self._clock()

    async def _ask(self) -> tuple[Credentials, datetime | None]:
        command = self._program.args[0]
        try:
            issued = msgspec.convert(await self._program.run(), _Issued)
        except FileNotFoundError as problem:
            hint = f". {self._hint}" if self._hint else ""
            raise AccessError(f"there is no credential plugin {command!r}{hint}") from problem
        except _ODD as problem:
            raise AccessError(f"credential plugin {command!r}: {problem}") from problem
        if not issued.token and not issued.client_certificate_data:
            raise AccessError(f"credential plugin {command!r} issued neither a token nor a certificate")
        return _credentials(issued), issued.expiration_timestamp


def _credentials(issued: _Issued) -> Credentials:
    certificate = (
        Certificate(issued.client_certificate_data.encode(), issued.client_key_data.encode())
        if issued.client_certificate_data
        else NO_CERTIFICATE
    )
    return Credentials(f"Bearer {issued.token}" if issued.token else "", certificate)


def _relative(program: ConfigNode, path: str | None) -> ConfigNode:
    """A program with a `/` in its name is beside the kubeconfig; one without is looked for as usual."""
    command = str(program["command"])
    if "/" not in command or command.startswith("/"):
        return program
    beside = str(Path(path or "").absolute().parent / command)
    return ConfigNode(program.name, {**program.value, "command": beside}, path)


def _hint(program: ConfigNode) -> str:
    return str(program.safe_get("installHint") or "").strip()


class Provider:
    """Somebody whose credentials the library itself renews (`auth-provider`, of old)."""

    def __init__(self, loader: KubeConfigLoader) -> None:
        self._loader: Final = loader
        self._asking: Final = asyncio.Lock()

    async def credentials(self) -> Credentials:
        settings = _Settings()
        async with self._asking:
            try:
                await self._loader.load_and_set(settings)
            except _ODD as problem:
                raise AccessError(f"auth-provider: {problem}") from problem
        return Credentials(settings.api_key.get("BearerToken", ""))

    def refused(self, credentials: Credentials) -> bool:  # noqa: ARG002 - any would be issued again
        """The library goes by the time on the token alone: it would issue the same again."""
        return False


class _Settings:
    """Where the library puts what it found."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
