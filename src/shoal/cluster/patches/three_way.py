"""Three-way merges, as `kubectl apply` makes them: what was said last time, what is said now, what is there.

What is said now is made so. What was said last time and is not any more is taken away. Everything else, the
server's and other people's, stays as it is. Members of lists that have keys are told apart by them.
"""

from collections.abc import Mapping
from typing import Any

from shoal.api.crds import Schema
from shoal.cluster.patches.merge import Json
from shoal.cluster.patches.strategic import keyed
from shoal.cluster.schemas.core import MERGE_KEY, STRATEGY, resolved

Object = Mapping[str, Any]


def applied(before: Object, now: Object, there: Object, schema: Schema) -> dict[str, Json]:
    """What an object of this schema becomes; all are left alone. Nothing is known of fields without one."""
    fields = resolved(schema)
    kept = {name: value for name, value in there.items() if name in now or name not in before}
    for name, value in now.items():
        if value is None:
            kept.pop(name, None)
            continue
        field = fields.get("properties", {}).get(name) or fields.get("additionalProperties") or {}
        kept[name] = _field(before.get(name), value, there.get(name), field)
    return kept


def _field(before: Json, now: Json, there: Json, field: Schema) -> Json:
    if isinstance(now, Mapping):
        return applied(_mapping(before), now, _mapping(there), field)
    if not isinstance(now, list) or not isinstance(there, list) or "merge" not in field.get(STRATEGY, ""):
        return now
    key: str | None = field.get(MERGE_KEY)
    return _members(before if isinstance(before, list) else [], now, there, key, field.get("items", {}))


def _members(
    before: list[Json], now: list[Json], there: list[Json], key: str | None, schema: Schema
) -> list[Json]:
    """The members that are said, in their order; then those that others put there."""
    said, found = ({keyed(member, key): member for member in members} for members in (before, there))
    wanted = {keyed(member, key): member for member in now}
    made = [_member(said.get(name), member, found.get(name), schema) for name, member in wanted.items()]
    others = [member for name, member in found.items() if name not in wanted and name not in said]
    return [*made, *others]


def _member(before: Json, now: Json, there: Json, schema: Schema) -> Json:
    return applied(_mapping(before), now, _mapping(there), schema) if isinstance(now, Mapping) else now


def _mapping(value: Json) -> Object:
    return value if isinstance(value, Mapping) else {}
