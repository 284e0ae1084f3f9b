"""The engine as tests reach it: objects in, the documented JSON object out."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from shoal.api.decode import decode
from shoal.api.intake import take
from shoal.cache.dry_run import rehearse, world_of
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import report
from shoal.policies import Policy


class BadInputError(Exception):
    """Raised when objects are refused; has the error lines."""


def plan(
    objects: Iterable[Mapping[str, Any]],
    *,
    config: Mapping[str, Any] | None = None,
    cycles: int = 1,
    now: str | None = None,
    policy: Policy | None = None,
) -> dict[str, Any]:
    """What `shoal plan -o json` prints for these objects."""
    intake = take(("test", raw) for raw in objects)
    if intake.errors:
        raise BadInputError("\n".join(intake.errors))
    settings = decode(SchedulerConfig, dict(config or {}))
    moment = None if now is None else msgspec.convert(now, type=datetime).timestamp()
    views = [view for _, view in intake.views]
    steps = rehearse(world_of(views, moment), settings, cycles=cycles, policy=policy)
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(report(steps, settings)))
    return result
