"""Stores: what reflectors hear, by key and by whatever else."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.object_store import Change, Gone, Put
from shoal.cluster.resources import NODES, PODS
from shoal.controllers.stores import Store, Stores

Heard = tuple[tuple[str, str], str | None, str | None]


def test_one_store_serves_all_who_read_a_resource() -> None:
    stores = Stores()
    assert id(stores.of(PODS)) == id(stores.of(PODS.read_as(bytes)))
    assert id(stores.of(PODS)) != id(stores.of(NODES))


def test_whoever_is_told_of_a_change_finds_it_in_the_indices() -> None:
    store = Store[str]()
    heard: list[list[str]] = []
    store.subscribe(lambda _key, _old, _new: heard.append(index["l"]))
    index = store.index(lambda item: item)
    store([Put(("d", "a"), "1", "l"), Put(("d", "a"), "2", "m"), Gone(("d", "a"))])
    assert heard == [["l"], [], []]


def test_changes_are_told_with_what_was_before() -> None:
    store = Store[str]()
    heard: list[Heard] = []
    store.subscribe(lambda key, old, new: heard.append((key, old, new)))
    key = ("d", "a")
    store([Put(key, "1", "one"), Put(key, "7", "two")])
    assert (heard, store.version(key)) == ([(key, None, "one"), (key, "one", "two")], 7)
    store([Gone(key)])
    assert (heard[2:], store.version(key)) == ([(key, "two", None)], -1)


CHANGES: st.SearchStrategy[list[Change[str]]] = st.lists(
    st.builds(
        lambda name, letters: Put(("d", name), "1", letters) if letters else Gone(("d", name)),
        st.sampled_from("ab"),
        st.none() | st.text("xyz", max_size=3),
    )
)


@given(CHANGES)
def test_an_index_has_what_a_search_would_find(changes: list[Change[str]]) -> None:
    store = Store[str]()
    index = store.index(set)
    store(changes)
    for letter in "xyz":
        assert index[letter] == [item for _, item in sorted(store.items.items()) if letter in item]
