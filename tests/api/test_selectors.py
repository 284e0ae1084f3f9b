"""Label selectors and tolerations: matching, comparison of integers, validation."""

from typing import Any

import pytest

from shoal.api.decode import decode
from shoal.api.selectors import (
    LabelSelector,
    Taint,
    Toleration,
    compare_integers,
    label_selector_errors,
    toleration_errors,
)

LABELS = {"app": "web", "tier": "front", "empty": ""}


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SELECTORS: list[tuple[str, dict[str, Any], bool]] = [
    ("an empty selector matches all", {}, True),
    ("equal labels", {"matchLabels": {"app": "web"}}, True),
    ("another value", {"matchLabels": {"app": "db"}}, False),
    ("an absent label", {"matchLabels": {"zone": ""}}, False),
    ("In", _expression("app", "In", "db", "web"), True),
    ("In without the label", _expression("zone", "In", "a"), False),
    ("NotIn", _expression("app", "NotIn", "web"), False),
    ("NotIn without the label", _expression("zone", "NotIn", "a"), True),
    ("Exists", _expression("empty", "Exists"), True),
    ("Exists without the label", _expression("zone", "Exists"), False),
    ("DoesNotExist", _expression("app", "DoesNotExist"), False),
    ("DoesNotExist without the label", _expression("zone", "DoesNotExist"), True),
    (
        "all expressions must match",
        {"matchLabels": {"app": "web"}, **_expression("tier", "In", "back")},
        False,
    ),
]


@pytest.mark.parametrize("sentence, raw, matches", SELECTORS, ids=[row[0] for row in SELECTORS])
def test_label_selectors(sentence: str, raw: dict[str, Any], *, matches: bool) -> None:
    assert decode(LabelSelector, raw).matches(LABELS) is matches, sentence


TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")
TOLERATIONS: list[tuple[str, dict[str, Any], bool]] = [
    ("equal", {"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
    ("an empty operator means Equal", {"key": "gpu", "operator": "", "value": "yes"}, True),
    ("all effects", {"key": "gpu", "value": "yes"}, True),
    ("another effect", {"key": "gpu", "value": "yes", "effect": "NoExecute"}, False),
    ("another value", {"key": "gpu", "value": "no"}, False),
    ("another key", {"key": "cpu", "operator": "Exists"}, False),
    ("Exists ignores the value", {"key": "gpu", "operator": "Exists"}, True),
    ("all taints", {"operator": "Exists"}, True),
    ("an empty key with Equal matches nothing", {"value": "yes"}, False),
]


@pytest.mark.parametrize("sentence, raw, tolerates", TOLERATIONS, ids=[row[0] for row in TOLERATIONS])
def test_tolerations(sentence: str, raw: dict[str, Any], *, tolerates: bool) -> None:
    assert decode(Toleration, raw).tolerates(TAINT) is tolerates, sentence


def test_tolerations_compare_integers() -> None:
    taint = Taint(key="load", value="5", effect="NoSchedule")
    above = Toleration(key="load", operator="Gt", value="3")
    assert above.tolerates(taint)
    assert not Toleration(key="load", operator="Lt", value="3").tolerates(taint)
    assert not above.tolerates(Taint(key="load", value="high", effect="NoSchedule"))


COMPARISONS: list[tuple[str, str, str, str, bool]] = [
    ("greater", "10", "Gt", "9", True),
    ("less", "-10", "Lt", "9", True),
    ("equal is neither", "9", "Gt", "9", False),
    ("a sign is part of a number", "+10", "Gt", "9", True),
    ("an underscore is not a digit", "1_0", "Gt", "9", False),
    ("nor on the right", "10", "Gt", "0_9", False),
    ("a superscript is not a digit", "1²", "Gt", "9", False),
    ("an Arabic digit is not accepted", "١٠", "Gt", "9", False),  # noqa: RUF001 - on purpose
    ("white space is not part of a number", " 10", "Gt", "9", False),
    ("an empty string is not a number", "", "Lt", "9", False),
]


@pytest.mark.parametrize(
    "sentence, left, operator, right, holds", COMPARISONS, ids=[row[0] for row in COMPARISONS]
)
def test_comparisons(sentence: str, left: str, operator: str, right: str, *, holds: bool) -> None:
    assert compare_integers(left, operator, right) is holds, sentence


INVALID_SELECTORS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "In requires values",
        _expression("a", "In"),
        ["s.matchExpressions[0].values: must have at least one value when operator is In"],
    ),
    (
        "Exists allows no values",
        _expression("a", "Exists", "x"),
        ["s.matchExpressions[0].values: must be empty when operator is Exists"],
    ),
    ("valid", _expression("example.com/a", "In", "x"), []),
]


@pytest.mark.parametrize(
    "sentence, raw, errors", INVALID_SELECTORS, ids=[row[0] for row in INVALID_SELECTORS]
)
def test_selector_errors(sentence: str, raw: dict[str, Any], errors: list[str]) -> None:
    assert [str(error) for error in label_selector_errors(decode(LabelSelector, raw), "s")] == errors, (
        sentence
    )


def test_toleration_errors() -> None:
    invalid = [Toleration(value="x"), Toleration(key="a", operator="Exists", value="x")]
    assert [str(error) for error in toleration_errors(invalid, "t")] == [
        "t[0].operator: must be Exists when key is empty, which means all keys",
        "t[1].value: must be empty when operator is Exists",
    ]
