"""Certificates: an authority of our own, and what it certifies.

kubectl sends no token without TLS, so the API on loopback has TLS too. The authority's certificate goes into
the kubeconfig; nobody else trusts it.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 365
RENEW_DAYS: Final = 30
"""A certificate that is valid for fewer days than this is made anew."""

_EARLIER: Final = timedelta(hours=1)
"""Clocks differ: a certificate is valid a little before it is made."""


class Pair:
    """A certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate, self.key = certificate, key

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> "Pair":
        """A pair from its texts; ValueError if they are none."""
        private = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("not a key on an elliptic curve")  # noqa: TRY004 - like all other bad texts
        return cls(x509.load_pem_x509_certificate(certificate), private)

    @property
    def certificate_text(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_text(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def lasts(self, now: datetime) -> bool:
        """Whether it need not be renewed yet; one of a clock that was ahead is of no use."""
        begun = self.certificate.not_valid_before_utc <= now
        return begun and self.certificate.not_valid_after_utc - now > timedelta(days=RENEW_DAYS)

    def is_for(self, hosts: Iterable[str]) -> bool:
        """Whether it vouches for all these names and addresses."""
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        return {_name(host) for host in hosts} <= set(names)

    def is_signed_by(self, authority: "Pair") -> bool:
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
        except Exception:  # noqa: BLE001 - many are raised, and all mean no
            return False
        return True


def make_authority(now: datetime) -> Pair:
    """An authority that may certify servers, and nothing below itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"shoal {now:%Y-%m-%d}")])
    builder = _builder(name, name, key, now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Pair(_with_usage(builder, authority=True).sign(key, hashes.SHA256()), key)


def make_server(authority: Pair, hosts: Iterable[str], now: datetime) -> Pair:
    """A certificate for a server under these names and addresses; UnicodeError if one cannot be."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shoal")])
    builder = _builder(name, authority.certificate.subject, key, now, SERVER_DAYS)
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(names, critical=False).add_extension(usage, critical=False)
    builder = builder.add_extension(issuer, critical=False)
    return Pair(_with_usage(builder, authority=False).sign(authority.key, hashes.SHA256()), key)


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now.astimezone(UTC) - _EARLIER,
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


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())
