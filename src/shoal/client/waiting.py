"""Waiting for one object: until something holds of it, or until it is gone."""

import time
from collections.abc import Callable

from shoal.client.client import Client, Named
from shoal.client.watching import Follower
from shoal.cluster.port import Where
from shoal.cluster.resources import Object

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
