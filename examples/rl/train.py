"""One learner and any number of collectors: worker 0 of a job learns, the others play.

A collector connects to the learner, plays with the weights that it gets, sends a rollout, and asks for more.
Each update of the weights takes a fixed number of rollouts, shared by the collectors that are connected: they
come and go while the learner runs. The learner writes a checkpoint now and then, and when it is asked to
stop; a later one continues from there.
"""

import argparse
import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import checkpoint
import numpy as np
import wire
from cartpole import MAX_STEPS, CartPole
from ppo import Parameters, Rollout, learn, log_probabilities

from shoal import worker

PORT = 5005
ROLLOUT_STEPS = 128
_ROLLOUTS = 8
"""In each update."""
CHECKPOINT_UPDATES = 5
_BARS = "▁▂▃▄▅▆▇█"
_GOODBYE_SECONDS = 60.0
"""How long the learner waits at its end for collectors that are not connected yet."""


def main() -> None:
    """Learn or collect, by the index of the worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60_000, help="steps of the environment to learn from")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.npz"))
    arguments = parser.parse_args()
    me = worker.current()
    if me.index == 0:
        Learner(me, arguments.steps, arguments.checkpoint).run()
    else:
        collect(me)


# --- the learner -------------------------------------------------------------------------------------------


class Learner:
    """Worker 0: gives weights to collectors, and learns from what they send."""

    def __init__(self, me: worker.Worker, total: int, path: Path) -> None:
        self._me, self._total, self._path = me, total, path
        self._training = checkpoint.load(path)
        self._weights = dict(self._training.optimiser.parameters)
        self._rng = np.random.default_rng(self._training.steps)
        self._inbox: queue.Queue[Rollout] = queue.Queue()
        self._changed = threading.Condition()
        self._tickets = _ROLLOUTS
        """Rollouts that are to be played with the present weights."""
        self._connected: set[int] = set()
        """Indices of the collectors that are connected."""
        self._dismissed: set[int] = set()
        """Indices of the collectors that know that training is over."""

    def run(self) -> None:
        """Learn until all steps are done, or until the job wants this process to stop."""
        say(f"learner: starts at step {self._training.steps} (restart {self._me.restart})")
        host = self._me.peers()[0]
        with socket.create_server((host, PORT), backlog=128) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            started, before = time.monotonic(), self._training.steps
            for rollouts in self._batches():
                self._update(rollouts)
                seconds = time.monotonic() - started
                self._report((self._training.steps - before) / seconds)
            checkpoint.save(self._training, self._path)
            if self._is_over:
                self._dismiss()
        state = "is done" if self._is_over else "stops"
        say(f"learner: {state} at step {self._training.steps}")

    @property
    def _is_over(self) -> bool:
        return self._training.steps >= self._total

    def _batches(self) -> Iterator[list[Rollout]]:
        """Yield enough rollouts for an update, until the end. The last ones are cut: the total is exact."""
        waiting: list[Rollout] = []
        while not self._is_over and self._me.stop_deadline is None:
            with contextlib.suppress(queue.Empty):
                waiting.append(self._inbox.get(timeout=0.1))
            left = self._total - self._training.steps
            if sum(map(len, waiting)) >= min(_ROLLOUTS * ROLLOUT_STEPS, left):
                surplus = max(sum(map(len, waiting)) - left, 0)
                waiting[-1] = waiting[-1].first(len(waiting[-1]) - surplus)
                yield waiting
                waiting = []

    def _update(self, rollouts: list[Rollout]) -> None:
        training, steps = self._training, sum(map(len, rollouts))
        learn(training.optimiser, rollouts, self._rng)
        self._weights = dict(training.optimiser.parameters)
        training.steps += steps
        training.counts.append(steps)
        episodes = sum(int(one.ends.sum()) for one in rollouts)
        training.curve.append(min(steps / max(episodes, 1), MAX_STEPS))
        self._add_tickets(len(rollouts))
        if len(training.curve) % CHECKPOINT_UPDATES == 0:
            checkpoint.save(training, self._path)

    def _report(self, throughput: float) -> None:
        training = self._training
        progress = round(100 * training.steps / self._total, 1)
        self._me.report(progress=progress, throughput=round(throughput), reward=round(training.reward, 1))
        collectors = len(self._connected)
        bars = sparkline(training.curve)
        say(f"step {training.steps:6}  reward {training.reward:5.1f}  collectors {collectors}  {bars}")

    # --- collectors ---------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Exchange weights and rollouts with one collector until one of both ends."""
        with connection, contextlib.suppress(OSError):
            index = int(wire.receive(connection)["index"])
            self._connected.add(index)
            say(f"learner: collector {index} joins")
            try:
                self._exchange(connection)
                with self._changed:
                    self._dismissed.add(index)
                    self._changed.notify_all()
            finally:
                self._connected.discard(index)
                say(f"learner: collector {index} leaves")

    def _exchange(self, connection: socket.socket) -> None:
        """Send weights and receive rollouts until training is over; then say so with an empty message."""
        while self._take_ticket():
            try:
                wire.send(connection, self._weights)
                self._inbox.put(Rollout(**wire.receive(connection)))
            except BaseException:
                self._add_tickets(1)  # another collector plays in its place
                raise
        wire.send(connection, {})

    def _take_ticket(self) -> bool:
        """Wait until another rollout is needed; return False when training is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._tickets or self._is_over)
            if not self._is_over:
                self._tickets -= 1
            return not self._is_over

    def _add_tickets(self, number: int) -> None:
        with self._changed:
            self._tickets += number
            self._changed.notify_all()

    def _dismiss(self) -> None:
        """Wait until all collectors of the job know that it is over: they exit with 0."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._dismissed.issuperset(range(1, self._me.size)), _GOODBYE_SECONDS
            )


# --- collectors --------------------------------------------------------------------------------------------


def collect(me: worker.Worker) -> None:
    """Play for the learner until it says that training is over; wait for it while it is away."""
    game = Game(np.random.default_rng([me.index, me.restart]))
    while me.stop_deadline is None:
        # A TimeoutError is an OSError, and so is a learner that went away.
        with contextlib.suppress(OSError):
            learner = me.wait_for_peers(PORT, count=1, timeout=1)[0]
            with socket.create_connection((learner, PORT)) as connection:
                if play_for(me, connection, game):
                    return


def play_for(me: worker.Worker, connection: socket.socket, game: "Game") -> bool:
    """Send rollouts to the learner; return whether it says that training is over."""
    say(f"collector {me.index}: connected")
    wire.send(connection, {"index": np.array(me.index)})
    while me.stop_deadline is None:
        weights = wire.receive(connection)
        if not weights:
            return True
        wire.send(connection, vars(game.play(weights)))
    return False


class Game:
    """An environment that is played on from one rollout to the next."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._cart = CartPole(rng)
        self._state = self._cart.reset()

    def play(self, weights: Parameters, steps: int = ROLLOUT_STEPS) -> Rollout:
        """Play some steps with the weights of an actor."""
        observations, actions, logs, ends = [self._state], [], [], []
        for _ in range(steps):
            every = log_probabilities(weights, self._state[None])[0]
            action = int(self._rng.random() < np.exp(every[1]))
            self._state, is_over = self._cart.step(action)
            if is_over:
                self._state = self._cart.reset()
            observations.append(self._state)
            actions.append(action)
            logs.append(every[action])
            ends.append(is_over)
        return Rollout(np.array(observations), np.array(actions), np.array(logs), np.array(ends))


# --- output ------------------------------------------------------------------------------------------------


def sparkline(curve: list[float], width: int = 40) -> str:
    """Return the rewards from the beginning until now as bars, each the mean of a part."""
    parts = np.array_split(np.array(curve), min(width, len(curve))) if curve else []
    heights = (min(int(len(_BARS) * part.mean() / MAX_STEPS), len(_BARS) - 1) for part in parts)
    return "".join(_BARS[height] for height in heights)


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - the log of the pod


if __name__ == "__main__":
    main()
