"""The pace of a disk: whether it is worth a way to another thread to wait for it there.

The way there and back takes as long as a good disk needs for a commit. So while commits follow each other and
are quick, they are waited for on the spot; a disk that is slow, or that nothing was heard of for a while, is
waited for elsewhere, and whatever else there is to do goes on. A disk that begins to hang is found out by one
commit.
"""

import time
from collections.abc import Callable
from typing import Final

QUICK: Final = 0.001
"""Seconds that everything may stand still for a commit."""
LATELY: Final = 1.0
"""Seconds after which what was known of the disk is no news."""
_WEIGHT: Final = 1 / 8
"""How much the newest commit counts in the mean."""
_LONGEST: Final = 0.1
"""A commit counts as no longer than this: about twenty quick ones outweigh it."""


class Pace:
    """A running mean of how long commits take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with a disk that has yet to show that it is quick."""
        self._clock = clock
        self._mean = _LONGEST
        self._told = -LATELY

    @property
    def is_quick(self) -> bool:
        """Whether the next commit is likely to be quick."""
        return self._mean < QUICK and self._clock() - self._told < LATELY

    def time(self, commit: Callable[[], None]) -> None:
        """Do a commit, and learn from it."""
        began = self._clock()
        try:
            commit()
        finally:
            self._told = self._clock()
            self._mean += (min(self._told - began, _LONGEST) - self._mean) * _WEIGHT
