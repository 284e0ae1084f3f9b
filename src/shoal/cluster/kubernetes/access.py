"""Files that others replace while we run: tokens and certificates expire, and new ones are put in place.

What it takes to reach an API server: where it is, whom to trust, and who we are.
"""

from typing import Final, Protocol

import msgspec

from shoal.cluster.errors import UnavailableError
from shoal.cluster.kubernetes.tls import NO_CERTIFICATE, Certificate, Pem, Tls, Watched


class AccessError(UnavailableError):
    """Raised when it cannot be found out how to reach a cluster, or as whom."""


class Credentials(msgspec.Struct, frozen=True):
    """Who we are, for one request: a header, a certificate, both or neither."""

    authorization: str = ""
    certificate: Certificate = NO_CERTIFICATE


class Identity(Protocol):
    """Somebody whose credentials may change with time."""

    async def credentials(self) -> Credentials:
        """Those that are good now."""

    def refused(self, credentials: Credentials) -> bool:
        """Learn that the server does not accept these; whether it is worth asking for others."""


class Constant:
    """Somebody who has the same credentials for ever."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials: Final = credentials

    def at_once(self) -> Credentials:
        """Those that are good now, for who cannot wait."""
        return self._credentials

    async def credentials(self) -> Credentials:
        return self._credentials

    def refused(self, credentials: Credentials) -> bool:
        return credentials != self._credentials


class TokenFile:
    """Somebody whose token is in a file, which others replace before the token expires."""

    def __init__(self, path: Pem, certificate: Certificate = NO_CERTIFICATE) -> None:
        self._token: Final = Watched(path)
        self._certificate: Final = certificate

    def at_once(self) -> Credentials:
        """Those that are good now, for who cannot wait."""
        try:
            token = self._token.read().decode().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise AccessError(f"the token cannot be read: {problem}") from problem
        return Credentials(f"Bearer {token}", self._certificate)

    async def credentials(self) -> Credentials:
        return self.at_once()

    def refused(self, credentials: Credentials) -> bool:
        """Worth another try if the file has changed since."""
        try:
            return credentials.authorization != f"Bearer {self._token.read().decode().strip()}"
        except (OSError, UnicodeDecodeError):
            return False


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A way to an API server.

    `namespace` is the one that is meant where none is said. `proxy` is a URL, `server_name` what the
    certificate of the server must say if that is not the host of `url`; `headers` go with every request.
    """

    url: str
    tls: Tls
    identity: Identity
    namespace: str = "default"
    server_name: str = ""
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Complain of addresses that lead nowhere before anybody goes there."""
        for what, url in (("server", self.url), *([("proxy", self.proxy)] if self.proxy else [])):
            if not url.startswith(("https://", "http://")):
                raise AccessError(f"the address of the {what}, {url!r}, is not https://… or http://…")


def with_token(url: str, token: str, authority: Pem = b"") -> Access:
    """The way to a server whose address, token and authority (PEM text, or a file of it) are known."""
    who = Constant(Credentials(f"Bearer {token}" if token else ""))
    return Access(url=url, tls=Tls(authority=authority), identity=who)
