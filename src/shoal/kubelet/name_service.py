"""The name service of a home: host names of pods, their loopback addresses, and hosts files.

A home uses one of the networks 127.1/16 to 127.254/16: the preferred one by a hash of its path, or the next
that no other home uses. It keeps the network as long as any name has an address in it. Within it a name has a
preferred address, also by a hash, or the next free one. Allocations are on disk before they are used, and
survive restarts.

A name exists as long as a pod has it, a job is going to have a pod of that name (`JobKind.host_names`), or
the service of the name exists. So a recreated pod keeps its address, and its name resolves before the pod has
started.

Names resolve by a hosts file that is mounted in every container. Where that is not possible, fully qualified
names in the environment of a container are replaced by their addresses.
"""

import asyncio
import contextlib
import functools
import hashlib
import itertools
import logging
import os
import re
import socket
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from shoal.cluster.node_status import HOST_IP
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.resources import Object
from shoal.kinds.base import JobKind
from shoal.kubelet.shim.records import write_atomically

_DOMAIN: Final = "svc.cluster.local"
_MAX_STALE: Final = 256
"""Stale names that may stay in a file before it is rewritten."""
_NETWORKS: Final = 254
_LAST_HOST: Final = 0xFFFE
_RESERVED_OCTETS: Final = (0, 255)
"""Last octets that some programs treat as network or broadcast addresses."""
_LOG: Final = logging.getLogger(__name__)
_MAX_EXPECTED: Final = 5000
"""Names of one job that are allocated before there are pods: those of the largest DIJob."""
_MAX_PEERS: Final = 1024
"""Hosts whose addresses fit into one environment variable."""


class HostName(NamedTuple):
    """A host name: of a pod, or within a service, where successive pods may use it."""

    namespace: str
    host: str
    subdomain: str = ""


def hosts_line(name: HostName, address: str, viewer: str, aliases: tuple[str, ...] = ()) -> str:
    """The line of a name in the hosts file of the namespace `viewer`; empty if it does not resolve there."""
    at_home = name.namespace == viewer
    if not name.subdomain:
        return f"{address} {' '.join((name.host, *aliases))}\n" if at_home else ""
    plain = f"{name.host}.{name.subdomain}"
    inside = f"{plain}.{name.namespace}"
    short = (plain, *aliases) if at_home else ()
    return f"{address} {' '.join((*short, inside, f'{inside}.svc', f'{inside}.{_DOMAIN}'))}\n"


class HostsFiles:
    """The hosts files of a home, one per namespace."""

    def __init__(self, directory: Path, header: str) -> None:
        """`header` are the first lines of every file."""
        self._directory: Final = directory
        self._header: Final = header if header.endswith("\n") or not header else f"{header}\n"
        self._entries: Final[dict[HostName, tuple[str, tuple[str, ...]]]] = {}
        self._files: Final[dict[str, _HostsFile]] = {}

    def path(self, namespace: str) -> Path:
        """The file of a namespace; it exists after the next `write`."""
        if namespace not in self._files:
            self._files[namespace] = _HostsFile(self._directory / namespace)
        return self._directory / namespace

    def put(self, name: HostName, address: str, aliases: tuple[str, ...] = ()) -> None:
        """Map a name to an address; `aliases` are further names within its namespace."""
        entry = (address, aliases)
        if self._entries.get(name) == entry:
            return
        moved = name in self._entries
        self._entries[name] = entry
        for namespace, file in self._files.items():
            file.add(name, hosts_line(name, address, namespace, aliases), moved=moved)

    def drop(self, name: HostName) -> None:
        """Remove a name."""
        if self._entries.pop(name, None) is not None:
            for file in self._files.values():
                file.stale.add(name)

    def write(self) -> None:
        """Bring the files up to date."""
        for namespace, file in self._files.items():
            if file.needs_rewrite or len(file.stale) > max(_MAX_STALE, len(self._entries)):
                file.rewrite("".join((self._header, *self._lines(namespace))))
            else:
                file.append()

    def _lines(self, namespace: str) -> Iterator[str]:
        for name, (address, aliases) in self._entries.items():
            yield hosts_line(name, address, namespace, aliases)


class _HostsFile:
    """One hosts file and its pending changes."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._new: Final[list[str]] = []
        self.stale: Final[set[HostName]] = set()
        self.needs_rewrite = True
        """Whether appending is not enough."""

    def add(self, name: HostName, text: str, *, moved: bool) -> None:
        self.needs_rewrite = self.needs_rewrite or moved or name in self.stale
        self._new.append(text)

    def append(self) -> None:
        if text := "".join(self._new):
            with self._path.open("a") as file:
                file.write(text)
        self._new.clear()

    def rewrite(self, text: str) -> None:
        """Rewrite in place, so that the file is never empty and mounts of it stay valid."""
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
        self.needs_rewrite = False


class AddressesExhaustedError(Exception):
    """Raised when a network has no free address."""


class _SavedAddresses(msgspec.Struct):
    """The allocations as stored on disk."""

    network: int
    names: list[tuple[str, str, str, int]] = []


class AddressAllocator:
    """Allocates an address to each host name."""

    def __init__(self, path: Path) -> None:
        """Read earlier allocations; an unreadable file counts as empty and is overwritten."""
        self._path: Final = path
        saved = _SavedAddresses(_hash(str(path.parent)) % _NETWORKS + 1)
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            saved = msgspec.json.decode(path.read_bytes(), type=_SavedAddresses)
        self._network: Final = self._claim_network(saved.network, search=not saved.names)
        self._numbers: Final = {HostName(*name): number for *name, number in saved.names}
        self._taken: Final = set(self._numbers.values())

    def __contains__(self, name: HostName) -> bool:
        return name in self._numbers

    def names(self) -> list[HostName]:
        """All names that have an address."""
        return list(self._numbers)

    def allocate(self, name: HostName) -> str:
        """The address of a name, allocated if it has none; AddressesExhaustedError if none is free."""
        if name not in self._numbers:
            number = self._numbers[name] = self._choose_number(name)
            self._taken.add(number)
        return self[name]

    def __getitem__(self, name: HostName) -> str:
        number = self._numbers[name]
        return f"127.{self._network}.{number >> 8}.{number & 0xFF}"

    @property
    def has_spare(self) -> bool:
        """Whether most addresses are free."""
        return len(self._taken) < _LAST_HOST // 2

    def release(self, name: HostName) -> None:
        """Free the address of a name, if it has one."""
        self._taken.discard(self._numbers.pop(name, 0))

    def encode(self) -> bytes:
        """The contents of the file."""
        return msgspec.json.encode(
            _SavedAddresses(self._network, [(*name, n) for name, n in self._numbers.items()])
        )

    def save(self, data: bytes) -> None:
        """Write the file atomically."""
        write_atomically(str(self._path), data, durable=True)

    def _claim_network(self, first: int, *, search: bool) -> int:
        """Claim a network while this object lives: the preferred one or, with `search`, the next free one."""
        for step in range(_NETWORKS if search else 1):
            network = (first - 1 + step) % _NETWORKS + 1
            with socket.socket(socket.AF_UNIX) as claim, contextlib.suppress(OSError):
                claim.bind(f"\0shoal-127.{network}")  # an abstract socket: it is freed with its process
                weakref.finalize(self, os.close, claim.detach())
                return network
        return first

    def _choose_number(self, name: HostName) -> int:
        first = _hash("/".join(name))
        for step in range(_LAST_HOST):
            number = (first + step) % _LAST_HOST + 1
            if number not in self._taken and number & 0xFF not in _RESERVED_OCTETS:
                return number
        raise AddressesExhaustedError(f"127.{self._network}.0.0/16 has no free address")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


_Owner = tuple[str, Key]


def pod_host_name(pod: Object) -> HostName:
    """The name to which the address of a pod belongs."""
    metadata, spec = pod["metadata"], pod["spec"]
    if spec.get("subdomain"):
        return HostName(metadata["namespace"], spec.get("hostname") or metadata["name"], spec["subdomain"])
    return HostName(metadata["namespace"], metadata["name"])


def pod_aliases(pod: Object) -> tuple[str, ...]:
    """Further names of a pod within its namespace."""
    names = (pod["metadata"]["name"], pod["spec"].get("hostname", ""))
    return tuple(one for one in dict.fromkeys(names) if one and one != pod_host_name(pod).host)


@functools.lru_cache(maxsize=64)
def _qualified_names(namespace: str) -> re.Pattern[str]:
    """Finds whole fully qualified host names of a namespace; a final dot is part of the name."""
    label = "([-a-z0-9]+)"
    suffix = re.escape(f".{namespace}.{_DOMAIN}")
    return re.compile(rf"(?<![-.\w]){label}\.{label}{suffix}\.?(?![-.\w])", re.ASCII)


class NameService:
    """The host names of a home and their addresses."""

    def __init__(self, home: Path, header: str) -> None:
        """`header` are the first lines of every hosts file."""
        self._addresses: Final = AddressAllocator(home / "addresses.json")
        self._hosts: Final = HostsFiles(home / "hosts", header)
        self._names_by_owner: Final[dict[_Owner, dict[HostName, tuple[str, ...]]]] = {}
        self._owners: Final[defaultdict[HostName, set[_Owner]]] = defaultdict(set)
        self._services: Final[set[Key]] = set()
        self._dirty = True
        self._flush_lock: Final = asyncio.Lock()

    # --- changes ------------------------------------------------------------------------------------------

    def on_pod_changes(self, changes: Sequence[Change[Object]]) -> None:
        """Update the names of changed pods."""
        for change in changes:
            names = {pod_host_name(change.item): pod_aliases(change.item)} if isinstance(change, Put) else {}
            self._set_names(("Pod", change.key), names)

    def on_job_changes(self, kind: JobKind[Any], changes: Sequence[Change[Object]]) -> None:
        """Update the names of the pods that changed jobs of a kind have or are going to have."""
        for change in changes:
            hosts = kind.host_names(change.item) if isinstance(change, Put) else iter(())
            names = (HostName(change.key[0], *host) for host in itertools.islice(hosts, _MAX_EXPECTED))
            self._set_names((kind.kind, change.key), {name: () for name in names if self._may_reserve(name)})

    def _may_reserve(self, name: HostName) -> bool:
        """Whether a name may have an address before it has a pod: enough must stay free for existing pods."""
        return name in self._addresses or self._addresses.has_spare

    def on_service_changes(self, changes: Sequence[Change[Object]]) -> None:
        """Update services; names of a deleted service are released."""
        for change in changes:
            if isinstance(change, Put):
                self._services.add(change.key)
            else:
                self._services.discard(change.key)
                self.release_unused(change.key)

    def release_unused(self, service: Key | None = None) -> None:
        """Release names without an owner, of one service or of all."""
        self._release(
            name
            for name in self._addresses.names()
            if service is None or (name.namespace, name.subdomain) == service
        )

    def _set_names(self, owner: _Owner, names: dict[HostName, tuple[str, ...]]) -> None:
        before = self._names_by_owner.get(owner, {})
        if names == before:
            return
        self._names_by_owner[owner] = names
        if not names:
            del self._names_by_owner[owner]
        for name, aliases in names.items():
            self._owners[name].add(owner)
            self._dirty = self._dirty or name not in self._addresses
            try:
                self._hosts.put(name, self._addresses.allocate(name), aliases)
            except AddressesExhaustedError as error:
                _LOG.warning("cannot allocate an address for %s: %s", ".".join(filter(None, name)), error)
        for name in before.keys() - names.keys():
            self._owners[name].discard(owner)
        self._release(before.keys() - names.keys())

    def _release(self, names: Iterable[HostName]) -> None:
        for name in list(names):
            if self._owners.get(name) or (name.namespace, name.subdomain) in self._services:
                continue
            self._owners.pop(name, None)
            self._addresses.release(name)
            self._hosts.drop(name)

    # --- queries ------------------------------------------------------------------------------------------

    def address(self, pod: Object) -> str:
        """The address of a pod; valid for use after `flush`."""
        return HOST_IP if pod["spec"].get("hostNetwork") else self._addresses.allocate(pod_host_name(pod))

    def peers(self, pod: Object) -> dict[str, str]:
        """Hosts of the pod's service with their addresses; the first ones by name if there are too many."""
        me = pod_host_name(pod)
        if not me.subdomain:
            return {}
        service = me.namespace, me.subdomain
        names = [name for name in self._addresses.names() if (name.namespace, name.subdomain) == service]
        return {name.host: self._addresses.allocate(name) for name in sorted(names)[:_MAX_PEERS]}

    def replace_names(self, pod: Object, text: str) -> str:
        """Replace fully qualified host names of the pod's namespace in a text by their addresses."""
        me, namespace = pod_host_name(pod), pod["metadata"]["namespace"]

        def address(match: re.Match[str]) -> str:
            name = HostName(namespace, match[1], match[2])
            if name == me:
                return self.address(pod)
            return self._addresses[name] if name in self._addresses else match[0]

        return _qualified_names(namespace).sub(address, text) if _DOMAIN in text else text

    def hosts_file(self, namespace: str) -> Path:
        """The hosts file of a namespace; it exists after `flush`."""
        return self._hosts.path(namespace)

    async def flush(self) -> None:
        """Return when all changes are on disk; concurrent calls share one write."""
        async with self._flush_lock:
            if self._dirty:
                await self._save()
            self._hosts.write()

    async def _save(self) -> None:
        self._dirty = False
        try:
            await asyncio.to_thread(self._addresses.save, self._addresses.encode())
        except BaseException:
            self._dirty = True
            raise
