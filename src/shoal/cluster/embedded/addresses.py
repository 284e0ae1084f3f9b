"""What clients may call a server: its certificate must be for every name and address that leads to it."""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

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
