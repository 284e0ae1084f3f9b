"""Names of jobs on the command line: `TYJob/ns/name`, `tj/name`, `ns/name`, `name`."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from shoal.api import registry

_CORE_KINDS: Final = {
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "Pod": ("pod", "pods", "po"),
    "Gang": ("gang", "gangs"),
}
"""Names of the kinds of workloads that Shoal does not define."""

_MAX_LISTED: Final = 10


class JobNameError(ValueError):
    """Raised when a name matches no job, or more than one; the message lists candidates."""


def find_job(query: str, keys: Collection[str]) -> str:
    """The only job that a name matches; `keys` are those of a plan: `TYJob/ns/name`."""
    found = [key for key in keys if _matches(query, key)]
    if len(found) == 1:
        return found[0]
    if found:
        raise JobNameError(f"'{query}' matches {len(found)} jobs: {_join_keys(found)}")
    similar = _similar(query, keys)
    hint = (
        f"did you mean {_join_keys(similar)}?"
        if similar
        else "the plan has " + (_join_keys(sorted(keys)) or "no job")
    )
    raise JobNameError(f"there is no job '{query}' in the plan; {hint}")


def _matches(query: str, key: str) -> bool:
    """Whether a name matches a job; the kind, the namespace or both may be left out."""
    kind, namespace, name = key.split("/", 2)
    match query.split("/"):
        case [a, b, c]:
            return _is_kind(a, kind) and (b, c) == (namespace, name)
        case [a, b]:
            return b == name and (_is_kind(a, kind) or a == namespace)
        case _:
            return query == name


def _is_kind(text: str, kind: str) -> bool:
    own = {type_.kind: (type_.kind.lower(), type_.plural, type_.short_name) for type_ in registry.types()}
    return text.lower() in (own | _CORE_KINDS).get(kind, (kind.lower(),))


def _similar(query: str, keys: Collection[str]) -> list[str]:
    """Jobs with similar names, or with names that start with it, as pods of a batch Job have; best first."""
    name = query.rpartition("/")[2]
    names = sorted({key.split("/", 2)[2] for key in keys})
    candidates = [
        *get_close_matches(name, names, n=_MAX_LISTED),
        *(n for n in names if n.startswith(f"{name}-")),
    ]
    rank = {candidate: number for number, candidate in reversed(list(enumerate(candidates)))}
    similar = (key for key in keys if key.split("/", 2)[2] in rank)
    return sorted(similar, key=lambda key: (rank[key.split("/", 2)[2]], key))


def _join_keys(keys: list[str]) -> str:
    more = len(keys) - _MAX_LISTED
    return ", ".join(keys[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
