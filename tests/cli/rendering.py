"""Plan objects, and render the plan as text."""

import io
from typing import NamedTuple

from rich.console import Console

from shoal.api.loader import load_objects
from shoal.cache.dry_run import run_cycles, world_of
from shoal.cli.output import plan
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult, Report, report
from tests.builders import Object


class PlannedObjects(NamedTuple):
    """The last cycle of a plan, and the report on it."""

    last: CycleResult
    report: Report


def plan_objects(*objects: Object) -> PlannedObjects:
    """Plan objects for one cycle."""
    config = SchedulerConfig()
    loaded = load_objects(("test", raw) for raw in objects)
    assert not loaded.errors, loaded.errors
    steps = run_cycles(world_of(view for _, view in loaded.views), config)
    return PlannedObjects(steps[-1], report(steps, config))


def render_plan(*objects: Object, width: int = 120, wide: bool = False) -> str:
    """Plan objects, and render the plan."""
    text = io.StringIO()
    plan.draw_plan(Console(file=text, width=width), *plan_objects(*objects), wide=wide)
    return text.getvalue()
