"""A world planned and drawn, as text."""

import io
from typing import NamedTuple

from rich.console import Console

from shoal.api.intake import take
from shoal.cache.dry_run import rehearse, world_of
from shoal.cli.output import plan
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult, Report, report
from tests.builders import Object


class Planned(NamedTuple):
    last: CycleResult
    answer: Report


def planned(*objects: Object) -> Planned:
    settings = SchedulerConfig()
    intake = take(("test", raw) for raw in objects)
    assert not intake.errors, intake.errors
    steps = rehearse(world_of(view for _, view in intake.views), settings)
    return Planned(steps[-1], report(steps, settings))


def drawn(*objects: Object, width: int = 120, wide: bool = False) -> str:
    page = io.StringIO()
    plan.draw_plan(Console(file=page, width=width), *planned(*objects), wide=wide)
    return page.getvalue()
