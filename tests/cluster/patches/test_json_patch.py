"""JSON patches: every operation, and every way in which one does not apply."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.errors import BadRequestError, ClusterError, InvalidError, TooLargeError
from shoal.cluster.patches import json_patch
from shoal.cluster.patches.json_patch import Json, apply_json_patch
from tests.cluster.patches.test_merge_patch import DOCUMENTS

DOCUMENT: Json = {"a": 1, "l": [1, 2, 3], "o": {"x/y": "slash", "t~": "tilde", "": "empty"}, "n": None}


def op(name: str, path: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"op": name, "path": path, **{key.rstrip("_"): value for key, value in more.items()}}


APPLIED: dict[str, tuple[list[dict[str, Any]], Json]] = {
    "no operations change nothing": ([], DOCUMENT),
    "add puts a new member": ([op("add", "/b", value=2)], DOCUMENT | {"b": 2}),
    "add replaces a member": ([op("add", "/a", value=2)], DOCUMENT | {"a": 2}),
    "add inserts into a list": ([op("add", "/l/1", value=9)], DOCUMENT | {"l": [1, 9, 2, 3]}),
    "add appends at the end": ([op("add", "/l/3", value=9)], DOCUMENT | {"l": [1, 2, 3, 9]}),
    "add appends at -": ([op("add", "/l/-", value=9)], DOCUMENT | {"l": [1, 2, 3, 9]}),
    "add replaces the whole": ([op("add", "", value={"z": 1})], {"z": 1}),
    "add takes null for a value": ([op("add", "/a", value=None)], DOCUMENT | {"a": None}),
    "remove takes a member": ([op("remove", "/o")], {k: v for k, v in DOCUMENT.items() if k != "o"}),
    "remove takes a member that is null": (
        [op("remove", "/n")],
        {k: v for k, v in DOCUMENT.items() if k != "n"},
    ),
    "remove closes the gap in a list": ([op("remove", "/l/0")], DOCUMENT | {"l": [2, 3]}),
    "replace puts another value": ([op("replace", "/l/2", value=9)], DOCUMENT | {"l": [1, 2, 9]}),
    "replace replaces the whole": ([op("replace", "", value=[])], []),
    "move moves": (
        [op("move", "/o/b", from_="/a")],
        {"l": [1, 2, 3], "o": DOCUMENT["o"] | {"b": 1}, "n": None},
    ),
    "move within a list counts after the removal": (
        [op("move", "/l/2", from_="/l/0")],
        DOCUMENT | {"l": [2, 3, 1]},
    ),
    "move to the same path changes nothing": ([op("move", "/a", from_="/a")], DOCUMENT),
    "copy copies": ([op("copy", "/b", from_="/l")], DOCUMENT | {"b": [1, 2, 3]}),
    "a copy is independent": (
        [op("copy", "/b", from_="/l"), op("add", "/b/-", value=4)],
        DOCUMENT | {"b": [1, 2, 3, 4]},
    ),
    "a test that holds changes nothing": ([op("test", "/l", value=[1, 2, 3])], DOCUMENT),
    "1 equals 1.0": ([op("test", "/a", value=1.0)], DOCUMENT),
    "an escaped slash is a slash": ([op("test", "/o/x~1y", value="slash")], DOCUMENT),
    "an escaped tilde is a tilde": ([op("test", "/o/t~0", value="tilde")], DOCUMENT),
    "an empty name is a name": ([op("test", "/o/", value="empty")], DOCUMENT),
    "operations see the results of earlier ones": (
        [op("add", "/b", value=[]), op("add", "/b/0", value=1), op("test", "/b/0", value=1)],
        DOCUMENT | {"b": [1]},
    ),
    "unknown fields are ignored": ([op("test", "/a", value=1, comment="x")], DOCUMENT),
}

INVALID: dict[str, tuple[Json, type[ClusterError], str]] = {
    "an object is not a patch": ({"op": "add"}, BadRequestError, "not a JSON patch"),
    "a list of numbers is not a patch": ([1], BadRequestError, "not a JSON patch"),
    "a path must be a string": ([{"op": "add", "path": 1, "value": 1}], BadRequestError, "not a JSON patch"),
    "an unknown operation": (
        [op("merge", "/a")],
        InvalidError,
        "unknown operation of a JSON patch: 'merge'",
    ),
    "an operation without a name": ([{"path": "/a"}], InvalidError, "unknown operation of a JSON patch: ''"),
    "no path": ([{"op": "remove"}], InvalidError, "operation 0 (remove): 'remove' needs a 'path'"),
    "no value": ([op("add", "/a")], InvalidError, "operation 0 (add): 'add' needs a 'value'"),
    "no source": ([op("copy", "/a")], InvalidError, "operation 0 (copy): 'copy' needs a 'from'"),
    "no slash at the start": ([op("remove", "a")], InvalidError, "not a JSON pointer: 'a'"),
    "a tilde that escapes nothing": ([op("remove", "/o/~2")], InvalidError, "not a JSON pointer: '/o/~2'"),
    "nothing to remove": ([op("remove", "/b")], InvalidError, "there is no 'b'"),
    "nothing to replace": ([op("replace", "/b", value=1)], InvalidError, "there is no 'b'"),
    "a missing parent": ([op("add", "/b/c", value=1)], InvalidError, "there is no 'b'"),
    "a number as grandparent": ([op("add", "/a/c/d", value=1)], InvalidError, "neither a list nor an object"),
    "removal from a number": ([op("remove", "/a/c")], InvalidError, "neither a list nor an object"),
    "a move out of a number": (
        [op("move", "/b", from_="/a/c")],
        InvalidError,
        "neither a list nor an object",
    ),
    "a number as parent": ([op("add", "/a/c", value=1)], InvalidError, "neither a list nor an object"),
    "an index after the end": (
        [op("add", "/l/4", value=1)],
        InvalidError,
        "there is no index '4' in a list of 3",
    ),
    "an index with a zero before it": ([op("remove", "/l/01")], InvalidError, "there is no index '01'"),
    "a negative index": ([op("remove", "/l/-1")], InvalidError, "there is no index '-1'"),
    "a name in a list": ([op("remove", "/l/x")], InvalidError, "there is no index 'x'"),
    "an index of digits that are not ASCII": ([op("remove", "/l/\u0661")], InvalidError, "there is no index"),
    "- does not exist yet": ([op("replace", "/l/-", value=1)], InvalidError, "there is no index '-'"),
    "the whole cannot be removed": ([op("remove", "")], InvalidError, "the whole object"),
    "a value cannot be moved into itself": ([op("move", "/o/a/b", from_="/o")], InvalidError, "into itself"),
    "a test that fails": ([op("test", "/a", value=2)], InvalidError, "the test failed"),
    "a test of a type": ([op("test", "/a", value=True)], InvalidError, "the test failed"),
    "a test of nothing": ([op("test", "/b", value=None)], InvalidError, "there is no 'b'"),
    "the message has the number of the operation": (
        [op("test", "/a", value=1), op("remove", "/b")],
        InvalidError,
        "operation 1 (remove)",
    ),
}


@pytest.mark.parametrize("name", APPLIED)
def test_json_patch(name: str) -> None:
    patch, expected = APPLIED[name]
    assert apply_json_patch(DOCUMENT, patch) == expected


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_patch(name: str) -> None:
    patch, error, message = INVALID[name]
    with pytest.raises(error) as caught:
        apply_json_patch(DOCUMENT, patch)
    assert message in caught.value.message


def test_too_many_operations() -> None:
    with pytest.raises(TooLargeError):
        apply_json_patch({}, [op("add", "/a", value=1)] * (json_patch.MAX_OPERATIONS + 1))


def test_copied_bytes_are_limited() -> None:
    doubling = [op("copy", "/l/-", from_="/l")] * 40
    with pytest.raises(InvalidError, match="copies more than"):
        apply_json_patch({"l": ["x" * 100]}, doubling)


POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": POINTERS,
        "from": POINTERS,
        "value": DOCUMENTS,
    }
)


@given(DOCUMENTS, st.lists(OPERATIONS, max_size=4))
def test_the_arguments_are_not_modified(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    with contextlib.suppress(InvalidError):
        apply_json_patch(target, patch)
    assert (target, patch) == before


@given(DOCUMENTS, DOCUMENTS)
def test_any_json_is_applied_or_rejected(target: Json, patch: Json) -> None:
    with contextlib.suppress(BadRequestError, InvalidError):
        apply_json_patch(target, patch)
