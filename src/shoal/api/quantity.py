"""Kubernetes quantities, exactly.

A quantity is a decimal number with an optional suffix: `100m`, `1.5Gi`, `1e3`, `0.1`. It is kept as a
whole number of nano-units, the finest step Kubernetes knows (anything finer is rounded up, as the API
server does), so that sums are sums of integers and no float ever takes part.

The engine counts in coarser whole steps: thousandths for CPU, ones for everything else. What a pod asks
for is rounded up to them and what a node has is rounded down, so rounding never gives away room that is
not there.

Lengths of time, as people write them.
"""

import functools
import re
from typing import Final

from shoal.api.fields import described, shown

NANO: Final = 10**9
_LIMIT: Final = 2**60
_SUFFIXES: Final = {
    "n": (1, NANO),
    "u": (1, 10**6),
    "m": (1, 1000),
    "": (1, 1),
    "k": (10**3, 1),
    "M": (10**6, 1),
    "G": (10**9, 1),
    "T": (10**12, 1),
    "P": (10**15, 1),
    "E": (10**18, 1),
    "Ki": (2**10, 1),
    "Mi": (2**20, 1),
    "Gi": (2**30, 1),
    "Ti": (2**40, 1),
    "Pi": (2**50, 1),
    "Ei": (2**60, 1),
}
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:[eE](?P<exponent>[+-]?\d{1,3})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
_MAX_TEXT: Final = 64


class Quantity:
    """An exact, non-negative Kubernetes quantity; `Quantity("1.5Gi")`."""

    __slots__ = ("nano",)

    def __init__(self, text: object) -> None:
        """Read a string, or a number as YAML and JSON give it; ValueError if it is not a quantity."""
        self.nano: Final = _parse(_text_of(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({self.nano}n)"


def format_milli(milli: int) -> str:
    """Thousandths in Kubernetes form: 1500 → `1500m`, 2000 → `2`."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def format_bytes(value: int) -> str:
    """Whole units in the shortest exact Kubernetes form: 8589934592 → `8Gi`, 100000000 → `100M`."""
    exact = [
        f"{value // factor}{suffix}"
        for suffix, (factor, divisor) in _SUFFIXES.items()
        if divisor == 1 and value % factor == 0
    ]
    return "0" if value == 0 else min(exact, key=len)


def _text_of(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise _malformed(value)


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    match = _FORM.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None or not (match["whole"] or match["part"]):
        raise _malformed(text)
    part = match["part"] or ""
    digits = int(match["whole"] + part)
    factor, divisor = _SUFFIXES[match["suffix"] or ""]
    exponent = int(match["exponent"] or 0) - len(part)
    numerator = digits * factor * NANO * 10 ** max(exponent, 0)
    nano: int = -(-numerator // (divisor * 10 ** max(-exponent, 0)))
    if match["sign"] == "-" and nano:
        raise ValueError(f"must be 0 or more, not {described(text)}")
    if nano > _LIMIT * NANO:
        raise ValueError(f"must be at most 1Ei, not {described(text)}")
    return nano


def _malformed(value: object) -> ValueError:
    return ValueError(f"must be a quantity such as 500m, 2 or 1.5Gi, not {described(value)}")


_DURATION: Final = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?")


def parse_duration(duration: str | float) -> float:
    """A duration such as `30s`, `1m30s`, `2h` or a plain number of seconds; ValueError otherwise."""
    if not isinstance(duration, str):
        return float(duration)
    match = _DURATION.fullmatch(duration)
    if not duration or match is None:
        raise ValueError(f"must be a duration such as 30s, 5m or 1h30m, not '{shown(duration)}'")
    return float(match["h"] or 0) * 3600 + float(match["m"] or 0) * 60 + float(match["s"] or 0)
