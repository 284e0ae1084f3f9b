"""Certificates for tests, issued by an authority of the test."""

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BEGIN = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_END = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, in PEM."""

    chain: bytes
    key: bytes


class CertificateAuthority:
    """A certificate authority."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name(name)
        builder = _builder(self._name, self._name, self._key)
        self._certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, *names: str) -> KeyPair:
        """Issue a certificate for a server at 127.0.0.1 with these further names."""
        names_and_address: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        names_and_address.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        extension = x509.SubjectAlternativeName(names_and_address)
        return self._issue(_make_name("server"), ExtendedKeyUsageOID.SERVER_AUTH, extension)

    def client(self, user: str, group: str, password: bytes = b"") -> KeyPair:
        """Issue a client certificate of a Kubernetes user and group."""
        return self._issue(_make_name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, password=password)

    def _issue(
        self,
        name: x509.Name,
        usage: x509.ObjectIdentifier,
        *extensions: x509.ExtensionType,
        password: bytes = b"",
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, self._name, key)
        for extension in (x509.ExtendedKeyUsage([usage]), *extensions):
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key, password))


def _make_name(name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
    )


def _pem(key: ec.EllipticCurvePrivateKey, password: bytes) -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
