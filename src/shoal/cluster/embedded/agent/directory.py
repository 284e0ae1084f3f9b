"""Which host names there are, whose they are, and what address each has.

A name is there as long as a pod has it, an Indexed Job will have it, or the service exists that it belongs
to. So a pod that is made again has the address that it had, and its name resolves before it has started.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from shoal.cluster.embedded.agent.addresses import Addresses, FullError, Name
from shoal.cluster.embedded.agent.hosts import Hosts
from shoal.cluster.mirror import Change, Key, Put
from shoal.cluster.nodes import HOST_IP
from shoal.cluster.resources import Object

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
