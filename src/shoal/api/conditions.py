"""Conventions of `status` that all kinds share: conditions, and the phases that are final.

A condition's `lastTransitionTime` is the time at which its `status` changed last; a new reason or message
alone does not change it. `set_condition` works on objects as JSON has them, `with_condition` on typed views;
both follow that rule. They are pure: the current time is passed in.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

if TYPE_CHECKING:
    from shoal.api.meta import Condition  # not at run time: commands import this module at their start

FINISHED_PHASES: Final = ("Succeeded", "Failed")
"""Phases (or stages) that a pod or a job does not leave any more."""

C = TypeVar("C", bound="Condition")

_TIME: Final = "lastTransitionTime"
_EXPLANATIONS: Final = ("reason", "message")


def set_condition(
    conditions: Sequence[Mapping[str, Any]],
    new: Mapping[str, Any],
    now: str,
    *,
    transition_fields: Sequence[str] = ("status",),
) -> list[dict[str, Any]] | None:
    """Return the conditions with `new` in the place of the one of its type; None if nothing changes.

    A condition of a new type is appended. Fields of the old condition that `new` does not have are kept,
    except its reason and message. `now` is a time as objects have it, such as `2026-01-31T12:00:00Z`. A
    change of one of the `transition_fields` changes `lastTransitionTime`.
    """
    old = next((one for one in conditions if one.get("type") == new["type"]), None)
    if old is None:
        return [*map(dict, conditions), {**new, _TIME: now}]
    if new.items() <= old.items():
        return None
    same = all(old.get(field) == new.get(field) for field in transition_fields)
    time = old.get(_TIME) if same else None
    kept = {name: value for name, value in old.items() if name not in _EXPLANATIONS}
    changed = {**kept, **new, _TIME: time or now}
    return [changed if one is old else dict(one) for one in conditions]


def with_condition(conditions: Sequence[C], new: C, now: datetime) -> tuple[C, ...]:
    """Return the conditions with `new` in the place of the one of its type, or appended.

    The `last_transition_time` of `new` itself is ignored.
    """
    old = next((one for one in conditions if one.type == new.type), None)
    time = old.last_transition_time if old is not None and old.status == new.status else None
    changed = replace(new, last_transition_time=time or now)
    if old is None:
        return (*conditions, changed)
    return tuple(changed if one is old else one for one in conditions)
