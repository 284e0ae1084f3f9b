"""Stores: objects by key and by index, and change handlers."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.object_store import Change, Deleted, Put
from shoal.cluster.resources import NODES, PODS
from shoal.controllers.stores import IndexedStore, Stores

Notified = tuple[tuple[str, str], str | None, str | None]


def test_one_store_serves_all_readers_of_a_resource() -> None:
    stores = Stores()
    assert id(stores.of(PODS)) == id(stores.of(PODS.read_as(bytes)))
    assert id(stores.of(PODS)) != id(stores.of(NODES))


def test_indexes_are_updated_before_handlers_are_called() -> None:
    store = IndexedStore[str]()
    seen: list[list[str]] = []
    store.subscribe(lambda _key, _old, _new: seen.append(index["l"]))
    index = store.index(lambda item: item)
    store([Put(("d", "a"), "1", "l"), Put(("d", "a"), "2", "m"), Deleted(("d", "a"))])
    assert seen == [["l"], [], []]


def test_handlers_get_the_old_and_the_new_object() -> None:
    store = IndexedStore[str]()
    seen: list[Notified] = []
    store.subscribe(lambda key, old, new: seen.append((key, old, new)))
    key = ("d", "a")
    store([Put(key, "1", "one"), Put(key, "7", "two")])
    assert (seen, store.version(key)) == ([(key, None, "one"), (key, "one", "two")], 7)
    store([Deleted(key)])
    assert (seen[2:], store.version(key)) == ([(key, "two", None)], -1)


CHANGES: st.SearchStrategy[list[Change[str]]] = st.lists(
    st.builds(
        lambda name, letters: Put(("d", name), "1", letters) if letters else Deleted(("d", name)),
        st.sampled_from("ab"),
        st.none() | st.text("xyz", max_size=3),
    )
)


@given(CHANGES)
def test_an_index_has_what_a_search_would_find(changes: list[Change[str]]) -> None:
    store = IndexedStore[str]()
    index = store.index(set)
    store(changes)
    for letter in "xyz":
        assert index[letter] == [item for _, item in sorted(store.items.items()) if letter in item]
