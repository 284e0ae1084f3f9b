"""Parsing of manifests: YAML 1.1 as Kubernetes reads it, lists, and hostile input."""

import json
from typing import Any

import pytest

from shoal.api import manifest
from shoal.api.manifest import ManifestError, read

VALUES: list[tuple[str, str, Any]] = [
    ("a time is a string", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ("a date is a string", "2026-01-31", "2026-01-31"),
    ("a sexagesimal number is a string", "1:30", "1:30"),
    ("yes is true", "yes", True),
    ("Off is false", "Off", False),
    ("a quoted yes is a string", "'yes'", "yes"),
    ("n is a string", "n", "n"),
    ("an empty value is null", "", None),
    ("a tilde is null", "~", None),
    ("octal as in YAML 1.1", "0644", 420),
    ("octal as in YAML 1.2", "0o644", 420),
    ("hexadecimal", "-0x1F", -31),
    ("binary", "0b101", 5),
    ("digits that are not octal", "0899", "0899"),
    ("a version is a float", "1.10", 1.1),
    ("an exponent without a sign is a string", "1e3", "1e3"),
    ("an exponent with a sign is a number", "1e+3", 1000.0),
    ("a number above all floats is a string", "1.0e+999", "1.0e+999"),
    ("NaN is a string", ".nan", ".nan"),
    ("a very long number is a string", "9" * 200, "9" * 200),
    ("a very long hexadecimal number is a string", "0x" + "f" * 200, "0x" + "f" * 200),
    ("a string by its tag", "!!str 5", "5"),
    ("an unknown tag is ignored", "!thing 5", 5),
    ("a block keeps its lines", "|\n  x\n  y\n", "x\ny\n"),
    ("an underscore is not a digit", "1_000", "1_000"),
]

TEXTS: list[tuple[str, bytes, list[Any]]] = [
    ("several documents", b"a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
    ("empty documents are skipped", b"---\n---\na: 1\n---\n# nothing\n", [{"a": 1}]),
    ("an empty list, as kubectl prints it", b"kind: List\nitems: []\n", []),
    ("a list whose items are null", b"kind: List\nitems:\n", []),
    (
        "concatenated JSON documents",
        b'{"a": 1}\n{"b": [2]} {"c": 3}\n',
        [{"a": 1}, {"b": [2]}, {"c": 3}],
    ),
    ("a byte order mark", b"\xef\xbb\xbfa: 1\n", [{"a": 1}]),
    ("a byte order mark before JSON", b'\xef\xbb\xbf{"a": 1}', [{"a": 1}]),
    ("line endings of Windows", b"a: 1\r\nb:\r\n- 2\r\n", [{"a": 1, "b": [2]}]),
    ("JSON", b' {"a": [1, null]}', [{"a": [1, None]}]),
    ("YAML that looks like JSON", b"{a: 1, b: yes}", [{"a": 1, "b": True}]),
    ("an alias", b"a: &x [1]\nb: *x\n", [{"a": [1], "b": [1]}]),
    (
        "a merge key",
        b"a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n",
        [{"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}],
    ),
    (
        "several merged mappings: the first takes precedence",
        b"- &x {p: 1}\n- &y {p: 2, q: 2}\n- <<: [*x, *y]\n",
        [[{"p": 1}, {"p": 2, "q": 2}, {"p": 1, "q": 2}]],
    ),
    (
        "a merge key after an entry that it does not replace",
        b"- &x {p: 1, q: 1}\n- {q: 2, <<: *x, r: 3}\n- *x\n",
        [[{"p": 1, "q": 1}, {"q": 2, "r": 3, "p": 1}, {"p": 1, "q": 1}]],
    ),
    ("a merge key without a mapping is an ordinary key", b"<<: [1]\n", [{"<<": [1]}]),
    (
        "keys are strings",
        b"1: a\ntrue: b\nnull: c\n1.5: d\n",
        [{"1": "a", "true": "b", "null": "c", "1.5": "d"}],
    ),
    ("documents with anchors", b"a: &x 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
]

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(c + 1)}: &{chr(c + 1)} [{', '.join([f'*{chr(c)}'] * 10)}]\n" for c in range(ord("a"), ord("i"))
)
CHAIN = "".join(f"k{i}: &k{i} [{f'*k{i - 1}' if i else ''}]\n" for i in range(200))

REJECTED: list[tuple[str, bytes, str]] = [
    ("an alias bomb", BOMB.encode(), "more than 3000000 values after expansion of aliases"),
    ("nesting through aliases", CHAIN.encode(), "nested more than 100 levels deep"),
    ("an alias that contains itself", b"a: &a [*a]\n", "line 1: unknown alias *a"),
    ("deep flow lists", b"[" * 100_000, "is nested too deeply"),
    ("deep flow mappings", b"{" * 100_000, "nested more than 100 levels deep"),
    ("deep blocks", b"- " * 100_000, "nested more than 100 levels deep"),
    ("deep JSON", b'{"a":' * 100_000, "is nested too deeply"),
    ("a duplicate key", b"a: 1\nb: 2\na: 3\n", "line 3: key a is given twice"),
    ("a list as key", b"? [1]\n: 2\n", "a key must not be a list or a mapping"),
    ("a tab as indentation", b"a:\n\tb: 1\n", "line 2: "),
    ("binary", bytes(range(256)), "is not text in UTF-8 (byte 128)"),
    ("control characters", b"a: \x00\n", "is not YAML"),
    ("UTF-16", "a: 1".encode("utf-16"), "is not text in UTF-8 (byte 0)"),
    ("truncated JSON", b'{"a": 1', "is not YAML"),
    ("two mappings in one line", b"a: 1: 2\n", "line 1: mapping values are not allowed"),
    ("a Python object", b"!!python/object/apply:os.system [a: 1: 2]", "is not YAML"),
]


@pytest.mark.parametrize("sentence, text, value", VALUES, ids=[row[0] for row in VALUES])
def test_values(sentence: str, text: str, value: object) -> None:
    ((_, document),) = read(f"key: {text}\n".encode())
    assert document == {"key": value}, sentence
    assert isinstance(document, dict)
    assert type(document["key"]) is type(value)


@pytest.mark.parametrize("sentence, data, expected", TEXTS, ids=[row[0] for row in TEXTS])
def test_documents(sentence: str, data: bytes, expected: list[Any]) -> None:
    assert [document for _, document in read(data)] == expected, sentence


@pytest.mark.parametrize("sentence, data, message", REJECTED, ids=[row[0] for row in REJECTED])
def test_rejections(sentence: str, data: bytes, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        list(read(data))
    assert message in str(caught.value), sentence


LISTS: list[tuple[str, Any, list[tuple[str, Any]]]] = [
    ("an object", {"kind": "Pod"}, [("", {"kind": "Pod"})]),
    ("a List", {"kind": "List", "items": [{"kind": "Pod"}, 4]}, [("[0]", {"kind": "Pod"}), ("[1]", 4)]),
    (
        "items inherit the kind of their list",
        {"kind": "PodList", "apiVersion": "v1", "items": [{"a": 1}, {"kind": "Node"}]},
        [
            ("[0]", {"apiVersion": "v1", "kind": "Pod", "a": 1}),
            ("[1]", {"apiVersion": "v1", "kind": "Node"}),
        ],
    ),
    (
        "lists in lists",
        {"kind": "List", "items": [{"kind": "List", "items": [{"kind": "Pod"}]}]},
        [("[0][0]", {"kind": "Pod"})],
    ),
    ("an empty List", {"kind": "List", "items": []}, []),
    (
        "items of a kind that is not a list",
        {"kind": "Menu", "items": [1]},
        [("", {"kind": "Menu", "items": [1]})],
    ),
    ("a kind that is not a string", {"kind": 5, "items": [1]}, [("", {"kind": 5, "items": [1]})]),
    ("items that are not a list", {"kind": "List", "items": 5}, [("", {"kind": "List", "items": 5})]),
]


@pytest.mark.parametrize("sentence, document, expected", LISTS, ids=[row[0] for row in LISTS])
def test_lists(sentence: str, document: object, expected: list[tuple[str, Any]]) -> None:
    assert list(read(json.dumps(document).encode())) == expected, sentence
    assert list(read(b"# YAML\n" + json.dumps(document).encode())) == expected, sentence


def test_documents_are_numbered_when_there_are_several() -> None:
    text = b"a: 1\n---\nkind: List\nitems: [1, 2]\n---\nb: 2\n"
    assert [location for location, _ in read(text)] == ["#1", "#2[0]", "#2[1]", "#3"]


def test_documents_before_an_error_are_read() -> None:
    found = read(b"a: 1\n---\nb: 2\n---\nc: [\n")
    assert [next(found), next(found)] == [("#1", {"a": 1}), ("#2", {"b": 2})]
    with pytest.raises(ManifestError):
        next(found)


def test_merging_does_not_copy_so_that_its_cost_is_linear() -> None:
    value: dict[str, object] = {"<<": [{f"k{i}": i} for i in range(100)], "k0": "own"}
    assert manifest._apply_merge_key(value) is value
    assert value == {"k0": "own"} | {f"k{i}": i for i in range(1, 100)}
