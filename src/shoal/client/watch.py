"""Following a collection: all that is there, then every change, through all that breaks on the way.

A watch that ends or breaks is taken up again at the last version heard of; when the server no longer knows
that version (410), everything is listed again and only what has changed since is told. A server that stays
away is given up after a while.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from shoal.client.client import TABLE, Client, Named, path_of
from shoal.client.http import JSON
from shoal.cluster.errors import GoneError, UnavailableError, from_status
from shoal.cluster.port import EVERYWHERE, Where
from shoal.cluster.resources import Object, Resource

_LONGEST: Final = 300.0
"""Seconds that one watch lasts; the next goes on where it ended."""
_SLACK: Final = 10.0
"""Seconds after which a watch that should have ended is taken for dead."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_GIVE_UP: Final = 60.0
"""Seconds that a server may be away."""


class Change(msgspec.Struct, frozen=True):
    """What happened to one object: it is there at first, was made, changed or deleted.

    `row` is its row of a table, where tables are followed; `object` then has what the row has of it.
    """

    type: Literal["LISTED", "ADDED", "MODIFIED", "DELETED"]
    object: Object
    row: Object | None = None
    columns: list[Object] | None = None


class Follower:
    """Follows the objects of one resource until a moment of the monotonic clock."""

    def __init__(  # noqa: PLR0913 - what to follow, and how
        self,
        client: Client,
        resource: Resource[Any],
        where: Where = EVERYWHERE,
        *,
        rows: bool = False,
        include: str = "",
        deadline: float = math.inf,
        known: Object | None = None,
    ) -> None:
        """`known` is an object that was there a moment ago: if it is not any more, that is told."""
        self._client, self._resource, self._where = client, resource, where
        self._accept: Final = TABLE if rows else JSON
        self._include: Final = include
        self._deadline: Final = deadline
        self._known: dict[str, Change] = {}
        """What was last told of each object that is there, by uid."""
        if known is not None:
            self._note(_change("LISTED", known, None))

    def changes(self) -> Iterator[Change]:
        """All of it, until the deadline; ClusterError when it cannot go on."""
        version = yield from self._listed(first=True)
        pause, lost = _FIRST_PAUSE, math.inf
        while time.monotonic() < self._deadline:
            try:
                for change in self._watched(version):
                    version, pause, lost = _version(change), _FIRST_PAUSE, math.inf
                    yield change
                lost = math.inf
            except GoneError:
                version = yield from self._listed(first=False)
            except UnavailableError:
                lost = min(lost, time.monotonic())
                if time.monotonic() - lost > _GIVE_UP:
                    raise
            time.sleep(max(min(pause, self._deadline - time.monotonic()), 0.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    # --- lists --------------------------------------------------------------------------------------------

    def _listed(self, *, first: bool) -> Generator[Change, None, str]:
        """What is there; later on, only what has changed, and what is gone. Returns the version of it all."""
        before, self._known = self._known, {}
        version, columns = "", None
        pages = self._client.pages(self._resource, self._where, accept=self._accept, include=self._include)
        for page in pages:
            version, columns = page["metadata"]["resourceVersion"], page.get("columnDefinitions") or columns
            for item in _items(page):
                change = _change("LISTED" if first else "MODIFIED", item, columns)
                self._note(change)
                if _uid(change) not in before or _version(change) != _version(before[_uid(change)]):
                    yield change
        for uid in before.keys() - self._known.keys():
            yield msgspec.structs.replace(before[uid], type="DELETED")
        return version

    def _note(self, change: Change) -> None:
        if change.type == "DELETED":
            self._known.pop(_uid(change), None)
        else:
            self._known[_uid(change)] = change

    # --- watches ------------------------------------------------------------------------------------------

    def _watched(self, version: str) -> Iterator[Change]:
        length = max(min(self._deadline - time.monotonic(), _LONGEST), 1.0)
        query: Mapping[str, str | int | bool] = {
            "watch": True,
            "resourceVersion": version,
            "timeoutSeconds": math.ceil(length),
            "labelSelector": self._where.labels,
            "fieldSelector": self._where.fields,
            "includeObject": self._include,
        }
        path = path_of(self._resource, self._where.namespace)
        with self._client.stream(path, query, accept=self._accept, silence=length + _SLACK) as answer:
            while line := answer.readline():
                for change in _told(msgspec.json.decode(line)):
                    self._note(change)
                    yield change


def _told(line: Object) -> Iterator[Change]:
    """The changes that a line of a watch tells of; an error is raised."""
    kind, thing = line["type"], line["object"]
    if kind == "ERROR":
        raise from_status(thing)
    if kind in ("ADDED", "MODIFIED", "DELETED"):
        columns = thing.get("columnDefinitions")
        yield from (_change(kind, item, columns) for item in _items(thing))


def _items(body: Object) -> list[Object]:
    """The objects or rows in a list, or the one object that it is."""
    for name in ("rows", "items"):
        if name in body or body.get("kind") == "Table":
            return body.get(name) or []
    return [body]


def _change(kind: Any, item: Object, columns: list[Object] | None) -> Change:  # noqa: ANN401 - checked
    if "cells" in item:
        return Change(kind, item["object"], item, columns)
    return Change(kind, item)


def _uid(change: Change) -> str:
    return str(change.object["metadata"].get("uid", ""))


def _version(change: Change) -> str:
    return str(change.object["metadata"].get("resourceVersion", ""))


Test = Callable[[Object | None], bool]
"""Whether it is as it should be; it is told None when the object is not there."""


def until(client: Client, one: Named, holds: Test, deadline: float) -> bool:
    """Whether it came to hold of an object before a moment of the monotonic clock; tested at least once."""
    resource, name, namespace = one.resource, one.name, one.namespace
    where = Where(namespace, fields=f"metadata.name={name}")
    found = client.find(resource, name, namespace)
    if holds(found):
        return True
    if time.monotonic() >= deadline:
        return False
    for change in Follower(client, resource, where, deadline=deadline, known=found).changes():
        if holds(None if change.type == "DELETED" else change.object):
            return True
    return holds(client.find(resource, name, namespace))


def gone(uid: str) -> Test:
    """Whether there is no such object, or another of its name."""
    return lambda thing: thing is None or bool(uid and thing["metadata"].get("uid") != uid)
