"""Lists whose members have keys: which is which, and in which order they come."""

from collections import deque
from collections.abc import Iterable

import msgspec

from shoal.cluster.errors import InvalidError
from shoal.cluster.patches.merge import Json


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
