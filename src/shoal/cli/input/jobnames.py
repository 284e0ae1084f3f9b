"""Jobs by the names that people give them: `TYJob/ns/name`, `tj/name`, `ns/name`, `name`."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from shoal.api import registry

_CORE_KINDS: Final = {
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "Pod": ("pod", "pods", "po"),
    "Gang": ("gang", "gangs"),
}
"""Names of workloads that are not of one of our kinds."""

_FEW: Final = 10


class NotOneJobError(ValueError):
    """Raised when a name means no job, or more than one; says which there are."""


def find(wanted: str, keys: Collection[str]) -> str:
    """The one job that a name means; `keys` are as in a plan: `TYJob/ns/name`."""
    found = [key for key in keys if _means(wanted, key)]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotOneJobError(f"'{wanted}' means {len(found)} jobs: {_listed(found)}")
    near = _near(wanted, keys)
    hint = f"did you mean {_listed(near)}?" if near else "the plan has " + (_listed(sorted(keys)) or "no job")
    raise NotOneJobError(f"there is no job '{wanted}' in the plan; {hint}")


def _means(wanted: str, key: str) -> bool:
    """Whether a name fits a job: all of it, or without the namespace, the kind, or both."""
    kind, namespace, name = key.split("/", 2)
    match wanted.split("/"):
        case [a, b, c]:
            return _is_kind(a, kind) and (b, c) == (namespace, name)
        case [a, b]:
            return b == name and (_is_kind(a, kind) or a == namespace)
        case _:
            return wanted == name


def _is_kind(said: str, kind: str) -> bool:
    own = {type_.kind: (type_.kind.lower(), type_.plural, type_.short_name) for type_ in registry.types()}
    return said.lower() in (own | _CORE_KINDS).get(kind, (kind.lower(),))


def _near(wanted: str, keys: Collection[str]) -> list[str]:
    """Jobs named much like it, or whose names begin with it, as pods of a batch Job do; the best first."""
    name = wanted.rpartition("/")[2]
    names = sorted({key.split("/", 2)[2] for key in keys})
    like = [*get_close_matches(name, names, n=_FEW), *(n for n in names if n.startswith(f"{name}-"))]
    rank = {close: number for number, close in reversed(list(enumerate(like)))}
    near = (key for key in keys if key.split("/", 2)[2] in rank)
    return sorted(near, key=lambda key: (rank[key.split("/", 2)[2]], key))


def _listed(keys: list[str]) -> str:
    more = len(keys) - _FEW
    return ", ".join(keys[:_FEW]) + (f" and {more} more" if more > 0 else "")
