"""Lists whose members have keys: which is which, and in which order they come.

Strategic merge patches: merge patches that know which lists are sets, and which have members with keys.

Objects are merged and null removes, as in a merge patch. A list is replaced, unless its schema says how its
members are told apart; then they are merged one by one. Directives in a patch say what cannot be said so:

    $patch: replace                       in an object or a member of a list: this instead of what is there
    $patch: delete                        in an object: empty it; in a member of a list: take that one out
    $retainKeys: [a, b]                   take out all fields but these first
    $deleteFromPrimitiveList/field: […]   take these values out of the list
    $setElementOrder/field: […]           the order of those members that the patch knows of
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.patches.merge import Json
from shoal.cluster.schemas.core import MERGE_KEY, STRATEGY, resolved


def keyed(member: Json, key: str | None) -> bytes:
    """What tells a member from others: its key, or for lists without one the member itself."""
    if key is None:
        return msgspec.json.encode(member)
    if not isinstance(member, dict) or key not in member:
        raise InvalidError(f"a member of a list in the patch has no {key}")
    return msgspec.json.encode(member[key])


def members_of(members: Iterable[Json], key: str) -> list[dict[str, Json]]:
    """The members, which must be objects."""
    found = list(members)
    if not all(isinstance(member, dict) for member in found):
        raise InvalidError(f"the members of a list that is merged by {key} must be objects")
    return found


def unique(members: Iterable[Json]) -> list[Json]:
    """Each member once, where it came first."""
    return list({keyed(member, None): member for member in members}.values())


def in_order(members: list[Json], wanted: list[Json], before: list[Json], key: str | None) -> list[Json]:
    """Members that are wanted in some order, in that order, among the others in the order they had before.

    Where the two orders leave a choice, the wanted members come first.
    """
    first, had = _places(wanted, key), _places(before, key)
    mentioned = [member for member in members if keyed(member, key) in first]
    others = [member for member in members if keyed(member, key) not in first]
    mentioned.sort(key=lambda member: first[keyed(member, key)])
    others.sort(key=lambda member: had.get(keyed(member, key), len(had)))
    return _woven(others, mentioned, had, key)


def _places(members: list[Json], key: str | None) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for number, member in enumerate(members):
        places.setdefault(keyed(member, key), number)
    return places


def _woven(others: list[Json], mentioned: list[Json], had: dict[bytes, int], key: str | None) -> list[Json]:
    """Both lists in one: another member goes first where it also did before."""
    made: list[Json] = []
    waiting = deque((had.get(keyed(other, key), len(had)), other) for other in others)
    for member in mentioned:
        place = had.get(keyed(member, key), -1)
        while waiting and waiting[0][0] < place:
            made.append(waiting.popleft()[1])
        made.append(member)
    return [*made, *(other for _, other in waiting)]


_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"

Object = dict[str, Any]


def merged(target: Json, patch: Json, schema: Schema) -> Json:
    """What `patch` makes of `target`, an object of this schema; the two are left alone."""
    if not isinstance(patch, dict):
        raise BadRequestError("a strategic merge patch is an object")
    return _object(target if isinstance(target, dict) else {}, patch, schema)


def _object(target: Object, patch: Object, schema: Schema) -> Object:
    if _PATCH in patch:
        return _instead(patch)
    fields = {name: value for name, value in patch.items() if not name.startswith(_DIRECTIVES)}
    made = _retained(target, fields, patch)
    orders, deletions = _of_fields(patch, _ORDER), _of_fields(patch, _DELETE)
    for name in (*fields, *(name for name in orders if name not in fields)):
        _merge_field(made, name, fields.get(name), _field(schema, name), orders.get(name))
    for name, values in deletions.items():
        if isinstance(made.get(name), list):
            made[name] = [value for value in made[name] if value not in values]
    return made


_DIRECTIVES: Final = (_PATCH, _RETAIN, f"{_DELETE}/", f"{_ORDER}/", _DELETE, _ORDER)


def _instead(patch: Object) -> Object:
    match patch[_PATCH]:
        case "replace":
            return {name: _cleaned(value) for name, value in patch.items() if name != _PATCH}
        case "delete":
            return {}
        case other:
            raise InvalidError(f"no directive of a strategic merge patch: '$patch: {shown(other)}'")


def _retained(target: Object, fields: Object, patch: Object) -> Object:
    """What is left of the target, in an object of its own."""
    if _RETAIN not in patch:
        return dict(target)
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        raise BadRequestError("$retainKeys must be a list of fields")
    if missing := [name for name, value in fields.items() if value is not None and name not in kept]:
        raise BadRequestError(
            f"$retainKeys must have all fields of the patch, and lacks {', '.join(missing)}"
        )
    return {name: value for name, value in target.items() if name in kept}


def _of_fields(patch: Object, directive: str) -> dict[str, list[Json]]:
    """The lists that a directive gives, by field."""
    found = {name: value for name, value in patch.items() if name.startswith(directive)}
    for name, value in found.items():
        if not name.startswith(f"{directive}/") or not isinstance(value, list):
            raise BadRequestError(f"{directive} must name a field and be a list: {directive}/finalizers: […]")
    return {name.removeprefix(f"{directive}/"): value for name, value in found.items()}


def _field(schema: Schema, name: str) -> Schema:
    """The schema of a field; nothing is known of fields that there are not."""
    whole = resolved(schema)
    found: Schema = whole.get("properties", {}).get(name) or whole.get("additionalProperties") or {}
    return found


def _merge_field(made: Object, name: str, value: Json, field: Schema, order: list[Json] | None) -> None:
    there = made.get(name)
    if value is None and order is None:
        made.pop(name, None)
    elif isinstance(there, dict) and isinstance(value, dict):
        made[name] = _object(there, value, field)
    elif isinstance(there, list) and isinstance(value, list):
        made[name] = _list(there, value, field, order)
    elif isinstance(there, list) and value is None and order is not None:
        made[name] = in_order(there, order, there, field.get(MERGE_KEY))
    elif value is not None and not _is_directive(value):
        made[name] = _cleaned(value)
    elif value is not None:
        made.pop(name, None)


def _list(target: list[Json], patch: list[Json], field: Schema, order: list[Json] | None) -> list[Json]:
    if "merge" not in field.get(STRATEGY, ""):
        return [_cleaned(member) for member in patch]
    key = field.get(MERGE_KEY)
    if order is not None:
        _check_order(patch, order, key)
    if key is None:
        made, mentioned = unique([*target, *patch]), patch
    else:
        made, mentioned = _members(target, patch, key, field["items"])
    before = target if mentioned else made
    return in_order(made, mentioned if order is None else order, before, key)


def _check_order(patch: list[Json], order: list[Json], key: str | None) -> None:
    """Members must be said in the order that is asked for, and all of them must have a place in it."""
    staying = [keyed(member, key) for member in patch if not _is_directive(member)]
    places = iter([keyed(member, key) for member in order])
    if not all(member in places for member in staying):
        raise InvalidError(f"the order of a list in the patch is not that of its {_ORDER}")


def _members(
    target: list[Json], patch: list[Json], key: str, schema: Schema
) -> tuple[list[Json], list[Json]]:
    """The members after the merge, and those of the patch that were merged."""
    plain = [member for member in members_of(patch, key) if _PATCH not in member]
    directives = {keyed(member, key): member[_PATCH] for member in members_of(patch, key) if _PATCH in member}
    if wrong := [value for value in directives.values() if value not in ("replace", "delete")]:
        raise InvalidError(f"no directive for a member of a list: '$patch: {shown(wrong[0])}'")
    if "replace" in directives.values():
        return [_cleaned(member) for member in plain], []
    made = {
        number: member
        for number, member in enumerate(target)
        if directives.get(keyed(member, key)) != "delete"
    }
    places = {keyed(member, key): number for number, member in reversed(made.items())}
    for number, member in enumerate(plain, start=len(target)):
        place = places.setdefault(keyed(member, key), number)
        made[place] = _object(made[place], member, schema) if place in made else _cleaned(member)
    return list(made.values()), plain


def _is_directive(value: Json) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _cleaned(value: Json) -> Json:
    """Something that is new: there is nothing that its nulls and directives could be about."""
    if isinstance(value, dict):
        return {
            name: _cleaned(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith(_DIRECTIVES) and not _is_directive(inner)
        }
    if isinstance(value, list):
        return [_cleaned(member) for member in value if not _is_directive(member)]
    return value
