"""An object store reports what changes: for deleted, recreated and undecodable objects too."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.object_store import (
    Change,
    DecodeFailure,
    Deleted,
    Entry,
    Key,
    ObjectCache,
    ObjectStore,
    Put,
    as_entries,
)
from shoal.cluster.reflector import DecodedItems, EventHandler, EventHandlers
from shoal.cluster.resources import CONFIG_MAPS, Text

KEYS = [("ns", "a"), ("ns", "b"), ("", "c")]
FAILURE = DecodeFailure("is invalid")
StoreEntry = Entry[DecodedItems]


def entry(key: Key, uid: str, version: str) -> StoreEntry:
    """Decode an object for two handlers; each fails to decode one version."""
    text = f"{key} {uid} {version}"
    return Entry(key, uid, version, tuple(FAILURE if version == bad else text for bad in ("3", "4")))


ENTRIES = st.builds(
    entry,
    st.sampled_from(KEYS),
    st.sampled_from(["u1", "u2"]),
    st.sampled_from(["1", "2", "3", "4"]),
)
LISTS = st.lists(ENTRIES, unique_by=lambda found: found.key)


class CheckedCache(ObjectCache[str]):
    """Fails if an unknown object is deleted, or an object is replaced by another before its deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.uids: dict[tuple[str, str], str] = {}

    def __call__(self, changes: Sequence[Change[str]]) -> None:  # type: ignore[override]
        assert changes
        for change in changes:
            if isinstance(change, Deleted):
                del self.uids[change.key]
            else:
                uid = change.item.split()[-2]
                assert self.uids.setdefault(change.key, uid) == uid
        super().__call__(changes)


class TwoHandlers:
    """Two handlers of the same objects, each with a cache."""

    def __init__(self) -> None:
        self.caches = CheckedCache(), CheckedCache()
        self._handlers = [EventHandler(CONFIG_MAPS.read_as(str), cache) for cache in self.caches]
        self.all = EventHandlers()
        for handler in self._handlers:
            self.all.add(handler)

    def know(self, objects: dict[Key, Any]) -> bool:
        """Return whether each handler knows the objects that it can decode, and those that it cannot."""
        return all(
            cache.items == {key: items[i] for key, items in objects.items() if items[i] is not FAILURE}
            and handler.undecodable
            == {key: "is invalid" for key, items in objects.items() if items[i] is FAILURE}
            for i, (cache, handler) in enumerate(zip(self.caches, self._handlers, strict=True))
        )


@given(st.lists(LISTS, max_size=6))
def test_after_a_list_every_decodable_object_is_known(lists: list[list[StoreEntry]]) -> None:
    store, handlers = ObjectStore[DecodedItems](), TwoHandlers()
    for entries in lists:
        handlers.all.handle(store.replace(entries))
        assert handlers.know({found.key: found.item for found in entries})


@given(LISTS)
def test_the_same_list_again_changes_nothing(entries: list[StoreEntry]) -> None:
    store = ObjectStore[DecodedItems]()
    store.replace(entries)
    assert store.replace(entries) == []


@given(LISTS, st.lists(st.tuples(st.booleans(), ENTRIES), max_size=10))
def test_events_update_what_is_known(
    entries: list[StoreEntry], events: list[tuple[bool, StoreEntry]]
) -> None:
    store, handlers = ObjectStore[DecodedItems](), TwoHandlers()
    handlers.all.handle(store.replace(entries))
    known = {found.key: found for found in entries}
    for exists, event in events:
        before = known.get(event.key)
        if exists and (before is None or (before.uid, before.version) != (event.uid, event.version)):
            known[event.key] = event
        if not exists and before is not None and before.uid == event.uid:
            del known[event.key]
        handlers.all.handle(list(store.put(event) if exists else store.remove(event)))
        assert handlers.know({key: found.item for key, found in known.items()})


@given(LISTS, st.sets(st.sampled_from(KEYS)))
def test_only_retained_objects_stay(entries: list[StoreEntry], keys: set[Key]) -> None:
    store = ObjectStore[DecodedItems]()
    store.replace(entries)
    assert store.retain(keys) == [Deleted(found.key) for found in entries if found.key not in keys]
    assert store.retain(keys) == []


def test_a_recreated_object_is_deleted_first() -> None:
    store = ObjectStore[DecodedItems]()
    first, recreated = entry(KEYS[0], "u1", "1"), entry(KEYS[0], "u2", "2")
    store.replace([first])
    assert store.replace([recreated]) == [Deleted(KEYS[0]), Put(KEYS[0], "2", recreated.item)]


def test_an_object_that_cannot_be_decoded_has_its_identity() -> None:
    def refuse(_: Text) -> Any:  # noqa: ANN401 - as decoders do
        raise ValueError("is invalid")

    text = json.dumps(
        {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}
    ).encode()
    decoded = as_entries(CONFIG_MAPS.read_as(refuse)).decode(text)
    assert decoded == Entry(("ns", "a"), "u", "7", FAILURE)


def test_an_object_without_metadata_is_a_decode_failure() -> None:
    decoded = as_entries(CONFIG_MAPS).decode(b'{"metadata": 5}')
    assert decoded.key == ("", "")
    assert isinstance(decoded.item, DecodeFailure)
    assert "Expected `object`" in decoded.item.message
