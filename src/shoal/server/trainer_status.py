"""The status that a trainer reports by itself, in the form of Kubeflow Trainer, as profilings of its job.

Hugging Face Transformers (from 5.2 on) posts it, if the environment names a URL and a file with a token:

    {"trainerStatus": {
        "progressPercentage": 45, "estimatedRemainingSeconds": 12, "lastUpdatedTime": "2026-01-23T10:30:45Z",
        "metrics": [{"name": "loss", "value": "0.23"}, {"name": "current_step", "value": "450"}]}}

It becomes the keys `progress` (in percent), `estimated_remaining_seconds`, `last_updated_time`, `metrics` (by
name; numbers where the texts are numbers), and `current_step` and `total_steps` if there are such metrics.
"""

from typing import Annotated, Final

import msgspec

from shoal.api.meta import View
from shoal.cluster.errors import BadRequestError
from shoal.cluster.resources import Object

_MAX_EXACT: Final = 2**53
"""Largest integer that every reader of JSON keeps exactly."""

_PERCENT: Final = msgspec.Meta(ge=0, le=100)
_SECONDS: Final = msgspec.Meta(ge=0, le=_MAX_EXACT)
_Percent = Annotated[int, _PERCENT] | Annotated[float, _PERCENT]
_Seconds = Annotated[int, _SECONDS] | Annotated[float, _SECONDS]
_STEPS: Final = ("current_step", "total_steps")


class Metric(View, frozen=True, kw_only=True):
    """One figure; its value is a text."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    value: str


class TrainerStatus(View, frozen=True, kw_only=True):
    """What a trainer reports; every field may be missing."""

    progress_percentage: _Percent | None = None
    estimated_remaining_seconds: _Seconds | None = None
    metrics: tuple[Metric, ...] | None = None
    last_updated_time: str | None = None


class TrainerReport(View, frozen=True, kw_only=True):
    """The body of a request."""

    trainer_status: TrainerStatus


def profilings_of(body: Object) -> Object:
    """Return the profilings that a report amounts to; BadRequestError if it is not one."""
    try:
        status = msgspec.convert(body, TrainerReport).trainer_status
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the body is not a trainer status: {error}") from None
    metrics = {metric.name: _number(metric.value) for metric in status.metrics or ()}
    found: Object = {
        "progress": status.progress_percentage,
        "estimated_remaining_seconds": status.estimated_remaining_seconds,
        "last_updated_time": status.last_updated_time,
        "metrics": metrics or None,
        **{name: metrics.get(name) for name in _STEPS},
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(text: str) -> int | float | str:
    """Return a text as a number, if it is one that JSON can express without loss."""
    try:
        value = msgspec.json.decode(text, type=int | float)
    except msgspec.DecodeError:
        return text
    return value if abs(value) <= _MAX_EXACT else text
