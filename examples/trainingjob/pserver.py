"""A parameter server: keeps a part of the weights, and applies the gradients that trainers send.

Trainers do not wait for each other, so it does not matter how many there are. The weights are saved now and
then: a server that is started again goes on from there.
"""

import json
import os
import threading
from pathlib import Path
from typing import Final

from model import FEATURES
from rpc import Message, log, serve

INDEX: Final = int(os.environ["PADDLE_TRAINER_ID"])
SERVERS: Final = int(os.environ["PSERVERS"])
RATE: Final = 0.003
SAVE_EVERY: Final = 20
FAIL_AFTER: Final = int(os.environ.get("FAIL_AFTER", "0"))
"""After how many gradients the first attempt of server 0 fails, to show what happens then; 0 for never."""
CHECKPOINT: Final = Path(f"weights-{INDEX}.json")


class ParameterServer:
    """Every weight whose number leaves the remainder INDEX when divided by the number of servers."""

    def __init__(self) -> None:
        self._lock, self._gradients = threading.Lock(), 0
        self._resumed = CHECKPOINT.exists()
        self._weights = [0.0] * len(range(INDEX, FEATURES, SERVERS))
        if self._resumed:
            self._weights = json.loads(CHECKPOINT.read_text())
            log("going on with the saved weights")

    def answer(self, request: Message) -> Message:
        """Apply a gradient, if the request has one; return the weights."""
        with self._lock:
            if "gradient" in request:
                steps = zip(self._weights, request["gradient"], strict=True)
                self._weights = [weight - RATE * step for weight, step in steps]
                self._gradients += 1
                self._save()
            return {"weights": self._weights}

    def _save(self) -> None:
        if self._gradients % SAVE_EVERY == 0:
            new = CHECKPOINT.with_suffix(".new")
            new.write_text(json.dumps(self._weights))
            new.replace(CHECKPOINT)
        if self._gradients == FAIL_AFTER and INDEX == 0 and not self._resumed:
            log("the parameter server fails on purpose")
            os._exit(1)


if __name__ == "__main__":
    serve(ParameterServer().answer)
