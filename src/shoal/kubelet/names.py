"""Loopback addresses of host names: each name its own, and the same again after a restart.

A home has one of the networks 127.1/16 to 127.254/16: its first choice by a hash of its path, or the next
that no other home claims. It keeps that as long as a name has an address in it. A name has its first choice
there by a hash too, or the next that is free. What was given is on the disk before anybody uses it.

Which host names there are, whose they are, and what address each has.

A name is there as long as a pod has it, an Indexed Job will have it, or the service exists that it belongs
to. So a pod that is made again has the address that it had, and its name resolves before it has started.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from shoal.cluster.node_status import HOST_IP
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.resources import Object
from shoal.kubelet.shim.records import write_whole

_DOMAIN: Final = "svc.cluster.local"
_STALE: Final = 256
"""So many names that are gone may stay in a file."""


class Name(NamedTuple):
    """A host name: that of a pod, or of a place in a service that pods take one after another."""

    namespace: str
    host: str
    subdomain: str = ""


def line(name: Name, address: str, seen_from: str, others: tuple[str, ...] = ()) -> str:
    """The line of a name in the file of a namespace; empty if the name is of no use there."""
    at_home = name.namespace == seen_from
    if not name.subdomain:
        return f"{address} {' '.join((name.host, *others))}\n" if at_home else ""
    plain = f"{name.host}.{name.subdomain}"
    inside = f"{plain}.{name.namespace}"
    short = (plain, *others) if at_home else ()
    return f"{address} {' '.join((*short, inside, f'{inside}.svc', f'{inside}.{_DOMAIN}'))}\n"


class Hosts:
    """The hosts files of a home."""

    def __init__(self, directory: Path, always: str) -> None:
        """`always` are the lines that every file begins with."""
        self._directory: Final = directory
        self._always: Final = always if always.endswith("\n") or not always else f"{always}\n"
        self._entries: Final[dict[Name, tuple[str, tuple[str, ...]]]] = {}
        self._files: Final[dict[str, _File]] = {}

    def path(self, namespace: str) -> Path:
        """The file of a namespace; it is there after the next `write`."""
        if namespace not in self._files:
            self._files[namespace] = _File(self._directory / namespace)
        return self._directory / namespace

    def put(self, name: Name, address: str, others: tuple[str, ...] = ()) -> None:
        """Have a name resolve to an address; `others` are what else it is called in its namespace."""
        entry = (address, others)
        if self._entries.get(name) == entry:
            return
        moved = name in self._entries
        self._entries[name] = entry
        for namespace, file in self._files.items():
            file.add(name, line(name, address, namespace, others), moved=moved)

    def drop(self, name: Name) -> None:
        """A name is gone."""
        if self._entries.pop(name, None) is not None:
            for file in self._files.values():
                file.stale.add(name)

    def write(self) -> None:
        """Bring the files up to date."""
        for namespace, file in self._files.items():
            if file.whole or len(file.stale) > max(_STALE, len(self._entries)):
                file.rewrite("".join((self._always, *self._lines(namespace))))
            else:
                file.append()

    def _lines(self, namespace: str) -> Iterator[str]:
        for name, (address, others) in self._entries.items():
            yield line(name, address, namespace, others)


class _File:
    """One file, and what is to be done to it."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._new: Final[list[str]] = []
        self.stale: Final[set[Name]] = set()
        self.whole = True
        """It has to be written from the beginning."""

    def add(self, name: Name, text: str, *, moved: bool) -> None:
        self.whole = self.whole or moved or name in self.stale
        self._new.append(text)

    def append(self) -> None:
        if text := "".join(self._new):
            with self._path.open("a") as file:
                file.write(text)
        self._new.clear()

    def rewrite(self, text: str) -> None:
        """Write it in place, with no moment at which it is empty."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            data = text.encode()
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)
        self._new.clear()
        self.stale.clear()
        self.whole = False


_NETWORKS: Final = 254
_LAST: Final = 0xFFFE
_ENDS: Final = (0, 255)
"""Last parts of addresses that some programs take for networks."""


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


_LOG: Final = logging.getLogger(__name__)
_MOST_TO_COME: Final = 4096
"""Of how many indices of a Job the names are known before there are pods."""
_MOST_PEERS: Final = 1024
"""Of how many hosts the addresses fit into one variable."""

_Holder = tuple[str, Key]


def name_of(pod: Object) -> Name:
    """The name that a pod's address belongs to."""
    metadata, spec = pod["metadata"], pod["spec"]
    if spec.get("subdomain"):
        return Name(metadata["namespace"], spec.get("hostname") or metadata["name"], spec["subdomain"])
    return Name(metadata["namespace"], metadata["name"])


def other_names(pod: Object) -> tuple[str, ...]:
    """What else a pod is called among its neighbours."""
    called = (pod["metadata"]["name"], pod["spec"].get("hostname", ""))
    return tuple(one for one in dict.fromkeys(called) if one and one != name_of(pod).host)


def names_to_come(job: Object) -> Iterator[Name]:
    """The names of the pods that an Indexed Job has, or will have."""
    spec, metadata = job["spec"], job["metadata"]
    subdomain = spec["template"]["spec"].get("subdomain")
    if spec.get("completionMode") == "Indexed" and subdomain:
        for index in range(min(spec.get("completions") or 0, _MOST_TO_COME)):
            yield Name(metadata["namespace"], f"{metadata['name']}-{index}", subdomain)


class Directory:
    """The names of a home."""

    def __init__(self, home: Path, always: str) -> None:
        """`always` are the lines that every hosts file begins with."""
        self._addresses: Final = Addresses(home / "addresses.json")
        self._hosts: Final = Hosts(home / "hosts", always)
        self._held: Final[dict[_Holder, dict[Name, tuple[str, ...]]]] = {}
        self._holders: Final[defaultdict[Name, set[_Holder]]] = defaultdict(set)
        self._services: Final[set[Key]] = set()
        self._changed = True
        self._settling: Final = asyncio.Lock()

    # --- hearing ------------------------------------------------------------------------------------------

    def hear_of_pods(self, changes: Sequence[Change[Object]]) -> None:
        """Pods came, changed or went."""
        for change in changes:
            names = {name_of(change.item): other_names(change.item)} if isinstance(change, Put) else {}
            self._hold(("pod", change.key), names)

    def hear_of_jobs(self, changes: Sequence[Change[Object]]) -> None:
        """Jobs came, changed or went."""
        for change in changes:
            names = names_to_come(change.item) if isinstance(change, Put) else ()
            self._hold(("job", change.key), {name: () for name in names if self._can_wait(name)})

    def _can_wait(self, name: Name) -> bool:
        """Whether a name may have an address before it has a pod: pods that come must find some free."""
        return name in self._addresses or self._addresses.plenty

    def hear_of_services(self, changes: Sequence[Change[Object]]) -> None:
        """Services came, changed or went."""
        for change in changes:
            if isinstance(change, Put):
                self._services.add(change.key)
            else:
                self._services.discard(change.key)
                self.tidy(change.key)

    def tidy(self, service: Key | None = None) -> None:
        """Give up the names that nobody holds, of one service or of all."""
        self._let_go(
            name
            for name in self._addresses.names()
            if service is None or (name.namespace, name.subdomain) == service
        )

    def _hold(self, holder: _Holder, names: dict[Name, tuple[str, ...]]) -> None:
        before = self._held.get(holder, {})
        if names == before:
            return
        self._held[holder] = names
        if not names:
            del self._held[holder]
        for name, others in names.items():
            self._holders[name].add(holder)
            self._changed = self._changed or name not in self._addresses
            try:
                self._hosts.put(name, self._addresses.of(name), others)
            except FullError as problem:
                _LOG.warning("%s has no address: %s", ".".join(filter(None, name)), problem)
        for name in before.keys() - names.keys():
            self._holders[name].discard(holder)
        self._let_go(before.keys() - names.keys())

    def _let_go(self, names: Iterable[Name]) -> None:
        for name in list(names):
            if self._holders.get(name) or (name.namespace, name.subdomain) in self._services:
                continue
            self._holders.pop(name, None)
            self._addresses.release(name)
            self._hosts.drop(name)

    # --- asking -------------------------------------------------------------------------------------------

    def address(self, pod: Object) -> str:
        """The address of a pod; it is safe to use after `settled`."""
        return HOST_IP if pod["spec"].get("hostNetwork") else self._addresses.of(name_of(pod))

    def peers(self, pod: Object) -> dict[str, str]:
        """The hosts of a pod's service and their addresses, as far as they are known; the first by name."""
        me = name_of(pod)
        if not me.subdomain:
            return {}
        service = me.namespace, me.subdomain
        names = [name for name in self._addresses.names() if (name.namespace, name.subdomain) == service]
        return {name.host: self._addresses.of(name) for name in sorted(names)[:_MOST_PEERS]}

    def hosts_file(self, namespace: str) -> Path:
        """The hosts file of a namespace; it is there after `settled`."""
        return self._hosts.path(namespace)

    async def settled(self) -> None:
        """Come back when all that was heard of is on the disk; who waits together is served together."""
        async with self._settling:
            if self._changed:
                await self._save()
            self._hosts.write()

    async def _save(self) -> None:
        self._changed = False
        try:
            await asyncio.to_thread(self._addresses.save, self._addresses.text())
        except BaseException:
            self._changed = True
            raise
