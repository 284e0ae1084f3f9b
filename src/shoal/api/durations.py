"""Lengths of time, as people write them."""

import re
from typing import Final

from shoal.api.fields import shown

_DURATION: Final = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?")


def seconds(duration: str | float) -> float:
    """A duration such as `30s`, `1m30s`, `2h` or a plain number of seconds; ValueError otherwise."""
    if not isinstance(duration, str):
        return float(duration)
    match = _DURATION.fullmatch(duration)
    if not duration or match is None:
        raise ValueError(f"must be a duration such as 30s, 5m or 1h30m, not '{shown(duration)}'")
    return float(match["h"] or 0) * 3600 + float(match["m"] or 0) * 60 + float(match["s"] or 0)
