"""What clients may call a server: its certificate must be for every name and address that leads to it.

What lets a client in: the authority and the certificate of the API, a token, and a kubeconfig with both.

All of it lies in one directory that only its owner may enter, is used again after a restart, and is made anew
when it is missing or would soon expire. Every file is written whole or not at all.
"""

import base64
import fcntl
import ipaddress
import json
import os
import secrets
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from yaml import YAMLError

from shoal.api import manifest
from shoal.apiserver.certificates import Pair, make_authority, make_server

LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""What stands for every address of the machine, and where it is reached from the machine itself."""

_ADDRESS_OF: Final = 0x8915
"""SIOCGIFADDR: the address of an interface, in bytes 20 to 24 of the answer."""
_REQUEST: Final = struct.Struct("256s")
_SIXES: Final = Path("/proc/net/if_inet6")


def names_of(host: str) -> list[str]:
    """The host that is listened on; of all addresses at once, each of them, and the machine's own name."""
    if host not in LOOPBACK:
        return [host]
    found = [*_own_name(), *_fours(), *(_sixes() if host == "::" else ())]
    return list(dict.fromkeys(found))


def _own_name() -> Iterator[str]:
    name = socket.gethostname()
    with suppress(UnicodeError):  # what the network has no word for, nobody will ask for
        name.encode("idna")
        yield name


def _fours() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, interface in socket.if_nameindex():
            with suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(asking, _ADDRESS_OF, _REQUEST.pack(interface.encode()))
                yield socket.inet_ntoa(answer[20:24])


def _sixes() -> Iterator[str]:
    with suppress(OSError):  # a machine that has none at all
        for line in _SIXES.read_text("ascii").splitlines():
            yield str(ipaddress.IPv6Address(int(line.split()[0], 16)))


ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
"""Names and addresses that every certificate is for."""

_NAME: Final = "shoal"
"""What a kubeconfig calls the cluster, its user and the context of both."""

_PRIVATE_DIRECTORY: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_TOKEN_BYTES: Final = 32


class CredentialsError(Exception):
    """Raised when credentials cannot be read or written; says which file, and what to do about it."""


class Credentials:
    """The credentials of one directory."""

    def __init__(self, directory: Path, hosts: Iterable[str] = ()) -> None:
        """Use what is there, for a server on `hosts`, and make what is missing."""
        self.directory: Final = directory
        self.hosts: Final = tuple(dict.fromkeys((*ALWAYS, *hosts)))
        with _told(directory):
            directory.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            directory.chmod(_PRIVATE_DIRECTORY)
            self.token: Final = self._token()
            self.renew(datetime.now(UTC))

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.directory / "ca.crt"

    @property
    def certificate(self) -> Path:
        return self.directory / "server.crt"

    @property
    def key(self) -> Path:
        return self.directory / "server.key"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def renew(self, now: datetime) -> bool:
        """Make the certificates anew that are missing or would soon expire; whether any was."""
        with _told(self.directory):
            authority = self._pair(self.authority)
            if authority is None or not authority.lasts(now):
                authority = make_authority(now)
                self._keep(self.authority, authority)
                self._refresh_kubeconfig()
            server = self._pair(self.certificate)
            if server and server.lasts(now) and server.is_for(self.hosts) and server.is_signed_by(authority):
                return False
            self._keep(self.certificate, make_server(authority, self.hosts, now))
            return True

    def write_kubeconfig(self, url: str) -> Path:
        """Write a kubeconfig with which kubectl, and everybody else, finds the API and is let in."""
        with _told(self.authority):
            authority = base64.b64encode(self.authority.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": _NAME, "cluster": {"server": url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": _NAME, "user": {"token": self.token}}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
            "current-context": _NAME,
        }
        with _told(self.kubeconfig):
            _write(self.kubeconfig, f"{json.dumps(config, indent=2)}\n".encode())
        return self.kubeconfig

    def last_port(self) -> int:
        """The port that the last kubeconfig names, for a server whose clients outlive it; 0 without one."""
        try:
            return urlsplit(self._last_url()).port or 0
        except ValueError:
            return 0

    def _last_url(self) -> str:
        """The address in the last kubeconfig, which kubectl may have changed; nothing if it has none."""
        try:
            config: Any = next(manifest.values(self.kubeconfig.read_text()))
            clusters = {entry["name"]: entry["cluster"] for entry in config["clusters"]}
            return str(clusters[_NAME]["server"])
        except (OSError, ValueError, LookupError, TypeError, StopIteration, YAMLError):
            return ""

    def _refresh_kubeconfig(self) -> None:
        """Whoever reads the kubeconfig must trust the authority that there is now."""
        if url := self._last_url():
            self.write_kubeconfig(url)

    def _token(self) -> str:
        path = self.directory / "token"
        if not path.exists():
            _write(path, secrets.token_urlsafe(_TOKEN_BYTES).encode())
        path.chmod(_PRIVATE_FILE)
        token = path.read_text("ascii").strip()
        if not token:
            raise CredentialsError(f"{path} is empty: remove it, and a new token is made")
        return token

    def _pair(self, certificate: Path) -> Pair | None:
        """What is there, if it is there; a broken pair is not overwritten unasked."""
        key = certificate.with_suffix(".key")
        if not certificate.exists() or not key.exists():
            return None
        key.chmod(_PRIVATE_FILE)
        try:
            return Pair.read(certificate.read_bytes(), key.read_bytes())
        except ValueError as error:
            raise CredentialsError(
                f"{certificate} and {key.name} are not a certificate and its key ({error}): "
                "remove both, and new ones are made"
            ) from None

    def _keep(self, certificate: Path, pair: Pair) -> None:
        """Write the key first: a certificate without its key is of no use."""
        certificate.unlink(missing_ok=True)
        _write(certificate.with_suffix(".key"), pair.key_text)
        _write(certificate, pair.certificate_text)


def _write(path: Path, text: bytes) -> None:
    """Write a file that only its owner can read: all of it, or none."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def _told(where: Path) -> Iterator[None]:
    """Say in one line what the system refuses."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{where} has a file that is no text: {error}") from None
    except UnicodeError as error:
        raise CredentialsError(f"no certificate can be made for such a host: {error}") from None
    except OSError as error:
        raise CredentialsError(
            f"cannot keep credentials in {error.filename or where}: {error.strerror or error}"
        ) from None
