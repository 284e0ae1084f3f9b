"""`--explain` as tests reach it: objects in, the documented JSON object out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from shoal.api.decode import decode
from shoal.api.intake import take
from shoal.cache.dry_run import rehearse, world_of
from shoal.cli.commands.plan import explain_job
from shoal.engine.config import SchedulerConfig
from tests.builders import Object


def explain(
    objects: Sequence[Object],
    job: str,
    *,
    config: Mapping[str, Any] | None = None,
    now: str | None = None,
    cycles: int = 1,
) -> Object:
    """What `shoal plan --explain JOB -o json` prints for these objects."""
    intake = take(("test", raw) for raw in objects)
    assert not intake.errors
    moment = None if now is None else msgspec.convert(now, type=datetime).timestamp()
    views = [view for _, view in intake.views]
    settings = decode(SchedulerConfig, dict(config or {}))
    world = world_of(views, moment)
    found = explain_job(job, world, rehearse(world, settings, cycles=cycles), settings, None)
    result: Object = msgspec.json.decode(msgspec.json.encode(found))
    return result
