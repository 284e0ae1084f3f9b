"""The state of the learner, and its file: complete or absent, whenever the process is killed."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import wire
from ppo import Adam, Parameters, new_parameters

_SEED = 7


@dataclass
class Training:
    """Everything that a learner needs to continue.

    `steps` counts the steps of the environment that were learnt from; `curve` has the mean length of the
    episodes of each update (their reward), and `counts` the steps of each update: their sum is `steps`.
    """

    optimiser: Adam
    steps: int = 0
    curve: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @property
    def reward(self) -> float:
        """The latest reward."""
        return self.curve[-1] if self.curve else 0.0


def load(path: Path) -> Training:
    """Return the state in a file, or a new one if there is none."""
    if not path.exists():
        return Training(Adam(new_parameters(np.random.default_rng(_SEED))))
    found = wire.decode(path.read_bytes())
    kinds: dict[str, Parameters] = {kind: {} for kind in ("parameter", "moment")}
    for name, array in found.items():
        kind, _, rest = name.partition("/")
        if kind in kinds:
            kinds[kind][rest] = array
    optimiser = Adam(kinds["parameter"], kinds["moment"], int(found["updates"]))
    return Training(optimiser, int(found["steps"]), found["curve"].tolist(), found["counts"].tolist())


def save(training: Training, path: Path) -> None:
    """Replace the file atomically; it survives a power failure."""
    arrays: wire.Message = {f"parameter/{name}": one for name, one in training.optimiser.parameters.items()}
    arrays |= {f"moment/{name}": one for name, one in training.optimiser.moments.items()}
    arrays |= {
        "updates": np.array(training.optimiser.steps),
        "steps": np.array(training.steps),
        "curve": np.array(training.curve),
        "counts": np.array(training.counts, dtype=np.int64),
    }
    temporary = path.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(wire.encode(arrays))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
