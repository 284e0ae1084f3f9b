"""The model: a linear function of many features, and chunks of data to learn it from."""

import math
import random
from typing import Final

FEATURES: Final = 32
CHUNKS: Final = 24
"""Chunks of data; a trainer computes the gradient of one at a time."""
_SAMPLES: Final = 20
_NOISE: Final = 0.1

Weights = list[float]


def gradient(weights: Weights, chunk: int) -> tuple[Weights, float]:
    """Return the gradient of the loss on a chunk, and the loss: the mean squared error."""
    total, loss, chance = [0.0] * FEATURES, 0.0, random.Random(chunk)  # noqa: S311 - it is data
    for _ in range(_SAMPLES):
        sample = [chance.gauss(0, 1) for _ in range(FEATURES)]
        wanted = sum(math.sin(i) * x for i, x in enumerate(sample)) + chance.gauss(0, _NOISE)
        error = sum(map(float.__mul__, weights, sample)) - wanted
        loss += error * error / _SAMPLES
        for i, x in enumerate(sample):
            total[i] += 2 * error * x / _SAMPLES
    return total, loss
