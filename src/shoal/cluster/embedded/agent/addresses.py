"""Loopback addresses of host names: each name its own, and the same again after a restart.

A home has one of the networks 127.1/16 to 127.254/16: its first choice by a hash of its path, or the next
that no other home claims. It keeps that as long as a name has an address in it. A name has its first choice
there by a hash too, or the next that is free. What was given is on the disk before anybody uses it.
"""

import contextlib
import hashlib
import os
import socket
import weakref
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from shoal.cluster.embedded.shim.files import write_whole

_NETWORKS: Final = 254
_LAST: Final = 0xFFFE
_ENDS: Final = (0, 255)
"""Last parts of addresses that some programs take for networks."""


class Name(NamedTuple):
    """A host name: that of a pod, or of a place in a service that pods take one after another."""

    namespace: str
    host: str
    subdomain: str = ""


class FullError(Exception):
    """Raised when a network has no address left."""


class _Kept(msgspec.Struct):
    """As it is on the disk."""

    network: int
    names: list[tuple[str, str, str, int]] = []


class Addresses:
    """Who has which address."""

    def __init__(self, path: Path) -> None:
        """Read what was given before; a file that cannot be read is as none, and is written anew."""
        self._path: Final = path
        kept = _Kept(_hash(str(path.parent)) % _NETWORKS + 1)
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        self._network: Final = self._claimed(kept.network, others=not kept.names)
        self._numbers: Final = {Name(*name): number for *name, number in kept.names}
        self._taken: Final = set(self._numbers.values())

    def __contains__(self, name: Name) -> bool:
        return name in self._numbers

    def names(self) -> list[Name]:
        """All names that have an address."""
        return list(self._numbers)

    def of(self, name: Name) -> str:
        """The address of a name, which gets one if it has none; FullError if there is none left."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._choose(name)
            self._taken.add(number)
        return f"127.{self._network}.{number >> 8}.{number & 0xFF}"

    @property
    def plenty(self) -> bool:
        """Whether most addresses are free."""
        return len(self._taken) < _LAST // 2

    def release(self, name: Name) -> None:
        """Nobody needs the name any more, if it has an address."""
        self._taken.discard(self._numbers.pop(name, 0))

    def text(self) -> bytes:
        """What is to be on the disk."""
        return msgspec.json.encode(_Kept(self._network, [(*name, n) for name, n in self._numbers.items()]))

    def save(self, text: bytes) -> None:
        """Write it down: all of it, or nothing."""
        write_whole(str(self._path), text, durable=True)

    def _claimed(self, first: int, *, others: bool) -> int:
        """The network of this home as long as this lives: its first choice, or one that is free."""
        for step in range(_NETWORKS if others else 1):
            network = (first - 1 + step) % _NETWORKS + 1
            with socket.socket(socket.AF_UNIX) as claim, contextlib.suppress(OSError):
                claim.bind(f"\0shoal-127.{network}")  # a name without a file: it goes with its owner
                weakref.finalize(self, os.close, claim.detach())
                return network
        return first

    def _choose(self, name: Name) -> int:
        first = _hash("/".join(name))
        for step in range(_LAST):
            number = (first + step) % _LAST + 1
            if number not in self._taken and number & 0xFF not in _ENDS:
                return number
        raise FullError(f"127.{self._network}.0.0/16 has no address left")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
