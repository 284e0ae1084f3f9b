"""Hosts files, one for each namespace: what names resolve to within it.

Containers have them mounted over /etc/hosts, so that they are rewritten in place: the file stays the same. A
new name is appended; names that are gone stay until there are many, or until one comes back elsewhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shoal.cluster.embedded.agent.addresses import Name

_DOMAIN: Final = "svc.cluster.local"
_STALE: Final = 256
"""So many names that are gone may stay in a file."""


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
