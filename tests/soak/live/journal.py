"""Reads what happened in an embedded home from its database: complete, in order, and while no daemon runs."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shoal.apiserver.registry.records import Change, Key, Record
from shoal.apiserver.sqlite import FILE

_SELECT: Final = (
    "SELECT version, time, resource, namespace, name, body, deleted FROM records "
    "WHERE version > ? ORDER BY version"
)


class JournalReader:
    """Follows the journal of a home. History is compacted after minutes: read it more often."""

    def __init__(self, home: Path) -> None:
        """Open the database; a daemon must have created it."""
        self._connection: Final = sqlite3.connect(f"file:{home / FILE}?mode=ro", uri=True)
        self._version = 0
        self._last: Final[dict[Key, Record]] = {}

    def read(self) -> Sequence[Change]:
        """Return the writes since the last call."""
        changes = []
        for version, time, resource, namespace, name, body, deleted in self._connection.execute(
            _SELECT, (self._version,)
        ).fetchall():
            record = Record(version, time, Key(resource, namespace, name), body, bool(deleted))
            before = self._last.get(record.key)
            changes.append(Change(record, before))
            if record.deleted:
                self._last.pop(record.key, None)
            else:
                self._last[record.key] = record
            self._version = version
        return changes

    def close(self) -> None:
        self._connection.close()
