"""Credentials of the embedded API: a CA, a server certificate, a bearer token, and a kubeconfig with them.

kubectl sends no token without TLS, so the API on loopback has TLS too. The CA certificate is in the
kubeconfig; nothing else trusts it. The server certificate covers every name and address of the server.

All files are in one directory with mode 0700, are reused after a restart, and are replaced when they are
missing or about to expire. Every file is written atomically.
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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from yaml import YAMLError

from shoal.api import manifest

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 365
RENEW_DAYS: Final = 30
"""A certificate with fewer remaining days is replaced."""

_CLOCK_SKEW: Final = timedelta(hours=1)
"""A certificate is valid from this long before its creation, as clocks differ."""


class KeyPair:
    """A certificate and its private key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate, self.key = certificate, key

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> "KeyPair":
        """Read a pair from PEM; ValueError if it is invalid."""
        private = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("not a key on an elliptic curve")  # noqa: TRY004 - as for other invalid PEM
        return cls(x509.load_pem_x509_certificate(certificate), private)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def is_current(self, now: datetime) -> bool:
        """Whether the certificate is valid and need not be renewed yet."""
        valid = self.certificate.not_valid_before_utc <= now
        return valid and self.certificate.not_valid_after_utc - now > timedelta(days=RENEW_DAYS)

    def covers(self, hosts: Iterable[str]) -> bool:
        """Whether the certificate is for all these names and addresses."""
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        return {_general_name(host) for host in hosts} <= set(names)

    def is_signed_by(self, authority: "KeyPair") -> bool:
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
        except Exception:  # noqa: BLE001 - many types are raised, all mean no
            return False
        return True


def create_authority(now: datetime) -> KeyPair:
    """Create a CA that may sign server certificates, but no other CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"shoal {now:%Y-%m-%d}")])
    builder = _builder(name, name, key, now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return KeyPair(_with_usage(builder, authority=True).sign(key, hashes.SHA256()), key)


def create_server_certificate(authority: KeyPair, hosts: Iterable[str], now: datetime) -> KeyPair:
    """Create a server certificate for names and addresses; UnicodeError if a name is invalid."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shoal")])
    builder = _builder(name, authority.certificate.subject, key, now, SERVER_DAYS)
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(names, critical=False).add_extension(usage, critical=False)
    builder = builder.add_extension(issuer, critical=False)
    return KeyPair(_with_usage(builder, authority=False).sign(authority.key, hashes.SHA256()), key)


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now.astimezone(UTC) - _CLOCK_SKEW,
        not_valid_after=now.astimezone(UTC) + timedelta(days=days),
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _with_usage(builder: x509.CertificateBuilder, *, authority: bool) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return builder.add_extension(usage, critical=True)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Wildcard addresses, and the loopback address by which the machine itself reaches them."""

_SIOCGIFADDR: Final = 0x8915
"""ioctl that returns the address of an interface, in bytes 20 to 24 of the result."""
_IFREQ: Final = struct.Struct("256s")
_IPV6_FILE: Final = Path("/proc/net/if_inet6")


def certificate_hosts(host: str) -> list[str]:
    """Return the hosts to certify: the host itself, or for a wildcard all addresses and the hostname."""
    if host not in LOOPBACK:
        return [host]
    found = [*_host_name(), *_ipv4_addresses(), *(_ipv6_addresses() if host == "::" else ())]
    return list(dict.fromkeys(found))


def _host_name() -> Iterator[str]:
    name = socket.gethostname()
    with suppress(UnicodeError):  # not a valid DNS name, so no client uses it
        name.encode("idna")
        yield name


def _ipv4_addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            with suppress(OSError):  # the interface has no address
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, _IFREQ.pack(interface.encode()))
                yield socket.inet_ntoa(answer[20:24])


def _ipv6_addresses() -> Iterator[str]:
    with suppress(OSError):  # the machine has no IPv6
        for line in _IPV6_FILE.read_text("ascii").splitlines():
            yield str(ipaddress.IPv6Address(int(line.split()[0], 16)))


DEFAULT_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""Names and addresses of every certificate."""

_CONTEXT_NAME: Final = "shoal"
"""Name of the cluster, the user and the context in the kubeconfig."""

_PRIVATE_DIRECTORY: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_TOKEN_BYTES: Final = 32


class CredentialsError(Exception):
    """Raised when credentials cannot be read or written; the message names the file and the remedy."""


class Credentials:
    """The credentials in one directory."""

    def __init__(self, directory: Path, hosts: Iterable[str] = ()) -> None:
        """Reuse the files of the directory for a server on `hosts`, and create missing ones."""
        self.directory: Final = directory
        self.hosts: Final = tuple(dict.fromkeys((*DEFAULT_HOSTS, *hosts)))
        with _credentials_errors(directory):
            directory.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            directory.chmod(_PRIVATE_DIRECTORY)
            self.token: Final = self._token()
            self.renew(datetime.now(UTC))

    @property
    def authority(self) -> Path:
        """Path of the CA certificate."""
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
        """Replace certificates that are missing or about to expire; returns whether the server's changed."""
        with _credentials_errors(self.directory):
            authority = self._read_pair(self.authority)
            if authority is None or not authority.is_current(now):
                authority = create_authority(now)
                self._write_pair(self.authority, authority)
                self._refresh_kubeconfig()
            server = self._read_pair(self.certificate)
            if (
                server
                and server.is_current(now)
                and server.covers(self.hosts)
                and server.is_signed_by(authority)
            ):
                return False
            self._write_pair(self.certificate, create_server_certificate(authority, self.hosts, now))
            return True

    def write_kubeconfig(self, url: str) -> Path:
        """Write a kubeconfig with the URL, the CA certificate and the token."""
        with _credentials_errors(self.authority):
            authority = base64.b64encode(self.authority.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": _CONTEXT_NAME, "cluster": {"server": url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": _CONTEXT_NAME, "user": {"token": self.token}}],
            "contexts": [
                {"name": _CONTEXT_NAME, "context": {"cluster": _CONTEXT_NAME, "user": _CONTEXT_NAME}}
            ],
            "current-context": _CONTEXT_NAME,
        }
        with _credentials_errors(self.kubeconfig):
            _write(self.kubeconfig, f"{json.dumps(config, indent=2)}\n".encode())
        return self.kubeconfig

    def last_port(self) -> int:
        """Return the port in the last kubeconfig, so that clients survive a restart; 0 without one."""
        try:
            return urlsplit(self._last_url()).port or 0
        except ValueError:
            return 0

    def _last_url(self) -> str:
        """Return the URL in the last kubeconfig, which kubectl may have edited; empty without one."""
        try:
            config: Any = next(manifest.parse_yaml(self.kubeconfig.read_text()))
            clusters = {entry["name"]: entry["cluster"] for entry in config["clusters"]}
            return str(clusters[_CONTEXT_NAME]["server"])
        except (OSError, ValueError, LookupError, TypeError, StopIteration, YAMLError):
            return ""

    def _refresh_kubeconfig(self) -> None:
        """Rewrite the kubeconfig with the current CA certificate."""
        if url := self._last_url():
            self.write_kubeconfig(url)

    def _token(self) -> str:
        path = self.directory / "token"
        if not path.exists():
            _write(path, secrets.token_urlsafe(_TOKEN_BYTES).encode())
        path.chmod(_PRIVATE_FILE)
        token = path.read_text("ascii").strip()
        if not token:
            raise CredentialsError(f"{path} is empty; remove it, and a new token is created")
        return token

    def _read_pair(self, certificate: Path) -> KeyPair | None:
        """Read a certificate and key if both exist; a damaged pair is an error, and not overwritten."""
        key = certificate.with_suffix(".key")
        if not certificate.exists() or not key.exists():
            return None
        key.chmod(_PRIVATE_FILE)
        try:
            return KeyPair.read(certificate.read_bytes(), key.read_bytes())
        except ValueError as error:
            raise CredentialsError(
                f"{certificate} and {key.name} are not a valid certificate and key ({error}); "
                "remove both, and new ones are created"
            ) from None

    def _write_pair(self, certificate: Path, pair: KeyPair) -> None:
        """Write key and certificate, the key first: a certificate without its key is useless."""
        certificate.unlink(missing_ok=True)
        _write(certificate.with_suffix(".key"), pair.key_pem)
        _write(certificate, pair.certificate_pem)


def _write(path: Path, text: bytes) -> None:
    """Write a file with mode 0600 atomically."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _credentials_errors(where: Path) -> Iterator[None]:
    """Convert errors of the system to CredentialsError, with a message of one line."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{where} has a file that is not text: {error}") from None
    except UnicodeError as error:
        raise CredentialsError(f"cannot create a certificate for this host: {error}") from None
    except OSError as error:
        raise CredentialsError(
            f"cannot read or write credentials in {error.filename or where}: {error.strerror or error}"
        ) from None
