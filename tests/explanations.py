"""Explain a job of given objects, as the documented JSON object."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from shoal.api.decode import decode
from shoal.api.loader import load_objects
from shoal.cache.dry_run import run_cycles, world_of
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
    """The output of `shoal plan --explain JOB -o json` for these objects."""
    loaded = load_objects(("test", raw) for raw in objects)
    assert not loaded.errors
    now_seconds = None if now is None else msgspec.convert(now, type=datetime).timestamp()
    views = [view for _, view in loaded.views]
    scheduler_config = decode(SchedulerConfig, dict(config or {}))
    world = world_of(views, now_seconds)
    explanation = explain_job(
        job, world, run_cycles(world, scheduler_config, cycles=cycles), scheduler_config, None
    )
    result: Object = msgspec.json.decode(msgspec.json.encode(explanation))
    return result
