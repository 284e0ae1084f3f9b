"""Durations and ages, as kubectl prints them."""

import pytest

from shoal.cluster.times import format_age, format_duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
LENGTHS = {
    -2: "<invalid>",
    -1: "0s",
    0: "0s",
    119: "119s",
    2 * MINUTE: "2m",
    2 * MINUTE + 1: "2m1s",
    10 * MINUTE - 1: "9m59s",
    10 * MINUTE + 59: "10m",
    3 * HOUR - 1: "179m",
    3 * HOUR: "3h",
    3 * HOUR + 5 * MINUTE: "3h5m",
    8 * HOUR + 59 * MINUTE: "8h",
    2 * DAY - 1: "47h",
    2 * DAY: "2d",
    2 * DAY + 3 * HOUR: "2d3h",
    8 * DAY + 3 * HOUR: "8d",
    2 * YEAR - 1: "729d",
    2 * YEAR: "2y",
    2 * YEAR + 3 * DAY: "2y3d",
    8 * YEAR + 300 * DAY: "8y",
}


@pytest.mark.parametrize("seconds", LENGTHS)
def test_durations_are_short(seconds: int) -> None:
    assert format_duration(seconds) == LENGTHS[seconds]


@pytest.mark.parametrize("time", [None, "", "yesterday", 5])
def test_invalid_times_are_unknown(time: object) -> None:
    assert format_age(time, 0.0) == "<unknown>"


def test_ages_are_relative_to_now() -> None:
    assert format_age("1970-01-01T00:01:00Z", 90.0) == "30s"
