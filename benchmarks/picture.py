"""Draw the pictures of the README: `python benchmarks/picture.py`.

`plan.svg` is the plan of an example. `demo.svg` has two views of the demonstration, which is run as in `make
demo`.
"""

import asyncio
import io
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType

from shoal.cache.dry_run import run_cycles, world_of
from shoal.cli.input import files
from shoal.cli.input.connection import resolve_access
from shoal.cli.output.cluster_view import ClusterView, JobColours, render_view
from shoal.cli.output.live_view import ClusterWatcher, view_title
from shoal.cli.output.plan import draw_plan
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import report

ROOT = Path(__file__).parents[1]
WORLD = ROOT / "examples" / "worlds" / "team.yaml"
IMAGES = ROOT / "docs" / "images"
DEMO = ROOT / "examples" / "demo"
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
    """Draw both pictures."""
    _save_svg("plan.svg", "shoal plan -f examples/worlds/team.yaml", _draw_plan)
    with _cluster() as home:
        frames = asyncio.run(_record_demo(home))
    _save_svg("demo.svg", "make demo", lambda console: console.print(frames[0], "", frames[1]))


def _save_svg(name: str, title: str, fill: Callable[[Console], object]) -> None:
    console = Console(record=True, width=124, force_terminal=True, highlight=False, file=io.StringIO())
    fill(console)
    svg = console.export_svg(title=title, code_format=FRAME, unique_id=name.removesuffix(".svg"))
    (IMAGES / name).write_text(svg, encoding="utf-8")


def _draw_plan(console: Console) -> None:
    loaded = files.load([str(WORLD)])
    steps = run_cycles(world_of(view for _, view in loaded.views), SchedulerConfig())
    draw_plan(console, steps[-1], report(steps, SchedulerConfig()))


# --- the demonstration -------------------------------------------------------------------------------------


@contextmanager
def _cluster() -> Iterator[Path]:
    """Run the cluster of the demonstration, with its pools and first jobs; yields its home."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SHOAL_HOME"] = str(Path(directory) / "home")
        sizes = ("--node-cpu", "4", "--node-gpu", "2", "--node-memory", "1Gi")
        _shoal("up", "-d", "--nodes", "4", *sizes, "--config", str(DEMO / "scheduler.yaml"))
        try:
            _shoal("label", "nodes", "node-0", "node-1", "team=vision")
            _shoal("label", "nodes", "node-2", "node-3", "team=speech")
            _apply("pools", "cartpole", "recognise")
            yield Path(os.environ["SHOAL_HOME"])
        finally:
            _shoal("down")


def _shoal(*arguments: str) -> None:
    subprocess.run([str(Path(sys.executable).with_name("shoal")), *arguments], check=True)  # noqa: S603 - our own command


def _apply(*names: str) -> None:
    _shoal("apply", *(option for name in names for option in ("-f", str(DEMO / f"{name}.yaml"))))


async def _record_demo(home: Path) -> list[RenderableType]:
    """The view when a job borrows nodes, and the view after the owner has reclaimed them for a gang."""
    cluster = KubernetesCluster(resolve_access(home, "", ""))
    colours = JobColours()
    watcher = ClusterWatcher(cluster, SchedulerConfig(scheduler_names=("*",)))
    try:
        async with watcher.running():
            await _capture(watcher, colours, lambda view: _has_running(view, cartpole=4, recognise=5))
            await asyncio.to_thread(_apply, "sweep")
            first = await _capture(watcher, colours, lambda view: _has_running(view, sweep=8))
            await asyncio.to_thread(_apply, "align")
            second = await _capture(watcher, colours, lambda view: _has_running(view, align=3))
    finally:
        await cluster.close()
    return [first, second]


def _has_running(view: ClusterView, **jobs: int) -> bool:
    """Whether jobs have that many pods on nodes, and no pod is leaving."""
    cells = [cell for node in view.nodes for cell in node.cells]
    running = Counter[str]()
    for cell in cells:
        running[cell.job.rpartition("/")[2]] += cell.pods
    return not any(cell.terminating for cell in cells) and all(running[job] >= jobs[job] for job in jobs)


async def _capture(
    watcher: ClusterWatcher, colours: JobColours, is_reached: Callable[[ClusterView], bool]
) -> RenderableType:
    async with asyncio.timeout(60):
        while not is_reached(view := watcher.view()):
            await watcher.changed.wait()
    return render_view(view, list(watcher.take_events())[-4:], colours, title=view_title(view), height=40)


if __name__ == "__main__":
    main()
