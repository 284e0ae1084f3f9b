"""A worker: plays episodes with the table of the learner, and sends them to it.

It may join at any time. If the learner is gone, it waits until the learner is started again: the address
stays the same.
"""

import json
import os
import random
import socket
import sys
import time
from typing import Final

import cliff

PORT: Final = 5599
FAIL_AFTER: Final = int(os.environ.get("FAIL_AFTER", "0"))
"""After how many episodes it fails, to show what happens then; 0 for never."""
WORKER: Final = f"{os.environ['TYJOB_WORKER_SET']}-{os.environ['TYJOB_INDEX']}"
CURIOSITY: Final = 0.1 + 0.05 * int(os.environ["TYJOB_RANK"])
"""How often it tries something else than what is known to be best: workers differ."""


def play(table: cliff.Table) -> list[cliff.Step]:
    """Return an episode."""
    state, episode = cliff.START, []
    while state != cliff.GOAL and len(episode) < 200:
        curious = random.random() < CURIOSITY  # noqa: S311 - it is a game
        action = random.randrange(len(cliff.ACTIONS)) if curious else cliff.best_action(table, state)  # noqa: S311
        reward, after = cliff.take_step(state, action)
        episode.append((state, action, reward, after))
        state = after
    time.sleep(0.02)  # a world that is worth learning is slower than this one
    return episode


def work(connection: socket.socket) -> None:
    """Play until the learner is gone."""
    table, played = cliff.new_table(), 0
    with connection.makefile("rwb") as stream:
        while True:
            message = {"worker": WORKER, "episode": play(table)}
            stream.write(json.dumps(message).encode() + b"\n")
            stream.flush()
            answer = stream.readline()
            if not answer:
                return
            table, played = json.loads(answer), played + 1
            if played == FAIL_AFTER:
                sys.exit("the worker fails on purpose")


def main() -> None:
    """Work for the learner, until the pod is deleted."""
    while True:
        try:
            with socket.create_connection((os.environ["LEADER_ADDRESS"], PORT), timeout=5) as connection:
                work(connection)
        except OSError as problem:
            print(f"waiting for the learner: {problem}", flush=True)  # noqa: T201 - the log of the pod
        time.sleep(0.2)


if __name__ == "__main__":
    main()
