"""Whom we trust, and what we show: TLS contexts that follow the files they are made from."""

import os
import ssl
from pathlib import Path
from typing import Final

import msgspec

Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which file it is: a replaced one differs in some of it."""


class Watched:
    """The content of a file, read again when it has changed; or bytes, which never do."""

    def __init__(self, source: bytes | Path) -> None:
        self.source: Final = source
        self._content = source if isinstance(source, bytes) else b""
        self._stamp: Stamp | None = None

    def read(self) -> bytes:
        """What is there now; OSError if nothing can be read."""
        if isinstance(self.source, Path):
            found = self.source.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._content, self._stamp = self.source.read_bytes(), stamp
        return self._content


Pem = bytes | Path
"""Certificates or a key: as text, or in a file that may be replaced. Empty: none."""


class Certificate(msgspec.Struct, frozen=True):
    """A certificate to show, with its chain, and the key to it."""

    chain: bytes = b""
    key: bytes = b""


NO_CERTIFICATE: Final = Certificate()


class Tls:
    """Makes contexts, and keeps the last one as long as nothing it was made from changes.

    Without an authority those of the system are trusted. `insecure` trusts everybody.
    """

    def __init__(
        self, *, authority: Pem = b"", chain: Pem = b"", key: Pem = b"", insecure: bool = False
    ) -> None:
        self._authority: Final = Watched(authority)
        self._chain: Final = Watched(chain)
        self._key: Final = Watched(key)
        self._insecure: Final = insecure
        self._made: tuple[tuple[bytes, Certificate], ssl.SSLContext] | None = None

    def context(self, shown: Certificate = NO_CERTIFICATE) -> ssl.SSLContext:
        """A context for now, which shows the certificate that is given, else our own.

        OSError if a file cannot be read, ValueError or ssl.SSLError if there is nonsense in it.
        """
        certificate = shown if shown.chain else Certificate(self._chain.read(), self._key.read())
        authority = self._authority.read()
        if not authority and isinstance(self._authority.source, Path):
            raise ValueError(f"{self._authority.source} is empty")  # and does not mean the system's
        parts = (authority, certificate)
        if self._made is None or self._made[0] != parts:
            self._made = (parts, _context(*parts, insecure=self._insecure))
        return self._made[1]


def _context(authority: bytes, certificate: Certificate, *, insecure: bool) -> ssl.SSLContext:
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the authorities of the system take long to read
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        trusted = authority.decode("ascii", "ignore")  # whatever is not ASCII is a comment
        context = ssl.create_default_context(cadata=trusted or None)
        # Python 3.13 began to refuse authorities that lack fields which clusters in use never had.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate.chain:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Show a certificate. Python takes them from files only: this one is there for a moment, for us alone."""
    import tempfile  # noqa: PLC0415 - slow, and few show certificates

    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.chain + b"\n" + certificate.key)
        file.flush()
        os.fsync(file.fileno())
        context.load_cert_chain(file.name, password=_no_password)


def _no_password() -> str:
    """Keep Python from asking at the terminal."""
    raise ValueError("the key of the client certificate is encrypted")
