"""Setting a condition: in which place, with which transition time."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from shoal.api.conditions import set_condition, with_condition
from shoal.api.meta import Condition

NOW = "2026-01-31T12:00:00Z"
BEFORE = "2026-01-30T12:00:00Z"

Raw = dict[str, Any]


def condition(kind: str, status: str, time: str = BEFORE, **more: str) -> Raw:
    return {"type": kind, "status": status, "lastTransitionTime": time} | more


CASES: dict[str, tuple[list[Raw], Raw, list[Raw]]] = {
    "the first condition": (
        [],
        {"type": "Ready", "status": "True", "reason": "HasNodes"},
        [condition("Ready", "True", NOW, reason="HasNodes")],
    ),
    "a condition of another type is appended": (
        [condition("Initialized", "True")],
        {"type": "Ready", "status": "False"},
        [condition("Initialized", "True"), condition("Ready", "False", NOW)],
    ),
    "a new status changes the time, not the place": (
        [condition("Ready", "False"), condition("Initialized", "True")],
        {"type": "Ready", "status": "True"},
        [condition("Ready", "True", NOW), condition("Initialized", "True")],
    ),
    "the same status keeps the time, whatever the reason and the message": (
        [condition("Ready", "False", reason="NoNodes", message="0 of 0")],
        {"type": "Ready", "status": "False", "reason": "NoUsableNode", "message": "0 of 3"},
        [condition("Ready", "False", reason="NoUsableNode", message="0 of 3")],
    ),
    "the old reason and message do not outlive their status": (
        [condition("Ready", "False", reason="NoNodes", message="0 of 0")],
        {"type": "Ready", "status": "True"},
        [condition("Ready", "True", NOW)],
    ),
    "Unknown is a status of its own": (
        [condition("Ready", "True")],
        {"type": "Ready", "status": "Unknown"},
        [condition("Ready", "Unknown", NOW)],
    ),
    "without a time the condition begins now": (
        [{"type": "Ready", "status": "True"}],
        {"type": "Ready", "status": "True", "reason": "HasNodes"},
        [condition("Ready", "True", NOW, reason="HasNodes")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_set_condition_of_objects(name: str) -> None:
    conditions, new, expected = CASES[name]
    assert set_condition(conditions, new, NOW) == expected


@pytest.mark.parametrize("name", CASES)
def test_with_condition_of_views(name: str) -> None:
    conditions, new, expected = CASES[name]
    views = msgspec.convert(conditions, tuple[Condition, ...])
    found = with_condition(views, msgspec.convert(new, Condition), datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert found == msgspec.convert(expected, tuple[Condition, ...])


def test_nothing_changes_if_the_object_has_the_condition() -> None:
    conditions = [condition("Ready", "True", reason="HasNodes", message="3 of 3")]
    assert set_condition(conditions, {"type": "Ready", "status": "True", "reason": "HasNodes"}, NOW) is None


def test_other_fields_of_the_old_condition_are_kept() -> None:
    conditions = [condition("PodScheduled", "False", observedGeneration="3")]
    assert set_condition(conditions, {"type": "PodScheduled", "status": "True"}, NOW) == [
        condition("PodScheduled", "True", NOW, observedGeneration="3")
    ]


def test_the_arguments_are_not_modified() -> None:
    conditions = [condition("Ready", "False")]
    set_condition(conditions, {"type": "Ready", "status": "True"}, NOW)
    assert conditions == [condition("Ready", "False")]
