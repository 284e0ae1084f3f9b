"""The table of pools: a block of six rows and five columns for each pool, and the total."""

import re
from collections.abc import Mapping, Sequence

import pytest

from tests.builders import (
    Object,
    batch_job,
    node,
    open_pool,
    pod,
    pool,
    template,
    tyjob,
)
from tests.cli.rendering import render_plan

HEADER = ["POOL", "RESOURCE", "CAPACITY", "ALLOCATABLE", "USED", "SHARED", "PENDING"]
ROWS = ["cpu", "gpu", "mem", "storage", "nodes", "pods"]

Amounts = Mapping[str, Mapping[str, str]]
"""By pool and row: the five amounts, separated by blanks."""


def blocks(text: str) -> dict[str, dict[str, str]]:
    """Parse the table of pools in an output: each pool with its rows."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == HEADER)
    end = next(i for i, line in enumerate(lines) if line.startswith("p preemption") or "includes" in line)
    column = lines[start].index("RESOURCE")
    found: dict[str, dict[str, str]] = {}
    name = ""
    for before, line in zip(lines[start:end], lines[start + 1 : end], strict=False):
        if line[:column].strip() and (before is lines[start] or not before.strip()):
            name = line[:column].strip()
        resource, _, amounts = line[column:].partition(" ")
        if resource:
            found.setdefault(name, {})[resource] = " ".join(amounts.split())
    return found


A, B = {"pool": "a"}, {"pool": "b"}
DAEMON = pod("daemon", cpu="100m", node="n1", scheduler="default-scheduler")
DISK = "ephemeral-storage"

WORLDS: dict[str, tuple[Sequence[Object], Amounts]] = {
    "running pods are used, and pods that do not fit are pending": (
        [
            node("n1", cpu=8, memory="32Gi", gpu=4, pods=110, more={DISK: "100Gi"}),
            pod("p", cpu="1500m", memory="512Mi", gpu=1, node="n1"),
            pod("q", cpu=2, gpu=4),
        ],
        {
            "default": {
                "cpu": "8 8 1.5 0 2",
                "gpu": "4 4 1 0 4",
                "mem": "32Gi 32Gi 512Mi 0 0",
                "storage": "100Gi 100Gi 0 0 0",
                "nodes": "1 1 1 0 -",
                "pods": "110 110 1 0 1",
            }
        },
    ),
    "pods that the plan places are used": (
        [node("n1", cpu=8), pod("p", cpu=3)],
        {"default": {"cpu": "8 8 3 0 0", "nodes": "1 1 1 0 -"}},
    ),
    "pods on borrowed nodes are shared in the lending pool, and Total is the sum of all pools": (
        [
            open_pool("a"),
            open_pool("b"),
            node("n1", cpu=8, labels=A, pods=10),
            node("n2", cpu=4, labels=B, pods=10),
            node("n3", cpu=1, pods=10),
            pod("own", cpu=1, pool="b", node="n2"),
            pod("guest", cpu=2, pool="a", node="n2"),
            pod("large", cpu=9, pool="a"),
        ],
        {
            "a": {"cpu": "8 8 0 0 9", "nodes": "1 1 0 0 -", "pods": "10 10 0 0 1"},
            "b": {"cpu": "4 4 3 2 0", "nodes": "1 1 1 1 -", "pods": "10 10 2 1 0"},
            "default": {"cpu": "1 1 0 0 0", "nodes": "1 1 0 0 -", "pods": "10 10 0 0 0"},
            "Total": {"cpu": "13 13 3 2 9", "nodes": "3 3 1 1 -", "pods": "30 30 2 1 1"},
        },
    ),
    "a borrowing pod that the plan places is shared, one that it evicts is not": (
        [
            open_pool("a"),
            open_pool("b"),
            node("n1", cpu=4, labels=A),
            node("n2", cpu=4, labels=B),
            pod("p1", cpu=4, pool="a", node="n1"),
            pod("p2", cpu=4, pool="a"),
            open_pool("c"),
            open_pool("d", borrows=False),
            node("n3", cpu=4, labels={"pool": "c"}),
            pod("p3", cpu=4, pool="d", node="n3"),
            pod("p4", cpu=4, pool="c"),
        ],
        {
            "b": {"cpu": "4 4 4 4 0", "nodes": "1 1 1 1 -"},
            "c": {"cpu": "4 4 0 0 4", "nodes": "1 1 0 0 -"},
        },
    ),
    "GPUs of all vendors are one row": (
        [node("n1", gpu=2, more={"amd.com/gpu": 4, "example.com/fpga": 9}), pod("p", gpu=1, node="n1")],
        {"default": {"gpu": "6 6 1 0 0"}},
    ),
    "GPUs can be pending in a pool without any": (
        [node("n1"), pod("p", spec=template(gpu=3)["spec"])],
        {"default": {"gpu": "0 0 0 0 3"}},
    ),
    "unschedulable nodes count as capacity, but are not allocatable": (
        [node("n1"), node("n2", unschedulable=True), node("n3", ready="False"), node("n4", ready="True")],
        {"default": {"nodes": "4 2 0 0 -"}},
    ),
    "a node with DaemonSet pods only is idle": (
        [node("n1", pods=9), node("n2", pods=9), DAEMON, pod("p", cpu=1, node="n2")],
        {"default": {"cpu": "20 20 1.1 0 0", "nodes": "2 2 1 0 -", "pods": "18 18 2 0 0"}},
    ),
    "a node without a limit of pods": (
        [open_pool("a"), node("n1", labels=A), node("n2", labels=A, pods=5), node("n3", pods=5)],
        {
            "a": {"pods": "∞ ∞ 0 0 0"},
            "default": {"pods": "5 5 0 0 0"},
            "Total": {"pods": "∞ ∞ 0 0 0"},
        },
    ),
    "a pool without nodes that has pending pods": (
        [pool("a", selector=A), node("n1", pods=5), pod("p", cpu=2, pool="a")],
        {"a": {"cpu": "0 0 0 0 2", "gpu": "0 0 0 0 0", "nodes": "0 0 0 0 -", "pods": "0 0 0 0 1"}},
    ),
    "a whole job waits": (
        [
            node("n1", cpu=4),
            tyjob("j", leader=template(cpu=2), workers={"w": (3, template(cpu=1))}, policy="Gang"),
        ],
        {"default": {"cpu": "4 4 0 0 5", "pods": "∞ ∞ 0 0 4"}},
    ),
    "pending requests above the maximum of a quantity": (
        [node("n1"), batch_job("b", template(memory="1Pi"), parallelism=1100)],
        {"default": {"mem": "10Gi 10Gi 0 0 1100Pi", "pods": "∞ ∞ 0 0 1100"}},
    ),
}


@pytest.mark.parametrize("world, expected", WORLDS.values(), ids=WORLDS.keys())
def test_amounts(world: Sequence[Object], expected: Amounts) -> None:
    found = blocks(render_plan(*world, width=80))
    for name, rows in expected.items():
        assert list(found[name]) == ROWS
        assert {row: found[name][row] for row in rows} == rows, name


def test_an_empty_pool_has_one_row() -> None:
    found = blocks(render_plan(open_pool("a"), node("n1", labels=A)))
    assert found["default"] == {"nodes": "0 0 0 0 -"}
    assert list(found["a"]) == list(found["Total"]) == ROWS


def test_a_single_pool_has_no_total() -> None:
    assert list(blocks(render_plan(node("n1")))) == ["default"]


def test_features_are_shown_below_the_name() -> None:
    pools = [pool("masters", selector=A), open_pool("b", borrows=False)]
    text = render_plan(*pools, node("n1", labels=A))
    assert re.search(r"^masters .*\np x  b x  s x ", text, re.MULTILINE)
    assert re.search(r"^b .*\np √  b x  s √ ", text, re.MULTILINE)
    assert re.search(r"^default .*\np √  b √  s √ ", text, re.MULTILINE)


MANY = [open_pool(f"pool-{i}") for i in range(9)] + [
    node(f"n{i}", labels={"pool": f"pool-{i}"}, pods=10) for i in range(9)
]


def test_of_many_pools_only_active_ones_are_shown() -> None:
    waits = pod("waits", cpu=99, pool="pool-3")
    guest = pod("guest", cpu=1, pool="pool-1", node="n5")
    text = render_plan(*MANY, pod("comes", cpu=1, pool="pool-7"), waits, guest)
    assert list(blocks(text)) == ["pool-3", "pool-5", "pool-7", "Total"]
    assert "Total includes 7 other pools (-o wide shows all)" in text
    assert blocks(text)["Total"]["nodes"] == "9 9 2 1 -"
    assert "Nodes of pool-7" in text
    assert "Nodes of pool-8" not in text


def test_of_many_active_pools_those_with_most_pending_pods_are_shown() -> None:
    some = [pod(f"some-{i}", cpu=99, pool=f"pool-{i}") for i in range(9)]
    more = [pod(f"more-{i}", cpu=99, pool=f"pool-{i}") for i in range(4, 9)]
    found = blocks(render_plan(*MANY, *some, *more))
    assert list(found) == ["pool-0", *(f"pool-{i}" for i in range(4, 9)), "Total"]


def test_wide_shows_all_pools() -> None:
    assert len(blocks(render_plan(*MANY, wide=True))) == 11


@pytest.mark.parametrize("width", [80, 200])
def test_long_names_wrap_within_the_width(width: int) -> None:
    name = "a-pool-with-a-name-" + "that-does-not-end-" * 8 + "here"
    text = render_plan(
        open_pool(name, selector=A), node("n1", labels=A), pod("p", pool=name, cpu=1), width=width
    )
    assert max(map(len, text.splitlines())) <= width
    assert name in "".join(line[:24].strip() for line in text.splitlines())
