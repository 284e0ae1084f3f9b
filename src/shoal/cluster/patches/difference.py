"""The way back: the merge patch that leads from one object to another."""

from collections.abc import Mapping
from typing import Any


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
