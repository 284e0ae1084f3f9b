"""What a reconcile decides: plain data, which `apply` performs.

Writes come in stages. Those of one stage are made side by side; the next stage begins when all of them have
been made. A crash between any two writes is harmless if the stages are in the right order: first what is to
be remembered, then what it makes superfluous.
"""

from typing import Any, Final

import msgspec

from shoal.cluster.events import Note, Reference
from shoal.cluster.patches.merge import difference
from shoal.cluster.port import AS_USUAL, Deletion
from shoal.cluster.resources import Object, Resource


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Make an object for its owner. That it is there already is as good, if it has the same controller."""

    resource: Resource[Any]
    body: Object
    owner: str
    """The uid of the controller in its owner references."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Change an object; with a version, only if it still has it. If it is gone there is nothing to change."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    patch: Object
    version: str = ""


class PatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Change a status; with a version, only if it is still the object's: where a lost update would matter."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    patch: Object
    version: str = ""


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an object, and only the one that is meant: `how` has its uid."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    how: Deletion = AS_USUAL


Write = Create | Patch | PatchStatus | Delete


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done now, what to tell, and when to look again if nothing happens before."""

    about: Reference | None = None
    """Whose Events tell of writes that are refused."""
    stages: tuple[tuple[Write, ...], ...] = ()
    notes: tuple[Note, ...] = ()
    again: float | None = None
    """In seconds since 1970, by the clock that told `now`."""


NOTHING: Final = Changes()


def earliest(*times: float | None) -> float | None:
    """The first of some moments, of which any may never come."""
    return min((time for time in times if time is not None), default=None)


def status_patch(old: msgspec.Struct, new: msgspec.Struct) -> Object:
    """The merge patch between two views of a status; what they do not show stays as it is.

    A mapping in it is replaced as a whole: what it no longer has is said to be gone.
    """
    return difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
