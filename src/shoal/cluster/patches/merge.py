"""Merge patches (RFC 7396): objects are merged, null removes, everything else replaces."""

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
