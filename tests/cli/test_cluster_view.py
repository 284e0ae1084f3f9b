"""The view of a cluster: built from a world, and rendered."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from shoal.api.loader import load_objects
from shoal.cache.dry_run import world_of
from shoal.cache.snapshots import build_snapshot
from shoal.cli.output.cluster_view import ClusterView, JobColours, build_view, render_view
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from tests.builders import Object, batch_job, node, open_pool, owner, pod, template, trainingjob

SWEEP = owner("Job", "sweep")
TEAMS = [
    node("a1", cpu=4, labels={"pool": "a"}),
    node("b1", cpu=4, labels={"pool": "b"}),
    open_pool("a", selector={"pool": "a"}),
    open_pool("b", selector={"pool": "b"}),
]


def view(objects: Sequence[Object]) -> ClusterView:
    loaded = load_objects(("test", raw) for raw in objects)
    assert not loaded.errors, loaded.errors
    world, config = world_of(view for _, view in loaded.views), SchedulerConfig()
    made = build_snapshot(world, config, world.now)
    return build_view(world, made, cycle(made.snapshot, config))


def lines(objects: Sequence[Object], *, events: Sequence[str] = (), height: int = 40) -> list[str]:
    """The lines of the rendered view, with runs of blanks collapsed."""
    text = io.StringIO()
    rendering = render_view(view(objects), events, JobColours(), title="lab", height=height)
    Console(file=text, width=110).print(rendering)
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


VIEWS: dict[str, tuple[Sequence[Object], Sequence[str]]] = {
    "pods fill the bar of their node": (
        [node("n1", cpu=4), pod("p", cpu=1, node="n1"), pod("q", cpu=2, node="n1")],
        ["default n1 ███· p, q", "p default 0 1 0 0", "q default 0 1 0 0"],
    ),
    "pods of other pools are marked as borrowing": (
        [*TEAMS, pod("p", cpu=2, node="b1", pool="a"), pod("q", cpu=1, node="b1", pool="b")],
        ["a a1 ····", "b b1 █▒▒· q, p of a", "p a 0 1 1 0"],
    ),
    "terminating pods still use their node": (
        [node("n1", cpu=4), pod("p", cpu=2, node="n1", terminating=True)],
        ["default n1 ░░·· p leaving"],
    ),
    "pods of a Job are counted together, missing ones too": (
        [
            node("n1", cpu=4),
            batch_job("sweep", template(cpu=1), completions=9, parallelism=6, status={"succeeded": 1}),
            pod("s-0", cpu=1, node="n1", owner=SWEEP, phase="Succeeded"),
            *(pod(f"s-{i}", cpu=1, node="n1", owner=SWEEP) for i in (1, 2, 3)),
        ],
        ["default n1 ███· sweep ×3", "sweep default 1/9 3 0 3"],
    ),
    "waiting pods have a reason": (
        [node("n1", cpu=1), pod("p", cpu=1, node="n1"), pod("q", cpu=1)],
        ["q default 0 0 0 1 NoRoom: pool default: 0/1 nodes fit: 1 short of cpu"],
    ),
    "nodes with GPUs have a bar for GPUs and one for CPU": (
        [node("c", cpu=2), node("g", cpu=64, gpu=4), pod("p", cpu=8, gpu=3, node="g")],
        ["POOL NODE GPU CPU WORKLOADS", "default c ··", "g ███· █······· p"],
    ),
    "elastic jobs have a size": (
        [
            node("n", cpu=8),
            trainingjob("t", trainer={"cpu": 1}, trainers=(1, 4)),
            *(pod(f"t-trainer-{i}", cpu=1, node="n", owner=owner("TrainingJob", "t")) for i in (0, 1)),
            pod("p", cpu=1, node="n"),
        ],
        ["JOB POOL SIZE DONE", "p default 0 1", "t default 2 of 1–4 0 2"],
    ),
    "the bar of a large node is scaled down": (
        [node("n", cpu=64), pod("p", cpu=32, node="n")],
        ["default n ████████········ p"],
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_shows_nodes_and_jobs(name: str) -> None:
    objects, expected = VIEWS[name]
    rendered = lines(objects)
    missing = [line for line in expected if not any(shown.startswith(line) for shown in rendered)]
    assert not missing, "\n".join(rendered)


def test_rows_beyond_the_height_are_counted() -> None:
    nodes = [node(f"n{i:02}", cpu=4) for i in range(50)]
    rendered = lines([*nodes, pod("p", cpu=1, node="n49")], events=["so it goes"], height=24)
    assert len(rendered) <= 24
    assert any("n49 █··· p" in line for line in rendered)
    assert "… and 36 other nodes" in rendered
    assert rendered[-1] == "so it goes"


@pytest.mark.parametrize(
    "objects, idle",
    [
        ([node("n1")], True),
        ([node("n1"), pod("p", cpu=1, node="n1")], False),
        ([node("n1"), pod("p", cpu=1)], False),
        ([node("n1"), pod("p", cpu=1, node="n1", phase="Succeeded")], True),
    ],
)
def test_view_is_idle_when_no_pod_runs_or_waits(objects: Sequence[Object], idle: bool) -> None:  # noqa: FBT001
    assert view(objects).idle is idle
