"""Draws docs/images/plan.svg, the picture of a plan in the README: `python benchmarks/picture.py`."""

import io
from pathlib import Path

from rich.console import Console

from shoal.cli import files
from shoal.cli.drawing import draw
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.report import report
from shoal.world.rehearsal import rehearse, world_of

ROOT = Path(__file__).parents[1]
WORLD = ROOT / "examples" / "worlds" / "team.yaml"
PICTURE = ROOT / "docs" / "images" / "plan.svg"
# rich's own frame, without the fonts it would load from the network
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Plan the example and keep what is drawn."""
    intake = files.load([str(WORLD)])
    steps = rehearse(world_of(view for _, view in intake.views), SchedulerConfig())
    paper = Console(record=True, width=124, force_terminal=True, highlight=False, file=io.StringIO())
    draw(paper, steps[-1], report(steps, SchedulerConfig()))
    title = "shoal plan -f examples/worlds/team.yaml"
    picture = paper.export_svg(title=title, code_format=FRAME, unique_id="plan")
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
