"""What a follower knows is what it was told last, whoever was deleted, made again or cannot be read."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.object_store import (
    Audience,
    Cache,
    Change,
    Entry,
    Gone,
    Key,
    Listener,
    Mirror,
    Put,
    Readings,
    Unreadable,
    entries_of,
)
from shoal.cluster.resources import CONFIG_MAPS, Text

KEYS = [("ns", "a"), ("ns", "b"), ("", "c")]


NONSENSE = Unreadable("is nonsense")
Found = Entry[Readings]


def entry(key: Key, uid: str, version: str) -> Found:
    """What is read of an object depends on nothing but the object: each listener cannot read one version."""
    said = f"{key} {uid} {version}"
    return Entry(key, uid, version, tuple(NONSENSE if version == bad else said for bad in ("3", "4")))


ENTRIES = st.builds(
    entry,
    st.sampled_from(KEYS),
    st.sampled_from(["u1", "u2"]),
    st.sampled_from(["1", "2", "3", "4"]),
)
LISTS = st.lists(ENTRIES, unique_by=lambda found: found.key)


class Checked(Cache[str]):
    """Complains when it is told of the end of what was not there, or of another before the end of one."""

    def __init__(self) -> None:
        super().__init__()
        self.uids: dict[tuple[str, str], str] = {}

    def __call__(self, changes: Sequence[Change[str]]) -> None:  # type: ignore[override]
        assert changes
        for change in changes:
            if isinstance(change, Gone):
                del self.uids[change.key]
            else:
                uid = change.item.split()[-2]
                assert self.uids.setdefault(change.key, uid) == uid
        super().__call__(changes)


class Two:
    """Two who hear of the same objects."""

    def __init__(self) -> None:
        self.caches = Checked(), Checked()
        self._listeners = [Listener(CONFIG_MAPS.read_as(str), cache) for cache in self.caches]
        self.audience = Audience()
        for listener in self._listeners:
            self.audience.join(listener)

    def know(self, there: dict[Key, Any]) -> bool:
        """Whether each knows what there is, as far as it can read it, and what it cannot read."""
        return all(
            cache.items == {key: one[i] for key, one in there.items() if one[i] is not NONSENSE}
            and listener.unreadable
            == {key: "is nonsense" for key, one in there.items() if one[i] is NONSENSE}
            for i, (cache, listener) in enumerate(zip(self.caches, self._listeners, strict=True))
        )


@given(st.lists(LISTS, max_size=6))
def test_after_a_list_all_that_is_readable_is_there(lists: list[list[Found]]) -> None:
    mirror, two = Mirror[Readings](), Two()
    for listed in lists:
        two.audience.take(mirror.replace(listed))
        assert two.know({found.key: found.item for found in listed})


@given(LISTS)
def test_the_same_list_again_tells_nothing(listed: list[Found]) -> None:
    mirror = Mirror[Readings]()
    mirror.replace(listed)
    assert mirror.replace(listed) == []


@given(LISTS, st.lists(st.tuples(st.booleans(), ENTRIES), max_size=10))
def test_events_keep_it_up_to_date(listed: list[Found], events: list[tuple[bool, Found]]) -> None:
    mirror, two = Mirror[Readings](), Two()
    two.audience.take(mirror.replace(listed))
    known = {found.key: found for found in listed}
    for is_there, told in events:
        before = known.get(told.key)
        if is_there and (before is None or (before.uid, before.version) != (told.uid, told.version)):
            known[told.key] = told
        if not is_there and before is not None and before.uid == told.uid:
            del known[told.key]
        two.audience.take(list(mirror.put(told) if is_there else mirror.remove(told)))
        assert two.know({key: found.item for key, found in known.items()})


def test_who_was_made_again_is_gone_first() -> None:
    mirror = Mirror[Readings]()
    first, again = entry(KEYS[0], "u1", "1"), entry(KEYS[0], "u2", "2")
    mirror.replace([first])
    assert mirror.replace([again]) == [Gone(KEYS[0]), Put(KEYS[0], "2", again.item)]


def test_an_object_is_read_with_its_name_even_if_nothing_can_be_made_of_it() -> None:
    def refuse(_: Text) -> Any:  # noqa: ANN401 - as decoders do
        raise ValueError("is nonsense")

    text = json.dumps(
        {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
    ).encode()
    read = entries_of(CONFIG_MAPS.read_as(refuse)).decode(text)
    assert read == Entry(("ns", "a"), "u", "7", NONSENSE)


def test_what_has_no_metadata_is_no_end() -> None:
    read = entries_of(CONFIG_MAPS).decode(b'{"metadata": 5}')
    assert read.key == ("", "")
    assert isinstance(read.item, Unreadable)
    assert "Expected `object`" in read.item.problem
