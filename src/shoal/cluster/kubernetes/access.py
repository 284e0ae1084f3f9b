"""How to reach an API server: its address, the certificates to trust, and the credentials to send.

Tokens and certificates expire, and other programs put new ones in place while this process runs: files are
read again when they change. Commands import this module at start: it imports neither asyncio nor aiohttp.
"""

import ipaddress
import os
import ssl
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from shoal.cluster.errors import UnavailableError

# --- files that change ------------------------------------------------------------------------------------

FileVersion = tuple[int, int, int]
"""Modification time, size and inode of a file: a replaced file differs in at least one of them."""

PemSource = bytes | Path
"""Certificates or a key in PEM: the text itself, or a file that may be replaced. Empty: none."""


class ReloadingFile:
    """The content of a file, read again when the file has changed; or constant bytes."""

    def __init__(self, source: bytes | Path) -> None:
        self.source: Final = source
        self._content = source if isinstance(source, bytes) else b""
        self._version: FileVersion | None = None

    def read(self) -> bytes:
        """Return the current content; OSError if the file cannot be read."""
        if isinstance(self.source, Path):
            found = self.source.stat()
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            if version != self._version:
                self._content, self._version = self.source.read_bytes(), version
        return self._content


# --- TLS --------------------------------------------------------------------------------------------------


class ClientCertificate(msgspec.Struct, frozen=True):
    """A client certificate with its chain, and its private key; both in PEM."""

    chain: bytes = b""
    key: bytes = b""


NO_CERTIFICATE: Final = ClientCertificate()


class TlsConfig:
    """Makes TLS contexts, and reuses the last one until a file that it was made from changes.

    Without an `authority` the system's certificate authorities are trusted. With `insecure` the server's
    certificate is not verified at all.
    """

    def __init__(
        self,
        *,
        authority: PemSource = b"",
        chain: PemSource = b"",
        key: PemSource = b"",
        insecure: bool = False,
    ) -> None:
        self._authority: Final = ReloadingFile(authority)
        self._chain: Final = ReloadingFile(chain)
        self._key: Final = ReloadingFile(key)
        self._insecure: Final = insecure
        self._cached: tuple[tuple[bytes, ClientCertificate], ssl.SSLContext] | None = None

    def context(self, override: ClientCertificate = NO_CERTIFICATE) -> ssl.SSLContext:
        """Return a context for one connection; `override` replaces the configured client certificate.

        OSError if a file cannot be read, ValueError or ssl.SSLError if its content is not valid.
        """
        certificate = override if override.chain else ClientCertificate(self._chain.read(), self._key.read())
        authority = self._authority.read()
        if not authority and isinstance(self._authority.source, Path):
            raise ValueError(f"{self._authority.source} is empty")  # must not fall back to the system's
        parts = (authority, certificate)
        if self._cached is None or self._cached[0] != parts:
            self._cached = (parts, _make_context(*parts, insecure=self._insecure))
        return self._cached[1]


def _make_context(authority: bytes, certificate: ClientCertificate, *, insecure: bool) -> ssl.SSLContext:
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # skips the system's authorities, slow to read
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        trusted = authority.decode("ascii", "ignore")  # anything that is not ASCII is a comment
        context = ssl.create_default_context(cadata=trusted or None)
        # Since Python 3.13 strict checks refuse authorities without fields that many clusters' never had.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate.chain:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load a client certificate, through a private temporary file: Python loads them from files only."""
    import tempfile  # noqa: PLC0415 - slow to import, and rarely needed

    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.chain + b"\n" + certificate.key)
        file.flush()
        os.fsync(file.fileno())
        context.load_cert_chain(file.name, password=_refuse_password)


def _refuse_password() -> str:
    """Fail instead of prompting for a password at the terminal."""
    raise ValueError("the key of the client certificate is encrypted")


# --- credentials ------------------------------------------------------------------------------------------


class AccessError(UnavailableError):
    """Raised when the address of a cluster or the credentials for it cannot be determined."""


class Credentials(msgspec.Struct, frozen=True):
    """Credentials of one request: an Authorization header, a client certificate, both or neither."""

    authorization: str = ""
    certificate: ClientCertificate = NO_CERTIFICATE


class CredentialSource(Protocol):
    """A source of credentials, which may change over time."""

    async def credentials(self) -> Credentials:
        """Return the credentials that are valid now."""

    def reject(self, credentials: Credentials) -> bool:
        """Note that the server rejected these credentials; return whether a retry may get different ones."""


class StaticCredentials:
    """Credentials that never change."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials: Final = credentials

    def read(self) -> Credentials:
        """Return the credentials, without an event loop."""
        return self._credentials

    async def credentials(self) -> Credentials:
        return self._credentials

    def reject(self, credentials: Credentials) -> bool:
        return credentials != self._credentials


class TokenFileCredentials:
    """A bearer token in a file, which another program replaces before the token expires."""

    def __init__(self, path: PemSource, certificate: ClientCertificate = NO_CERTIFICATE) -> None:
        self._token: Final = ReloadingFile(path)
        self._certificate: Final = certificate

    def read(self) -> Credentials:
        """Return the credentials that are valid now, without an event loop."""
        try:
            token = self._token.read().decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AccessError(f"cannot read the token: {error}") from error
        return Credentials(f"Bearer {token}", self._certificate)

    async def credentials(self) -> Credentials:
        return self.read()

    def reject(self, credentials: Credentials) -> bool:
        """Return whether the file has changed since: then a retry is worthwhile."""
        try:
            return credentials.authorization != f"Bearer {self._token.read().decode().strip()}"
        except (OSError, UnicodeDecodeError):
            return False


# --- access -----------------------------------------------------------------------------------------------


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to connect to an API server.

    `namespace` is the default namespace. `proxy` is a URL; `server_name` is the name that the server's
    certificate must have, if that is not the host of `url`; `headers` are sent with every request.
    """

    url: str
    tls: TlsConfig
    credential_source: CredentialSource
    namespace: str = "default"
    server_name: str = ""
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Reject invalid addresses before any connection is made."""
        for what, url in (("server", self.url), *([("proxy", self.proxy)] if self.proxy else [])):
            if not url.startswith(("https://", "http://")):
                raise AccessError(f"invalid {what} address {url!r}; use https://… or http://…")


def token_access(url: str, token: str, authority: PemSource = b"") -> Access:
    """Return the access to a server with a known address, token and authority (PEM text, or its file)."""
    source = StaticCredentials(Credentials(f"Bearer {token}" if token else ""))
    return Access(url=url, tls=TlsConfig(authority=authority), credential_source=source)


# --- proxies ----------------------------------------------------------------------------------------------

_PROXY_SUFFIX: Final = "_proxy"
"""How environment variables that name proxies end, in upper or lower case."""


def proxy_for(url: str) -> str:
    """Return the proxy for a server, by `HTTPS_PROXY`, `NO_PROXY` and so on.

    Empty if the server is reached directly, as everything on this machine is.
    """
    parts = urlsplit(url)
    if _is_loopback(parts.hostname or "") or not any(n.lower().endswith(_PROXY_SUFFIX) for n in os.environ):
        return ""
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415 - slow, rarely needed

    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return getproxies_environment().get(parts.scheme, "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
