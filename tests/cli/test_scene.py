"""The live view: what is to be seen of a world, and how it is drawn."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from shoal.api.intake import take
from shoal.cache.dry_run import world_of
from shoal.cache.snapshots import assemble
from shoal.cli.output.cluster_view import ClusterView, JobColours, build_view, render_view
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from tests.builders import Object, batch_job, node, open_pool, owner, pod, template

SWEEP = owner("Job", "sweep")
TEAMS = [
    node("a1", cpu=4, labels={"pool": "a"}),
    node("b1", cpu=4, labels={"pool": "b"}),
    open_pool("a", selector={"pool": "a"}),
    open_pool("b", selector={"pool": "b"}),
]


def scene(objects: Sequence[Object]) -> ClusterView:
    intake = take(("test", raw) for raw in objects)
    assert not intake.errors, intake.errors
    world, config = world_of(view for _, view in intake.views), SchedulerConfig()
    made = assemble(world, config, world.now)
    return build_view(world, made, cycle(made.snapshot, config))


def lines(objects: Sequence[Object], *, news: Sequence[str] = (), height: int = 40) -> list[str]:
    """What is drawn, with blanks drawn together."""
    page = io.StringIO()
    picture = render_view(scene(objects), news, JobColours(), title="lab", height=height)
    Console(file=page, width=110).print(picture)
    return [" ".join(line.split()) for line in page.getvalue().splitlines()]


PICTURES: dict[str, tuple[Sequence[Object], Sequence[str]]] = {
    "pods fill their node, at home": (
        [node("n1", cpu=4), pod("p", cpu=1, node="n1"), pod("q", cpu=2, node="n1")],
        ["default n1 ███· p, q", "p default 0 1 0 0", "q default 0 1 0 0"],
    ),
    "guests are told from those at home": (
        [*TEAMS, pod("p", cpu=2, node="b1", pool="a"), pod("q", cpu=1, node="b1", pool="b")],
        ["a a1 ····", "b b1 █▒▒· q, p of a", "p a 0 1 1 0"],
    ),
    "who is leaving still has its room": (
        [node("n1", cpu=4), pod("p", cpu=2, node="n1", terminating=True)],
        ["default n1 ░░·· p leaving"],
    ),
    "pods of a Job are counted together, those to come too": (
        [
            node("n1", cpu=4),
            batch_job("sweep", template(cpu=1), completions=9, parallelism=6, status={"succeeded": 1}),
            pod("s-0", cpu=1, node="n1", owner=SWEEP, phase="Succeeded"),
            *(pod(f"s-{i}", cpu=1, node="n1", owner=SWEEP) for i in (1, 2, 3)),
        ],
        ["default n1 ███· sweep ×3", "sweep default 1/9 3 0 3"],
    ),
    "who waits says why": (
        [node("n1", cpu=1), pod("p", cpu=1, node="n1"), pod("q", cpu=1)],
        ["q default 0 0 0 1 NoRoom: pool default: 0/1 nodes fit: 1 short of cpu"],
    ),
    "where there are GPUs, they are what counts": (
        [node("g", cpu=64, gpu=4), pod("p", cpu=8, gpu=3, node="g")],
        ["default g ███· p"],
    ),
    "a large node has a cell for several cores": (
        [node("n", cpu=64), pod("p", cpu=32, node="n")],
        ["default n ████████········ p"],
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str) -> None:
    objects, expected = PICTURES[name]
    found = lines(objects)
    missing = [line for line in expected if not any(there.startswith(line) for there in found)]
    assert not missing, "\n".join(found)


def test_what_is_too_much_for_the_screen_is_counted() -> None:
    nodes = [node(f"n{i:02}", cpu=4) for i in range(50)]
    found = lines([*nodes, pod("p", cpu=1, node="n49")], news=["so it goes"], height=24)
    assert len(found) <= 24
    assert any("n49 █··· p" in line for line in found)
    assert "… and 36 other nodes" in found
    assert found[-1] == "so it goes"


@pytest.mark.parametrize(
    "objects, idle",
    [
        ([node("n1")], True),
        ([node("n1"), pod("p", cpu=1, node="n1")], False),
        ([node("n1"), pod("p", cpu=1)], False),
        ([node("n1"), pod("p", cpu=1, node="n1", phase="Succeeded")], True),
    ],
)
def test_idle_is_when_nothing_runs_and_nothing_waits(objects: Sequence[Object], idle: bool) -> None:  # noqa: FBT001
    assert scene(objects).idle is idle
