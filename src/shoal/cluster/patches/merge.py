"""Merge patches (RFC 7396): objects are merged, null removes, everything else replaces.

The way back: the merge patch that leads from one object to another.
"""

from collections.abc import Mapping
from typing import Any

Json = Any
"""Whatever JSON can say."""


def merged(target: Json, patch: Json) -> Json:
    """What `patch` makes of `target`. The two are left alone; the result may share parts with them."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `after` of `before`; empty if they are alike."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            inner = difference(was, value)
            if inner:
                patch[name] = inner
        elif name not in before or was != value:
            patch[name] = value
    return patch
