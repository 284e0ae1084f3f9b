"""Follows a collection, for commands: the objects that exist, then every change.

`shoal.cluster.list_watch` decides when to resume a watch and when to list again; after another list only the
differences are reported. A server that stays unreachable is given up after a minute.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from shoal.client.client import TABLE_MEDIA_TYPE, Client, ObjectName, path_of
from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import ClusterError, from_status
from shoal.cluster.kubernetes.wire import JSON
from shoal.cluster.list_watch import ListWatch
from shoal.cluster.object_store import Deleted, Entry, Key, ObjectStore
from shoal.cluster.port import EVERYTHING, Selector
from shoal.cluster.resources import Object, Resource

_MAX_WATCH_TIMEOUT: Final = 300.0
"""Seconds that one watch lasts; the next one resumes where it ended."""
_TIMEOUT_MARGIN: Final = 10.0
"""Seconds after its timeout when a watch without any byte is considered dead."""
_BACKOFF: Final = Backoff(0.1, 5.0)
_GIVE_UP_AFTER: Final = 60.0
"""Seconds for which a server may be unreachable."""


class ObjectChange(msgspec.Struct, frozen=True):
    """A change of one object: listed at first, created, changed or deleted.

    `row` is its row of a table, if tables are followed; `object` is then the object in the row.
    """

    type: Literal["LISTED", "ADDED", "MODIFIED", "DELETED"]
    object: Object
    row: Object | None = None
    columns: list[Object] | None = None


class Watcher:
    """Follows the objects of one resource until a deadline of the monotonic clock."""

    def __init__(  # noqa: PLR0913 - what to follow, and how
        self,
        client: Client,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        rows: bool = False,
        include: str = "",
        deadline: float = math.inf,
        known: Object | None = None,
    ) -> None:
        """`known` is an object that existed a moment ago: if it no longer does, that is reported."""
        self._client, self._resource, self._selector = client, resource, selector
        self._accept: Final = TABLE_MEDIA_TYPE if rows else JSON
        self._include: Final = include
        self._deadline: Final = deadline
        self._state: Final = ListWatch(_BACKOFF, give_up_after=_GIVE_UP_AFTER)
        self._store: Final = ObjectStore[ObjectChange]()
        self._last: Final[dict[Key, ObjectChange]] = {}
        """The last change of every object that exists."""
        if known is not None:
            list(self._put(_make_change("LISTED", known, None)))

    def changes(self) -> Iterator[ObjectChange]:
        """Yield every change until the deadline; ClusterError if following is not possible."""
        yield from self._list()
        while time.monotonic() < self._deadline:
            try:
                if self._state.must_list:
                    yield from self._list()
                yield from self._watch()
            except ClusterError as error:
                delay = self._state.failed(error, time.monotonic())
                time.sleep(max(min(delay, self._deadline - time.monotonic()), 0.0))

    def _list(self) -> Iterator[ObjectChange]:
        """List everything; yield each object at first, and later what has changed since."""
        change_type = "MODIFIED" if self._state.synced else "LISTED"
        found, version, columns = set[Key](), "", None
        pages = self._client.pages(self._resource, self._selector, accept=self._accept, include=self._include)
        for page in pages:
            version, columns = page["metadata"]["resourceVersion"], page.get("columnDefinitions") or columns
            for item in _items(page):
                change = _make_change(change_type, item, columns)
                found.add(_key(change))
                yield from self._put(change)
        for deleted in self._store.retain(found):
            yield self._forget(deleted.key)
        self._state.listed(version)

    def _watch(self) -> Iterator[ObjectChange]:
        timeout = max(min(self._deadline - time.monotonic(), _MAX_WATCH_TIMEOUT), 1.0)
        query: Mapping[str, str | int | bool] = {
            "watch": True,
            "resourceVersion": self._state.version,
            "timeoutSeconds": math.ceil(timeout),
            "labelSelector": self._selector.labels,
            "fieldSelector": self._selector.fields,
            "includeObject": self._include,
        }
        path = path_of(self._resource, self._selector.namespace)
        idle_timeout = timeout + _TIMEOUT_MARGIN
        with self._client.stream(path, query, accept=self._accept, idle_timeout=idle_timeout) as response:
            self._state.watch_started(time.monotonic())
            while line := response.readline():
                for change in _parse_event(msgspec.json.decode(line)):
                    self._record(change)
                    self._state.received(_version(change))
                    yield change
        self._state.watch_ended(time.monotonic(), timeout)

    def _put(self, change: ObjectChange) -> Iterator[ObjectChange]:
        """Record an object of a list; yield what that changes."""
        for outcome in self._store.put(_entry(change)):
            if isinstance(outcome, Deleted):
                yield self._forget(outcome.key)
            else:
                self._last[outcome.key] = change
                yield change

    def _record(self, change: ObjectChange) -> None:
        """Record an event of a watch: the server decides what a change is."""
        entry = _entry(change)
        if change.type == "DELETED":
            list(self._store.remove(entry))
            self._last.pop(entry.key, None)
        else:
            list(self._store.put(entry))
            self._last[entry.key] = change

    def _forget(self, key: Key) -> ObjectChange:
        return msgspec.structs.replace(self._last.pop(key), type="DELETED")


def _parse_event(event: Object) -> Iterator[ObjectChange]:
    """Yield the changes of an event of a watch; raises the error if it is one."""
    event_type, body = event["type"], event["object"]
    if event_type == "ERROR":
        raise from_status(body)
    if event_type in ("ADDED", "MODIFIED", "DELETED"):
        columns = body.get("columnDefinitions")
        yield from (_make_change(event_type, item, columns) for item in _items(body))


def _items(body: Object) -> list[Object]:
    """Return the objects or rows of a list, or the single object."""
    for name in ("rows", "items"):
        if name in body or body.get("kind") == "Table":
            return body.get(name) or []
    return [body]


def _make_change(
    change_type: Any,  # noqa: ANN401 - one of the types, checked by the callers
    item: Object,
    columns: list[Object] | None,
) -> ObjectChange:
    if "cells" in item:
        return ObjectChange(change_type, item["object"], item, columns)
    return ObjectChange(change_type, item)


def _entry(change: ObjectChange) -> Entry[ObjectChange]:
    uid = str(change.object["metadata"].get("uid", ""))
    return Entry(_key(change), uid, _version(change), change)


def _key(change: ObjectChange) -> Key:
    metadata = change.object["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(change: ObjectChange) -> str:
    return str(change.object["metadata"].get("resourceVersion", ""))


# --- waiting for one object -------------------------------------------------------------------------------

Predicate = Callable[[Object | None], bool]
"""A condition on an object; it is called with None if the object does not exist."""


def wait_until(client: Client, name: ObjectName, holds: Predicate, deadline: float) -> bool:
    """Wait until a condition holds; return whether it did before a deadline of the monotonic clock.

    The condition is checked at least once.
    """
    selector = Selector(name.namespace, fields=f"metadata.name={name.name}")
    found = client.find(name.resource, name.name, name.namespace)
    if holds(found):
        return True
    if time.monotonic() >= deadline:
        return False
    for change in Watcher(client, name.resource, selector, deadline=deadline, known=found).changes():
        if holds(None if change.type == "DELETED" else change.object):
            return True
    return holds(client.find(name.resource, name.name, name.namespace))


def is_gone(uid: str) -> Predicate:
    """Return the condition that an object does not exist, or was recreated (its uid is another)."""
    return lambda found: found is None or bool(uid and found["metadata"].get("uid") != uid)
