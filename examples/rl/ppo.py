"""Proximal policy optimisation with two small networks, in numpy: gradients are written out.

Actor and critic have one hidden layer each. `Parameters` maps names to arrays, which makes them easy to send
and to store.
"""

from dataclasses import dataclass

import numpy as np
from cartpole import ACTIONS, OBSERVATIONS
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = dict[str, Array]

_HIDDEN = 32
_DISCOUNT, _LAMBDA = 0.99, 0.95
_CLIP, _ENTROPY = 0.2, 0.01
_EPOCHS, _MINIBATCH = 8, 256
_RATE = 3e-3
_DECAY = 0.9, 0.999
"""Of the first and second moments of Adam."""


@dataclass(frozen=True)
class Rollout:
    """Consecutive steps of one collector. `observations` has one more entry: the state afterwards."""

    observations: Array
    actions: NDArray[np.int64]
    log_probabilities: Array
    ends: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.actions)

    def first(self, steps: int) -> "Rollout":
        """Return the first steps."""
        return Rollout(
            self.observations[: steps + 1],
            self.actions[:steps],
            self.log_probabilities[:steps],
            self.ends[:steps],
        )


# --- networks ----------------------------------------------------------------------------------------------


def new_parameters(rng: np.random.Generator) -> Parameters:
    """Return random weights; the last layer of the actor is small, so that it begins undecided."""
    shapes = {"actor": (ACTIONS, 0.01), "critic": (1, 1.0)}
    found: Parameters = {}
    for name, (outputs, scale) in shapes.items():
        found[f"{name}.w1"] = rng.normal(0, OBSERVATIONS**-0.5, (OBSERVATIONS, _HIDDEN))
        found[f"{name}.b1"] = np.zeros(_HIDDEN)
        found[f"{name}.w2"] = rng.normal(0, scale * _HIDDEN**-0.5, (_HIDDEN, outputs))
        found[f"{name}.b2"] = np.zeros(outputs)
    return found


def _forward(parameters: Parameters, name: str, inputs: Array) -> tuple[Array, Array]:
    """Return hidden activations and outputs of a network."""
    hidden = np.tanh(inputs @ parameters[f"{name}.w1"] + parameters[f"{name}.b1"])
    return hidden, hidden @ parameters[f"{name}.w2"] + parameters[f"{name}.b2"]


def _backward(parameters: Parameters, name: str, inputs: Array, hidden: Array, outputs: Array) -> Parameters:
    """Return the gradients of a network, given those of its outputs."""
    inner = (outputs @ parameters[f"{name}.w2"].T) * (1 - hidden**2)
    return {
        f"{name}.w1": inputs.T @ inner,
        f"{name}.b1": inner.sum(0),
        f"{name}.w2": hidden.T @ outputs,
        f"{name}.b2": outputs.sum(0),
    }


def log_probabilities(parameters: Parameters, observations: Array) -> Array:
    """Return the logarithms of the probabilities of all actions."""
    logits = _forward(parameters, "actor", observations)[1]
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def values(parameters: Parameters, observations: Array) -> Array:
    """Return what the critic expects of states."""
    return _forward(parameters, "critic", observations)[1][..., 0]


# --- learning ----------------------------------------------------------------------------------------------


def advantages(rollout: Rollout, expected: Array) -> Array:
    """Return by how much each action was better than expected (generalised advantage estimation)."""
    going_on = ~rollout.ends
    surprises = 1.0 + _DISCOUNT * expected[1:] * going_on - expected[:-1]
    found, last = np.zeros(len(rollout)), 0.0
    for step in reversed(range(len(rollout))):
        last = surprises[step] + _DISCOUNT * _LAMBDA * going_on[step] * last
        found[step] = last
    return found


@dataclass(frozen=True)
class Batch:
    """Steps to learn from, in any order."""

    observations: Array
    actions: NDArray[np.int64]
    log_probabilities: Array
    advantages: Array
    returns: Array

    def __getitem__(self, chosen: NDArray[np.int64]) -> "Batch":
        return Batch(**{name: column[chosen] for name, column in vars(self).items()})


def make_batch(parameters: Parameters, rollouts: list[Rollout]) -> Batch:
    """Return the steps of some rollouts."""
    expected = [values(parameters, one.observations) for one in rollouts]
    gains = [advantages(one, v) for one, v in zip(rollouts, expected, strict=True)]
    flat = np.concatenate(gains)
    return Batch(
        np.concatenate([one.observations[:-1] for one in rollouts]),
        np.concatenate([one.actions for one in rollouts]),
        np.concatenate([one.log_probabilities for one in rollouts]),
        (flat - flat.mean()) / (flat.std() + 1e-8),
        flat + np.concatenate([one[:-1] for one in expected]),
    )


def loss(parameters: Parameters, batch: Batch) -> float:
    """Return what the gradients reduce: the clipped objective, an entropy bonus, the critic's error."""
    logs = log_probabilities(parameters, batch.observations)
    ratio = np.exp(_chosen(logs, batch.actions) - batch.log_probabilities)
    clipped = np.clip(ratio, 1 - _CLIP, 1 + _CLIP)
    objective = np.minimum(ratio * batch.advantages, clipped * batch.advantages)
    entropy = -(np.exp(logs) * logs).sum(1)
    error = 0.5 * (values(parameters, batch.observations) - batch.returns) ** 2
    return float((error - objective - _ENTROPY * entropy).mean())


def gradients(parameters: Parameters, batch: Batch) -> Parameters:
    """Return the gradients of the loss."""
    size = len(batch.actions)
    hidden, _ = _forward(parameters, "actor", batch.observations)
    logs = log_probabilities(parameters, batch.observations)
    probabilities = np.exp(logs)
    ratio = np.exp(_chosen(logs, batch.actions) - batch.log_probabilities)
    is_clipped = np.where(batch.advantages > 0, ratio > 1 + _CLIP, ratio < 1 - _CLIP)
    weight = np.where(is_clipped, 0.0, ratio * batch.advantages)
    entropy = -(probabilities * logs).sum(1, keepdims=True)
    logits = weight[:, None] * (probabilities - np.eye(ACTIONS)[batch.actions])
    logits += _ENTROPY * probabilities * (logs + entropy)
    actor = _backward(parameters, "actor", batch.observations, hidden, logits / size)
    hidden, outputs = _forward(parameters, "critic", batch.observations)
    error = (outputs[:, 0] - batch.returns)[:, None] / size
    return actor | _backward(parameters, "critic", batch.observations, hidden, error)


def _chosen(logs: Array, actions: NDArray[np.int64]) -> Array:
    return np.asarray(np.take_along_axis(logs, actions[:, None], 1)[:, 0])


class Adam:
    """The optimiser. Its moments are parameters too, so that a checkpoint continues exactly."""

    def __init__(self, parameters: Parameters, moments: Parameters | None = None, steps: int = 0) -> None:
        self.parameters = parameters
        self.steps = steps
        self.moments = moments or {
            f"{kind}.{name}": np.zeros_like(one)
            for kind in ("first", "second")
            for name, one in parameters.items()
        }

    def update(self, found: Parameters) -> None:
        """Take one step against the gradients."""
        self.steps += 1
        for name, gradient in found.items():
            estimates = []
            for kind, decay, value in zip(("first", "second"), _DECAY, (gradient, gradient**2), strict=True):
                moment = self.moments[f"{kind}.{name}"]
                moment += (1 - decay) * (value - moment)
                estimates.append(moment / (1 - decay**self.steps))
            self.parameters[name] = self.parameters[name] - _RATE * estimates[0] / (
                estimates[1] ** 0.5 + 1e-8
            )


def learn(optimiser: Adam, rollouts: list[Rollout], rng: np.random.Generator) -> None:
    """Improve actor and critic by some rollouts."""
    batch = make_batch(optimiser.parameters, rollouts)
    for _ in range(_EPOCHS):
        order = rng.permutation(len(batch.actions))
        for start in range(0, len(order), _MINIBATCH):
            chosen = order[start : start + _MINIBATCH]
            optimiser.update(gradients(optimiser.parameters, batch[chosen]))
