"""`shoal plan` through the real command: files, output and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import batch_job, node, pod, template, tyjob
from tests.cli.process import SHOAL_IN_SHELL, shell, shoal

ROOT = Path(__file__).parents[2]
TEAM = ROOT / "examples" / "worlds" / "team.yaml"

REPORT_KEYS = ["cycles", "stable", "placements", "evictions", "jobs", "pools"]
PLACEMENT_KEYS = ["pod", "job", "role", "node", "pool", "home", "borrowed"]
JOB_KEYS = [
    *(
        "job",
        "state",
        "pool",
        "priority",
        "jobPriority",
        "position",
        "share",
        "min",
        "max",
        "current",
        "target",
    ),
    *("allocation", "nominated", "reasons"),
]
POOL_KEYS = [
    *("pool", "nodes", "preemption", "borrowing", "sharing"),
    *("capacity", "allocatable", "used", "shared", "system", "pending", "pendingPods"),
]


def write_world(directory: Path, *objects: dict[str, Any], name: str = "world.yaml") -> str:
    path = directory / name
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def run_plan(*arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    done = shoal("plan", *arguments, "-o", "json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_json_has_the_documented_keys_in_order() -> None:
    report = run_plan("-f", str(TEAM))
    assert list(report) == REPORT_KEYS
    assert list(report["placements"][0]) == PLACEMENT_KEYS
    assert list(report["jobs"][0]) == JOB_KEYS
    assert list(report["pools"][0]) == POOL_KEYS


def test_yaml_equals_json() -> None:
    done = shoal("plan", "-f", str(TEAM), "-o", "yaml")
    assert yaml.safe_load(done.stdout) == run_plan("-f", str(TEAM))


def test_cycles_run_until_nothing_changes() -> None:
    once, often = run_plan("-f", str(TEAM)), run_plan("-f", str(TEAM), "--cycles", "10")
    assert (once["cycles"], once["stable"]) == (1, False)
    assert (often["cycles"], often["stable"]) == (3, True)
    (waiting,) = [job for job in once["jobs"] if job["job"] == "DIJob/research/atari"]
    assert waiting["reasons"][0]["code"] == "WaitingForRoom"
    (running,) = [job for job in often["jobs"] if job["job"] == "DIJob/research/atari"]
    assert running["allocation"] == waiting["nominated"]


def test_table_shows_usage_bars_and_waiting_jobs() -> None:
    text = shell(f"COLUMNS=160 {SHOAL_IN_SHELL} plan -f '{TEAM}'").stdout
    words = " ".join(text.split())
    assert "█" in text
    assert "go-player-learner" in text
    assert "DIJob/research/atari" in text
    assert "WaitingForRoom" in text
    assert "ScheduledFailed" in text
    assert "4 short of nvidia.com/gpu" in words
    assert "Pod/ads/render-0" not in text, "running pods are shown only with -o wide"
    assert "Pod/ads/render-0" in shoal("plan", "-f", str(TEAM), "-o", "wide").stdout


def test_files_directories_and_standard_input_are_combined(tmp_path: Path) -> None:
    write_world(tmp_path, node("n1", cpu=4), name="a.yaml")
    (tmp_path / "b.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n2", cpu=4)]})
    )
    report = run_plan("-f", str(tmp_path), "-f", "-", stdin=yaml.safe_dump(pod("p", cpu=1)).encode())
    assert report["pools"][0]["nodes"] == ["n1", "n2"]
    assert [p["node"] for p in report["placements"]] == ["n1"]


def test_now_decides_when_a_lost_gang_is_evicted(tmp_path: Path) -> None:
    job = tyjob("a", leader=template(cpu=1), workers={"w": (2, template(cpu=4))}, min_workers=2)
    job["status"] = {"brokenSince": "2026-01-01T00:00:00Z", "allocations": {"a-leader": "n1", "a-w-0": "n1"}}
    world = write_world(tmp_path, node("n1", cpu=5), node("n2", cpu=4, ready="False"), job)
    early = run_plan("-f", world, "--now", "2026-01-01T00:04:59Z")
    late = run_plan("-f", world, "--now", "2026-01-01T00:05:00Z")
    assert early["evictions"] == []
    assert [(e["pod"], e["reason"], e["for"]) for e in late["evictions"]] == [
        ("default/a-leader", "GangLost", None),
        ("default/a-w-0", "GangLost", None),
    ]


def test_configuration_is_used(tmp_path: Path) -> None:
    world = write_world(tmp_path, node("n1", cpu=4), pod("p", cpu=1, scheduler="mine"))
    config = tmp_path / "scheduler.yaml"
    config.write_text("schedulerNames: [mine]\ncooldown: 1m30s\ninfeasibleSeconds: null\n")
    assert run_plan("-f", world)["jobs"] == []
    assert len(run_plan("-f", world, "--config", str(config))["placements"]) == 1


BAD_CONFIGS = {
    "unknown keys and bad values, all of them": (
        "colour: red\nqueuePolicy: Best\ncooldown: soon\nmaxLoad: 2\n",
        ["colour: is not known", "queuePolicy: must be", "cooldown: must be a duration", "maxLoad: must be"],
    ),
    "a list": ("- a\n", ["must contain exactly one mapping"]),
    "two documents": ("a: 1\n---\nb: 2\n", ["must contain exactly one mapping"]),
    "not yaml": ("a: b: c\n", ["is not YAML"]),
}


@pytest.mark.parametrize("text, errors", BAD_CONFIGS.values(), ids=BAD_CONFIGS.keys())
def test_invalid_configuration_is_rejected(tmp_path: Path, text: str, errors: list[str]) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(text)
    done = shoal("plan", "-f", str(TEAM), "--config", str(config))
    assert (done.returncode, done.stdout) == (2, "")
    assert all(error in done.stderr for error in errors), done.stderr
    assert "Traceback" not in done.stderr


BAD_ARGUMENTS = {
    "a missing file": ["-f", "nowhere.yaml"],
    "an invalid time": ["-f", str(TEAM), "--now", "noon"],
    "a time without a zone": ["-f", str(TEAM), "--now", "2026-01-01T00:00:00"],
    "an invalid step": ["-f", str(TEAM), "--step", "1 day"],
    "no cycles": ["-f", str(TEAM), "--cycles", "0"],
    "an unknown output": ["-f", str(TEAM), "-o", "xml"],
    "a missing configuration": ["-f", str(TEAM), "--config", "nowhere.yaml"],
}


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS.keys())
def test_invalid_arguments_are_rejected(arguments: list[str]) -> None:
    done = shoal("plan", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_objects_stop_the_plan_and_all_errors_are_printed(tmp_path: Path) -> None:
    bad = pod("p", cpu="-1") | {"apiVersion": "v1"}
    world = write_world(tmp_path, node("n1", cpu="lots"), bad, bad, batch_job("b", template(cpu=1)))
    done = shoal("plan", "-f", world, "-o", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Node n1: status.allocatable.cpu: must be a quantity" in done.stderr
    assert done.stderr.count("requests.cpu: must be 0 or more") == 2
    assert "metadata.name: is a duplicate" in done.stderr


def test_unknown_kinds_are_skipped_and_named(tmp_path: Path) -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    done = shoal("plan", "-f", write_world(tmp_path, node("n1"), other))
    assert done.returncode == 0
    assert "Deployment apps/v1" in done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    done = shell(f"{SHOAL_IN_SHELL} plan -f '{TEAM}' -o json | head -1")
    assert done.stdout.strip() == "{"
    assert done.stderr == ""


def test_a_world_without_jobs_is_planned(tmp_path: Path) -> None:
    report = run_plan("-f", write_world(tmp_path, node("n1", cpu=1)), "--cycles", "5")
    assert (report["cycles"], report["stable"], report["jobs"]) == (1, True, [])
    text = shoal("plan", "-f", write_world(tmp_path, node("n1", cpu=1))).stdout
    assert "0 pods placed" in text


EXAMPLES = sorted((ROOT / "examples" / "worlds").glob("*.yaml"))


@pytest.mark.parametrize("world", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_every_example_is_valid_and_becomes_stable(world: Path) -> None:
    done = shoal("plan", "-f", str(world), "--cycles", "20", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["stable"]


def test_lent_nodes_are_reclaimed_by_their_owner() -> None:
    """Team B's job gets the node that team A's pod has borrowed."""
    report = run_plan("-f", str(ROOT / "examples" / "worlds" / "two-teams.yaml"), "--cycles", "10")
    assert [(e["pod"], e["reason"], e["for"]) for e in report["evictions"]] == [
        ("a/sweep-1", "Reclaimed", "DIJob/b/chess")
    ]
    assert {p["pod"]: p["node"] for p in report["placements"]} == {"b/chess-0-0": "b-1", "b/chess-0-1": "b-1"}
