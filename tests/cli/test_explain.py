"""`shoal plan --explain` through the real command: names of jobs, output and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.input.planning import JobNameError, find_job
from tests.builders import batch_job, node, open_pool, pod, template, tyjob
from tests.cli.process import SHOAL_IN_SHELL, shell, shoal

KEYS = ["job", "state", "pool", "priority", "cycles", "reasons", "summary", "tasks", "changes"]
TASK_KEYS = ["task", "role", "count", "waiting", "requests", "policy", "best", "when", "nodes"]
NODE_KEYS = [
    *("node", "pool", "lender", "fits", "takes", "barrier", "why", "short", "lack", "keptFor"),
    *("score", "siblings", "chosen", "pods"),
]
WORKER = template(cpu=2, gpu=1)
SMALL = [
    node("n1", gpu=2),
    node("n2", gpu=2),
    node("b1", gpu=4, labels={"pool": "b"}),
    open_pool("b", shares=False),
    pod("x", cpu=1, gpu=2, node="n1"),
    tyjob("train", leader=template(cpu=1), workers={"w": (4, WORKER)}, min_workers=3),
]
LARGE = [
    *(node(f"n{i:03}", cpu=4) for i in range(300)),
    *(pod(f"x{i}", cpu=2 + i % 2, node=f"n{i:03}") for i in range(300)),
    pod("p", cpu=3),
]


def write_world(directory: Path, objects: list[dict[str, Any]]) -> str:
    path = directory / "world.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_json_has_the_documented_keys_in_order(tmp_path: Path) -> None:
    done = shoal("plan", "-f", write_world(tmp_path, SMALL), "--explain", "train", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    explanation = json.loads(done.stdout)
    assert list(explanation) == KEYS
    assert list(explanation["tasks"][0]) == TASK_KEYS
    assert list(explanation["tasks"][0]["nodes"][0]) == NODE_KEYS
    changes = {change["dimension"]: list(change) for change in explanation["changes"]}
    got = ["placed", "nominated", "evicts"]
    assert changes == {
        "fewer": ["dimension", "text", "role", "count", "of", "set", *got],
        "pool": ["dimension", "text", "pool", *got],
        "priority": ["dimension", "text", "priority", *got],
        "resource": ["dimension", "text", "node", "add", *got],
        "end": ["dimension", "text", "jobs", *got],
    }


def test_yaml_equals_json(tmp_path: Path) -> None:
    world = write_world(tmp_path, SMALL)
    as_yaml, as_json = (
        shoal("plan", "-f", world, "--explain", "tyj/train", "-o", form).stdout for form in ("yaml", "json")
    )
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


@pytest.mark.parametrize("columns", [80, 120])
def test_table_shows_reasons_and_changes(tmp_path: Path, columns: int) -> None:
    world = write_world(tmp_path, SMALL)
    text = shell(f"COLUMNS={columns} {SHOAL_IN_SHELL} plan -f '{world}' --explain train").stdout
    assert "\x1b" not in text, "no colours in a pipe"
    assert all(len(line) <= columns for line in text.splitlines())
    words = " ".join(text.split())
    assert "TYJob/default/train: Unscheduled in pool default" in words
    assert "train-w-0 and 3 more workers: 4 of 4 without a node" in words
    assert "short of 1 nvidia.com/gpu" in words
    assert "fits 2 of 4" in words
    assert "Any one of these would let it run now; each was planned." in words
    assert "with 2 of 3 workers (spec.minWorkersNum: 2)" in words
    assert "in pool b, if that were its home" in words
    assert "1 more nvidia.com/gpu on node n1" in words
    assert "when Pod/default/x ends" in words


def test_equal_nodes_share_a_row_except_with_wide(tmp_path: Path) -> None:
    world = write_world(tmp_path, LARGE)
    brief = shoal("plan", "-f", world, "--explain", "p").stdout
    wide = shoal("plan", "-f", world, "--explain", "p", "-o", "wide").stdout
    assert "n000 and 149 more" in brief
    assert "n001 and 149 more" in brief
    assert len(brief.splitlines()) < 20
    assert all(f"n{i:03}" in wide for i in range(300))


def test_with_cycles_the_last_cycle_is_explained(tmp_path: Path) -> None:
    objects = [node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)]
    world = write_world(tmp_path, objects)
    text = shoal("plan", "-f", world, "--cycles", "9", "--explain", "p").stdout
    assert "ScheduledSucceed" in text
    assert "chosen for p" in text


@pytest.mark.parametrize("name", ["trian", "pod/train", "other/train", "", "/", "a/b/c/d"])
def test_a_missing_job_is_an_error_with_a_hint(tmp_path: Path, name: str) -> None:
    done = shoal("plan", "-f", write_world(tmp_path, SMALL), "--explain", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "TYJob/default/train" in done.stderr
    assert "Traceback" not in done.stderr


JOBS = (
    "TYJob/a/train",
    "TYJob/b/train",
    "DIJob/b/atari",
    "TrainingJob/b/ads",
    "Pod/b/ads",
    "Pod/b/render-0",
    "Gang/b/g",
)
FOUND = {
    "TYJob/a/train": "TYJob/a/train",
    "tyjob/a/train": "TYJob/a/train",
    "tyj/b/train": "TYJob/b/train",
    "a/train": "TYJob/a/train",
    "dijob/atari": "DIJob/b/atari",
    "atari": "DIJob/b/atari",
    "tj/ads": "TrainingJob/b/ads",
    "po/ads": "Pod/b/ads",
    "GANG/g": "Gang/b/g",
}
NOT_FOUND = {
    "train": "matches 2 jobs: TYJob/a/train, TYJob/b/train",
    "b/ads": "matches 2 jobs: TrainingJob/b/ads, Pod/b/ads",
    "trian": "did you mean TYJob/a/train, TYJob/b/train",
    "job/b/render": "did you mean Pod/b/render-0?",
    "zzzzzz": "the plan has DIJob/b/atari, Gang/b/g, Pod/b/ads",
}


@pytest.mark.parametrize("name, job", FOUND.items())
def test_a_job_is_found_by_any_unique_name(name: str, job: str) -> None:
    assert find_job(name, JOBS) == job


@pytest.mark.parametrize("name, message", NOT_FOUND.items())
def test_error_of_a_missing_or_ambiguous_name_lists_jobs(name: str, message: str) -> None:
    with pytest.raises(JobNameError) as problem:
        find_job(name, JOBS)
    assert message in str(problem.value)
    assert len(str(problem.value)) < 300


BATCH = [
    node("n1", cpu=2),
    batch_job("render", template(cpu=1), parallelism=3),
    batch_job("over", template(cpu=1), status={"conditions": [{"type": "Complete", "status": "True"}]}),
]


@pytest.mark.parametrize("name", ["render", "job/render", "jobs/default/render", "Job/default/render"])
def test_for_a_batch_job_the_first_waiting_pod_is_explained(tmp_path: Path, name: str) -> None:
    done = shoal("plan", "-f", write_world(tmp_path, BATCH), "--explain", name, "-o", "json")
    explanation = json.loads(done.stdout)
    assert (explanation["job"], explanation["state"]) == ("Pod/default/render-2", "Unscheduled")


def test_a_batch_job_without_waiting_pods(tmp_path: Path) -> None:
    world = write_world(tmp_path, [*BATCH, node("n2", cpu=2)])
    placed = json.loads(shoal("plan", "-f", world, "--explain", "job/render", "-o", "json").stdout)
    assert (placed["job"], placed["state"]) == ("Pod/default/render-0", "ScheduledSucceed")
    over = shoal("plan", "-f", world, "--explain", "job/over")
    assert (over.returncode, over.stderr) == (2, "error: Job/default/over has no running or waiting pod\n")


def test_error_lists_only_a_few_of_many_jobs() -> None:
    with pytest.raises(JobNameError, match=r"matches 500 jobs: .* and 490 more") as problem:
        find_job("same", [f"Pod/ns{i}/same" for i in range(500)])
    assert len(str(problem.value)) < 300


def test_explain_in_an_empty_world(tmp_path: Path) -> None:
    done = shoal("plan", "-f", write_world(tmp_path, [node("n1")]), "--explain", "x")
    assert done.returncode == 2
    assert "the plan has no job" in done.stderr
