"""Dooms: what a pod is told that must leave, in words that can be read back.

The words stand in the message of its DisruptionTarget condition. Whoever sends pods away may be stopped when
some of them have been told: what it had in mind is in the words, and whoever comes next goes on with it.
"""

import re
from typing import Final

import msgspec

DISRUPTION: Final = "DisruptionTarget"
"""The condition by which everybody knows that a pod does not fail: it is sent away."""

_WORDS: Final = re.compile(r"Shoal: (?P<reason>\w+)(?: with all of (?P<whole>\S+))?(?: for (?P<whom>\S+))?")


class Doom(msgspec.Struct, frozen=True):
    """Why a pod must leave, the workload that must leave with it, if any, and for whom, if for anybody."""

    reason: str
    whole: str = ""
    beneficiary: str = ""

    def __str__(self) -> str:
        whole = f" with all of {self.whole}" if self.whole else ""
        whom = f" for {self.beneficiary}" if self.beneficiary else ""
        return f"Shoal: {self.reason}{whole}{whom}"


def doom_in(message: str) -> Doom | None:
    """What a pod was told by us; None if the words are somebody else's."""
    found = _WORDS.fullmatch(message)
    return Doom(found["reason"], found["whole"] or "", found["whom"] or "") if found else None
