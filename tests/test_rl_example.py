"""The example of reinforcement learning: its parts, and the whole of it resized and preempted."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.daemon import up
from tests.cli.process import SHOAL

EXAMPLE = Path(__file__).parents[1] / "examples" / "rl"
TIMEOUT = 120.0


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module


# --- parts -------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_the_loss(module: Callable[[str], Any]) -> None:
    ppo, train = module("ppo"), module("train")
    rng = np.random.default_rng(3)
    played = ppo.new_parameters(rng)
    rollouts = [train.Game(rng).play(played, 64) for _ in range(2)]
    batch = ppo.make_batch(played, rollouts)
    weights = {name: one + rng.normal(0, 0.1, one.shape) for name, one in played.items()}
    found = ppo.gradients(weights, batch)
    assert found.keys() == weights.keys()
    for name, gradient in found.items():
        for place in list(np.ndindex(gradient.shape))[::7]:
            change = np.zeros_like(gradient)
            change[place] = 1e-6
            up, down = (ppo.loss(weights | {name: weights[name] + sign * change}, batch) for sign in (1, -1))
            assert gradient[place] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-7)


def test_learning_raises_the_reward(module: Callable[[str], Any]) -> None:
    ppo, train = module("ppo"), module("train")
    rng = np.random.default_rng(5)
    optimiser, games, lengths = ppo.Adam(ppo.new_parameters(rng)), [train.Game(rng) for _ in range(8)], []
    for _ in range(12):
        rollouts = [game.play(optimiser.parameters) for game in games]
        ppo.learn(optimiser, rollouts, rng)
        lengths.append(1024 / sum(int(one.ends.sum()) for one in rollouts))
    assert lengths[-1] > 3 * lengths[0]


def test_a_pole_that_is_pushed_to_one_side_falls(module: Callable[[str], Any]) -> None:
    cart = module("cartpole").CartPole(np.random.default_rng(1))
    cart.reset()
    steps, is_over = 0, False
    while not is_over:
        state, is_over = cart.step(1)
        steps += 1
    assert 5 < steps < 15
    assert state[2] < 0, "it falls to the side that the cart comes from"


def test_a_checkpoint_continues_exactly(module: Callable[[str], Any], tmp_path: Path) -> None:
    checkpoint, ppo, train = module("checkpoint"), module("ppo"), module("train")
    path = tmp_path / "checkpoint.npz"
    training = checkpoint.load(path)
    rollouts = [train.Game(np.random.default_rng(2)).play(training.optimiser.parameters)]
    ppo.learn(training.optimiser, rollouts, np.random.default_rng(0))
    training.steps, training.curve, training.counts = 128, [20.0], [128]
    checkpoint.save(training, path)
    again = checkpoint.load(path)
    assert (again.steps, again.curve, again.counts) == (128, [20.0], [128])
    for one in (training, again):
        ppo.learn(one.optimiser, rollouts, np.random.default_rng(0))
    for name, array in training.optimiser.parameters.items():
        assert np.array_equal(array, again.optimiser.parameters[name])


# --- the whole ---------------------------------------------------------------------------------------------


class Home:
    """A home, its commands, and a watch on the checkpoint."""

    def __init__(self, directory: Path, checkpoint: Any) -> None:  # noqa: ANN401 - a module of the example
        self.path, self._checkpoint = directory / "checkpoint.npz", checkpoint
        self._environment = os.environ | {"SHOAL_HOME": str(directory / "home")}
        self._reading = threading.Lock()
        self.seen: list[int] = []
        """Steps in all checkpoints that could be read."""

    def run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(  # noqa: S603 - our own command
            [*SHOAL, *arguments],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, steps: int) -> None:
        text = (EXAMPLE / "job.yaml").read_text()
        places = {
            "PYTHON": sys.executable,
            "HERE": str(EXAMPLE),
            "DATA": str(self.path.parent),
            "STEPS": str(steps),
        }
        for name, value in places.items():
            text = text.replace(f"@{name}@", value)
        self.run("apply", "-f", "-", stdin=text)

    def pods(self) -> dict[str, str]:
        """The uids of the pods that are ready, by rank."""
        found = json.loads(self.run("get", "pods", "-l", "diengine/job=cartpole", "-o", "json"))["items"]
        return {
            pod["metadata"]["labels"]["diengine/rank"]: pod["metadata"]["uid"]
            for pod in found
            if {"type": "Ready", "status": "True"}.items()
            <= next((c for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"), {}).items()
        }

    def steps(self) -> int:
        """The steps in the checkpoint, which is never half-written."""
        with self._reading:
            self.seen.append(int(self._checkpoint.load(self.path).steps))
            return self.seen[-1]

    def wait(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, self.run("describe", "dijob/cartpole")
            time.sleep(0.1)


@pytest.fixture
def home(tmp_path: Path, module: Callable[[str], Any]) -> Iterator[Home]:
    node = ("--nodes", "1", "--node-cpu", "2", "--node-memory", "1Gi")
    with up(tmp_path / "home", *node, "--config", str(EXAMPLE / "scheduler.yaml")):
        yield Home(tmp_path, module("checkpoint"))


def test_it_is_resized_and_preempted_and_counts_every_step_once(
    home: Home, module: Callable[[str], Any]
) -> None:
    home.submit(steps=10**9)
    home.wait(lambda: len(home.pods()) == 4)
    home.run("scale", "dijob/cartpole", "--replicas=2")
    home.wait(lambda: len(home.pods()) == 2)
    before = home.pods()
    home.run("scale", "dijob/cartpole", "--replicas=3")
    home.wait(lambda: "collector 2 joins" in home.run("logs", "pod/cartpole-0-0").rpartition("2 leaves")[2])
    assert before.items() <= home.pods().items(), "growing restarts nothing"
    assert home.run("logs", "pod/cartpole-0-0").count("collector 1 joins") == 1
    with reading_checkpoints(home):
        for _ in range(5):
            preempt(home)
    assert home.seen == sorted(home.seen), "no step is lost after a checkpoint"
    finish(home)
    training = module("checkpoint").load(home.path)
    assert (training.steps, sum(training.counts)) == (home.seen[-1], home.seen[-1])


@contextlib.contextmanager
def reading_checkpoints(home: Home) -> Iterator[None]:
    """Read the checkpoint all the time in a thread: it must always be complete."""
    is_over, failures = threading.Event(), list[Exception]()

    def read() -> None:
        while not is_over.is_set() and not failures:
            try:
                home.steps()
            except Exception as failure:  # noqa: BLE001 - whatever a half-written file causes
                failures.append(failure)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
    assert not failures


def preempt(home: Home) -> None:
    """Let an urgent job take the node, and wait until training has gone on."""
    uids, steps = set(home.pods().values()), home.steps()
    home.run("apply", "-f", str(EXAMPLE / "urgent.yaml"))
    home.run("wait", "job/urgent", "--for=condition=Complete", f"--timeout={TIMEOUT:.0f}s")
    home.run("delete", "job/urgent")
    home.wait(lambda: len(home.pods()) >= 2 and not uids & set(home.pods().values()))
    home.wait(lambda: home.steps() > steps)


def finish(home: Home) -> None:
    """Stop the job, and let another one do a few steps more: it continues from the checkpoint."""
    home.run("delete", "dijob/cartpole")
    home.wait(lambda: not home.pods())
    total = home.steps() + 5000
    home.submit(total)
    home.run("wait", "dijob/cartpole", "--for=condition=Succeeded", f"--timeout={TIMEOUT:.0f}s")
    assert home.steps() == total
    assert f"is done at step {total}" in home.run("logs", "dijob/cartpole")
