"""Exact Kubernetes quantities, and durations.

A quantity is a decimal number with an optional suffix: `100m`, `1.5Gi`, `1e3`, `0.1`. It is stored as an
integer number of nano-units, the smallest unit of Kubernetes (anything finer is rounded up, as the API server
does), so that sums are exact and no float is involved.

The engine uses larger integer units: thousandths for CPU, ones for all other resources. Requests of pods are
rounded up and capacities of nodes are rounded down, so that rounding never overcommits a node.

A duration is written as `30s`, `1m30s` or `2h`.
"""

import functools
import re
from typing import Final

from shoal.api.fields import described, shown

NANO: Final = 10**9
_MAX_VALUE: Final = 2**60
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
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<integer>\d*)(?:\.(?P<fraction>\d*))?(?:[eE](?P<exponent>[+-]?\d{1,3})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
_MAX_LENGTH: Final = 64


class Quantity:
    """An exact, non-negative Kubernetes quantity; `Quantity("1.5Gi")`."""

    __slots__ = ("nano",)

    def __init__(self, text: object) -> None:
        """Parse a string, or a number as decoded from YAML or JSON; ValueError if it is not a quantity."""
        self.nano: Final = _parse(_text_of(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({self.nano}n)"


def format_milli(milli: int) -> str:
    """Format thousandths as a Kubernetes quantity: 1500 → `1500m`, 2000 → `2`."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def format_bytes(value: int) -> str:
    """Format an integer as the shortest exact Kubernetes quantity: 8589934592 → `8Gi`, 100000000 → `100M`."""
    exact = [
        f"{value // factor}{suffix}"
        for suffix, (factor, divisor) in _SUFFIXES.items()
        if divisor == 1 and value % factor == 0
    ]
    return "0" if value == 0 else min(exact, key=len)


def format_nano(nano: int) -> str:
    """Format nano-units as a Kubernetes quantity, exactly: 500000000 → `500m`, 2**30 * 10**9 → `1Gi`."""
    if nano % 10**6:
        return f"{nano}n"
    return format_milli(nano // 10**6) if nano % NANO else format_bytes(nano // NANO)


def _text_of(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise _malformed(value)


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match["integer"] or match["fraction"]):
        raise _malformed(text)
    fraction = match["fraction"] or ""
    digits = int(match["integer"] + fraction)
    factor, divisor = _SUFFIXES[match["suffix"] or ""]
    exponent = int(match["exponent"] or 0) - len(fraction)
    numerator = digits * factor * NANO * 10 ** max(exponent, 0)
    nano: int = -(-numerator // (divisor * 10 ** max(-exponent, 0)))
    if match["sign"] == "-" and nano:
        raise ValueError(f"must be 0 or more, not {described(text)}")
    if nano > _MAX_VALUE * NANO:
        raise ValueError(f"must be at most 1Ei, not {described(text)}")
    return nano


def _malformed(value: object) -> ValueError:
    return ValueError(f"must be a quantity such as 500m, 2 or 1.5Gi, not {described(value)}")


_DURATION: Final = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?")


def parse_duration(duration: str | float) -> float:
    """Parse a duration such as `30s`, `1m30s` or `2h`, or a number, into seconds; ValueError otherwise."""
    if not isinstance(duration, str):
        return float(duration)
    match = _DURATION.fullmatch(duration)
    if not duration or match is None:
        raise ValueError(f"must be a duration such as 30s, 5m or 1h30m, not '{shown(duration)}'")
    return float(match["h"] or 0) * 3600 + float(match["m"] or 0) * 60 + float(match["s"] or 0)
