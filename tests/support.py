"""Plans for tests: objects in, the documented JSON object out."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from shoal.api.decode import decode
from shoal.api.loader import load_objects
from shoal.cache.dry_run import run_cycles, world_of
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import report
from shoal.policies import Policy


class BadInputError(Exception):
    """Raised when objects are invalid; the message has the error lines."""


def plan(
    objects: Iterable[Mapping[str, Any]],
    *,
    config: Mapping[str, Any] | None = None,
    cycles: int = 1,
    now: str | None = None,
    policy: Policy | None = None,
) -> dict[str, Any]:
    """Return what `shoal plan -o json` prints for these objects."""
    loaded = load_objects(("test", raw) for raw in objects)
    if loaded.errors:
        raise BadInputError("\n".join(loaded.errors))
    settings = decode(SchedulerConfig, dict(config or {}))
    timestamp = None if now is None else msgspec.convert(now, type=datetime).timestamp()
    views = [view for _, view in loaded.views]
    steps = run_cycles(world_of(views, timestamp), settings, cycles=cycles, policy=policy)
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(report(steps, settings)))
    return result
