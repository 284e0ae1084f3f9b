"""JSON pointers (RFC 6901): which place in a document is meant."""

import re
from typing import Final

from shoal.api.fields import shown
from shoal.cluster.errors import InvalidError
from shoal.cluster.patches.merge import Json

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")

END: Final = "-"
"""The place behind the last member of a list."""

Steps = tuple[str, ...]
"""The names and indices on the way from the whole document to a place."""


def steps_of(pointer: str) -> Steps:
    """The way that a pointer describes."""
    if not pointer:
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise InvalidError(f"not a JSON pointer: '{shown(pointer)}'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def found(document: Json, steps: Steps) -> Json:
    """What is at a place."""
    for step in steps:
        document = document[key(document, step)]
    return document


def key(container: Json, step: str) -> str | int:
    """The key of something that is in a container."""
    if isinstance(container, dict):
        if step in container:
            return step
        raise InvalidError(f"there is no '{shown(step)}'")
    return index(container, step, end=len(_members(container, step)) - 1)


def index(members: Json, step: str, *, end: int) -> int:
    """The index that a step says, which may be at most `end`."""
    if not _INDEX.fullmatch(step) or int(step) > end:
        raise InvalidError(f"there is no index '{shown(step)}' in a list of {len(members)}")
    return int(step)


def _members(container: Json, step: str) -> list[Json]:
    if isinstance(container, list):
        return container
    raise InvalidError(f"there is no '{shown(step)}' in something that is neither a list nor an object")
