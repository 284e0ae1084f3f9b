"""The master: gives the chunks of each pass to trainers, however many there are.

The chunk of a trainer that has gone is given to another one. A master that is started again goes on with the
pass after the last one that is on record.
"""

import os
import threading
from pathlib import Path
from typing import Final

from model import CHUNKS
from rpc import Message, log, serve

PASSES: Final = int(os.environ["PADDLE_INIT_NUM_PASSES"])
RECORD: Final = Path("passes.txt")
"""A line for each pass."""


class Master:
    """The chunks of the present pass: those that are free, and those that trainers have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = len(RECORD.read_text().splitlines()) if RECORD.exists() else 0
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._free, self._given = list(range(CHUNKS)), dict[str, int]()
        self._losses, self._trainers = dict[int, float](), set[str]()

    def answer(self, request: Message) -> Message:
        """Take the result of a chunk, if there is one, and give the trainer another."""
        with self._lock:
            trainer = request["from"]
            if "loss" in request and self._given.get(trainer) == request["chunk"]:
                self._losses[self._given.pop(trainer)] = request["loss"]
                self._trainers.add(trainer)
            if len(self._losses) == CHUNKS:
                self._end_pass()
            if self._passes >= PASSES:
                return {"do": "stop", "passes": self._passes}
            if not self._free:
                return {"do": "wait"}
            self._given[trainer] = self._free.pop()
            return {"do": "train", "chunk": self._given[trainer], "pass": self._passes + 1}

    def _end_pass(self) -> None:
        self._passes += 1
        loss, trainers = sum(self._losses.values()) / CHUNKS, len(self._trainers)
        line = f"pass {self._passes:2}: loss {loss:8.4f}, {trainers} trainers"
        log(line)
        with RECORD.open("a") as record:
            record.write(f"{line}\n")
        self._begin_pass()

    def leave(self, trainer: str) -> None:
        """Take the chunk back from a trainer that has gone."""
        with self._lock:
            if trainer in self._given:
                self._free.append(self._given.pop(trainer))


if __name__ == "__main__":
    master = Master()
    serve(master.answer, master.leave)
