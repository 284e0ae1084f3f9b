"""Patches that need a schema: strategic merge patches, and the three-way merge of `kubectl apply`.

A strategic merge patch merges objects, and null removes a field, as in a merge patch. A list is replaced,
unless its schema has a merge key, or declares it a set: then its members are merged one by one. Directives in
a patch express the rest:

    $patch: replace                       in an object or a list member: replace it instead of merging it
    $patch: delete                        in an object: empty it; in a list member: remove that member
    $retainKeys: [a, b]                   first remove all other fields
    $deleteFromPrimitiveList/field: […]   remove these values from the list
    $setElementOrder/field: […]           order of the members that the patch knows

A three-way merge applies what a manifest says now. What the manifest said last time, and no longer says, is
removed. Everything else, set by the server or by others, stays as it is.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.patches.json_patch import Json
from shoal.cluster.schemas.core import MERGE_KEY, PATCH_STRATEGY, resolve_reference

Object = dict[str, Any]

# --- list members -----------------------------------------------------------------------------------------


def member_key(member: Json, merge_key: str | None) -> bytes:
    """Return what identifies a member of a list: the value of its merge key, or without one its own value."""
    if merge_key is None:
        return msgspec.json.encode(member)
    if not isinstance(member, dict) or merge_key not in member:
        raise InvalidError(f"a member of a list in the patch has no {merge_key}")
    return msgspec.json.encode(member[merge_key])


def _object_members(members: Iterable[Json], merge_key: str) -> list[Object]:
    """Return the members, which must be objects."""
    found = list(members)
    if not all(isinstance(member, dict) for member in found):
        raise InvalidError(f"the members of a list that is merged by {merge_key} must be objects")
    return found


def _unique(members: Iterable[Json]) -> list[Json]:
    """Return each member once, at its first position."""
    return list({member_key(member, None): member for member in members}.values())


def _sort_members(
    members: list[Json], wanted: list[Json], before: list[Json], merge_key: str | None
) -> list[Json]:
    """Sort members: those in `wanted` in that order, the others in the order they had in `before`.

    Where the two orders leave a choice, the wanted members come first.
    """
    wanted_index, old_index = _indices(wanted, merge_key), _indices(before, merge_key)
    mentioned = [member for member in members if member_key(member, merge_key) in wanted_index]
    others = [member for member in members if member_key(member, merge_key) not in wanted_index]
    mentioned.sort(key=lambda member: wanted_index[member_key(member, merge_key)])
    others.sort(key=lambda member: old_index.get(member_key(member, merge_key), len(old_index)))
    return _interleave(others, mentioned, old_index, merge_key)


def _indices(members: list[Json], merge_key: str | None) -> dict[bytes, int]:
    indices: dict[bytes, int] = {}
    for number, member in enumerate(members):
        indices.setdefault(member_key(member, merge_key), number)
    return indices


def _interleave(
    others: list[Json], mentioned: list[Json], old_index: dict[bytes, int], merge_key: str | None
) -> list[Json]:
    """Combine both lists: another member precedes a mentioned one if it did so before."""
    result: list[Json] = []
    rest = deque((old_index.get(member_key(other, merge_key), len(old_index)), other) for other in others)
    for member in mentioned:
        index = old_index.get(member_key(member, merge_key), -1)
        while rest and rest[0][0] < index:
            result.append(rest.popleft()[1])
        result.append(member)
    return [*result, *(other for _, other in rest)]


# --- strategic merge patches ------------------------------------------------------------------------------

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"
_DIRECTIVES: Final = (_PATCH, _RETAIN, f"{_DELETE}/", f"{_ORDER}/", _DELETE, _ORDER)


def apply_strategic_patch(target: Json, patch: Json, schema: Schema) -> Json:
    """Apply a strategic merge patch to an object of this schema; the arguments are not modified."""
    if not isinstance(patch, dict):
        raise BadRequestError("a strategic merge patch is an object")
    return _merge_object(target if isinstance(target, dict) else {}, patch, schema)


def _merge_object(target: Object, patch: Object, schema: Schema) -> Object:
    if _PATCH in patch:
        return _apply_patch_directive(patch)
    fields = {name: value for name, value in patch.items() if not name.startswith(_DIRECTIVES)}
    result = _apply_retain_keys(target, fields, patch)
    orders, deletions = _lists_of_directive(patch, _ORDER), _lists_of_directive(patch, _DELETE)
    for name in (*fields, *(name for name in orders if name not in fields)):
        _merge_field(result, name, fields.get(name), _field_schema(schema, name), orders.get(name))
    for name, values in deletions.items():
        if isinstance(result.get(name), list):
            result[name] = [value for value in result[name] if value not in values]
    return result


def _apply_patch_directive(patch: Object) -> Object:
    match patch[_PATCH]:
        case "replace":
            return {name: _without_directives(value) for name, value in patch.items() if name != _PATCH}
        case "delete":
            return {}
        case other:
            raise InvalidError(f"unknown directive of a strategic merge patch: '$patch: {shown(other)}'")


def _apply_retain_keys(target: Object, fields: Object, patch: Object) -> Object:
    """Return a copy of the target, with the fields of $retainKeys only if the patch has that."""
    if _RETAIN not in patch:
        return dict(target)
    retained = patch[_RETAIN]
    if not isinstance(retained, list):
        raise BadRequestError("$retainKeys must be a list of fields")
    if missing := [name for name, value in fields.items() if value is not None and name not in retained]:
        raise BadRequestError(
            f"$retainKeys must have all fields of the patch, and lacks {', '.join(missing)}"
        )
    return {name: value for name, value in target.items() if name in retained}


def _lists_of_directive(patch: Object, directive: str) -> dict[str, list[Json]]:
    """Return the lists of a directive, by field."""
    found = {name: value for name, value in patch.items() if name.startswith(directive)}
    for name, value in found.items():
        if not name.startswith(f"{directive}/") or not isinstance(value, list):
            raise BadRequestError(f"{directive} must name a field and be a list: {directive}/finalizers: […]")
    return {name.removeprefix(f"{directive}/"): value for name, value in found.items()}


def _field_schema(schema: Schema, name: str) -> Schema:
    """Return the schema of a field; empty for an unknown field."""
    resolved = resolve_reference(schema)
    found: Schema = resolved.get("properties", {}).get(name) or resolved.get("additionalProperties") or {}
    return found


def _merge_field(result: Object, name: str, value: Json, schema: Schema, order: list[Json] | None) -> None:
    old = result.get(name)
    if value is None and order is None:
        result.pop(name, None)
    elif isinstance(old, dict) and isinstance(value, dict):
        result[name] = _merge_object(old, value, schema)
    elif isinstance(old, list) and isinstance(value, list):
        result[name] = _merge_list(old, value, schema, order)
    elif isinstance(old, list) and value is None and order is not None:
        result[name] = _sort_members(old, order, old, schema.get(MERGE_KEY))
    elif value is not None and not _is_directive(value):
        result[name] = _without_directives(value)
    elif value is not None:
        result.pop(name, None)


def _merge_list(
    target: list[Json], patch: list[Json], schema: Schema, order: list[Json] | None
) -> list[Json]:
    if "merge" not in schema.get(PATCH_STRATEGY, ""):
        return [_without_directives(member) for member in patch]
    merge_key = schema.get(MERGE_KEY)
    if order is not None:
        _check_order(patch, order, merge_key)
    if merge_key is None:
        result, mentioned = _unique([*target, *patch]), patch
    else:
        result, mentioned = _merge_members(target, patch, merge_key, schema["items"])
    before = target if mentioned else result
    return _sort_members(result, mentioned if order is None else order, before, merge_key)


def _check_order(patch: list[Json], order: list[Json], merge_key: str | None) -> None:
    """Reject a patch whose members are not all in its $setElementOrder, or not in that order."""
    staying = [member_key(member, merge_key) for member in patch if not _is_directive(member)]
    ordered = iter([member_key(member, merge_key) for member in order])
    if not all(member in ordered for member in staying):
        raise InvalidError(f"the order of a list in the patch is not that of its {_ORDER}")


def _merge_members(
    target: list[Json], patch: list[Json], merge_key: str, schema: Schema
) -> tuple[list[Json], list[Json]]:
    """Return the members after the merge, and those of the patch that were merged."""
    members = _object_members(patch, merge_key)
    plain = [member for member in members if _PATCH not in member]
    directives = {member_key(member, merge_key): member[_PATCH] for member in members if _PATCH in member}
    if wrong := [value for value in directives.values() if value not in ("replace", "delete")]:
        raise InvalidError(f"unknown directive for a member of a list: '$patch: {shown(wrong[0])}'")
    if "replace" in directives.values():
        return [_without_directives(member) for member in plain], []
    result = {
        number: member
        for number, member in enumerate(target)
        if directives.get(member_key(member, merge_key)) != "delete"
    }
    numbers = {member_key(member, merge_key): number for number, member in reversed(result.items())}
    for new_number, member in enumerate(plain, start=len(target)):
        number = numbers.setdefault(member_key(member, merge_key), new_number)
        if number in result:
            result[number] = _merge_object(result[number], member, schema)
        else:
            result[number] = _without_directives(member)
    return list(result.values()), plain


def _is_directive(value: Json) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _without_directives(value: Json) -> Json:
    """Return a new value without its nulls and directives: there is nothing that they could apply to."""
    if isinstance(value, dict):
        return {
            name: _without_directives(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith(_DIRECTIVES) and not _is_directive(inner)
        }
    if isinstance(value, list):
        return [_without_directives(member) for member in value if not _is_directive(member)]
    return value


# --- three-way merges -------------------------------------------------------------------------------------


def apply_three_way(
    last: Mapping[str, Any], wanted: Mapping[str, Any], live: Mapping[str, Any], schema: Schema
) -> Object:
    """Return the live object with the wanted fields, and without those that were only wanted last time.

    The arguments are not modified. Fields without a schema are merged as plain JSON.
    """
    result = {name: value for name, value in live.items() if name in wanted or name not in last}
    for name, value in wanted.items():
        if value is None:
            result.pop(name, None)
            continue
        result[name] = _merge_value(last.get(name), value, live.get(name), _field_schema(schema, name))
    return result


def _merge_value(last: Json, wanted: Json, live: Json, schema: Schema) -> Json:
    if isinstance(wanted, Mapping):
        return apply_three_way(_as_mapping(last), wanted, _as_mapping(live), schema)
    is_merged = "merge" in schema.get(PATCH_STRATEGY, "")
    if not isinstance(wanted, list) or not isinstance(live, list) or not is_merged:
        return wanted
    merge_key: str | None = schema.get(MERGE_KEY)
    last_members = last if isinstance(last, list) else []
    return _merge_lists(last_members, wanted, live, merge_key, schema.get("items", {}))


def _merge_lists(
    last: list[Json], wanted: list[Json], live: list[Json], merge_key: str | None, schema: Schema
) -> list[Json]:
    """Return the wanted members, in their order; then those that others added."""
    by_key = [
        {member_key(member, merge_key): member for member in members} for members in (last, wanted, live)
    ]
    last_by_key, wanted_by_key, live_by_key = by_key
    result = [
        _merge_member(last_by_key.get(key), member, live_by_key.get(key), schema)
        for key, member in wanted_by_key.items()
    ]
    others = [
        member for key, member in live_by_key.items() if key not in wanted_by_key and key not in last_by_key
    ]
    return [*result, *others]


def _merge_member(last: Json, wanted: Json, live: Json, schema: Schema) -> Json:
    if isinstance(wanted, Mapping):
        return apply_three_way(_as_mapping(last), wanted, _as_mapping(live), schema)
    return wanted


def _as_mapping(value: Json) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
