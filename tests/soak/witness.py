"""A witness who checks every promise after every commit, and remembers the first that was broken."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoal.apiserver.registry.records import Change
from shoal.simulator import Faults
from tests.soak.promises import IN_THE_END, PROMISES
from tests.soak.sight import LONGEST_FAULT, Sight

_SOUNDS = ("leases.coordination.k8s.io", "events")
_LOOKS = 60.0
"""Seconds between two looks whether all has come to its end."""


class Witness:
    """Is told of every commit. What was broken is told with its time, its promise and its story."""

    def __init__(self, sight: Sight, faults: Faults) -> None:
        self.sight, self._faults = sight, faults
        self.broken = ""
        self.over = asyncio.Event()
        """Set when a promise was broken: there is no use in going on."""
        self.commits = 0
        self._faced = 0
        self._noise: list[str] = []
        """What was written lately, but for signs of life, and for what grows old."""

    def __call__(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        self._noise += [f"{one.record.key}" for one in changes if one.record.key.resource not in _SOUNDS]
        if self.broken:
            return
        if len(self._faults.story) > self._faced:
            self._faced, self.sight.calm_since = len(self._faults.story), self.sight.now() + LONGEST_FAULT
        for step in self.sight.take(changes):
            for promise in PROMISES:
                for story in promise(self.sight, step):
                    self.breaks(promise.__name__, story)

    def breaks(self, promise: str, story: str) -> None:
        """A promise was broken."""
        self.broken = self.broken or f"{promise}: {story} (after {self.sight.now():.3f} s)"
        self.over.set()

    async def must_rest_within(self, seconds: float) -> None:
        """Wait until all has come to its end; what has not by then breaks a promise."""
        last = self.sight.now() + seconds
        while (unrest := self._unrest()) and self.sight.now() < last:  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(_LOOKS)
        for promise, story in unrest:
            self.breaks(promise, story)

    async def must_be_quiet_for(self, seconds: float) -> None:
        """Nothing happens any more: whoever writes all the same, but for a sign of life, breaks a promise."""
        self._noise = []
        await asyncio.sleep(seconds)
        for what in self._noise:
            self.breaks("nothing_is_written_for_nothing", f"{what} is written, and nothing has happened")

    def _unrest(self) -> list[tuple[str, str]]:
        return [(promise.__name__, story) for promise in IN_THE_END for story in promise(self.sight)]

    @contextmanager
    def hears_complaints(self) -> Iterator[None]:
        """Whatever Shoal logs as an error, while this lasts, breaks a promise."""

        class Ears(logging.Handler):
            def emit(_, record: logging.LogRecord) -> None:  # noqa: N805 - the witness is self
                self.breaks("nothing_unexpected_happens", logging.Formatter().format(record))

        ears, log = Ears(logging.ERROR), logging.getLogger("shoal")
        log.addHandler(ears)
        try:
            yield
        finally:
            log.removeHandler(ears)
