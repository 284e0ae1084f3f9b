"""`shoal plan --explain` as a person calls it: which names it takes, what it prints and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.input.jobnames import NotOneJobError, find
from tests.builders import batch_job, node, open_pool, pod, template, tyjob
from tests.cli.running import SHOAL_IN_SHELL, shell, shoal

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


def written(directory: Path, objects: list[dict[str, Any]]) -> str:
    path = directory / "world.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_json_has_the_documented_keys_in_order(tmp_path: Path) -> None:
    done = shoal("plan", "-f", written(tmp_path, SMALL), "--explain", "train", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert list(answer) == KEYS
    assert list(answer["tasks"][0]) == TASK_KEYS
    assert list(answer["tasks"][0]["nodes"][0]) == NODE_KEYS
    changes = {change["dimension"]: list(change) for change in answer["changes"]}
    got = ["placed", "nominated", "evicts"]
    assert changes == {
        "fewer": ["dimension", "text", "role", "count", "of", "set", *got],
        "pool": ["dimension", "text", "pool", *got],
        "priority": ["dimension", "text", "priority", *got],
        "resource": ["dimension", "text", "node", "add", *got],
        "end": ["dimension", "text", "jobs", *got],
    }


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    world = written(tmp_path, SMALL)
    as_yaml, as_json = (
        shoal("plan", "-f", world, "--explain", "tyj/train", "-o", form).stdout for form in ("yaml", "json")
    )
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_says_why_and_what_would_help(tmp_path: Path, columns: int) -> None:
    world = written(tmp_path, SMALL)
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


def test_nodes_that_are_alike_share_a_line_unless_all_are_asked_for(tmp_path: Path) -> None:
    world = written(tmp_path, LARGE)
    brief = shoal("plan", "-f", world, "--explain", "p").stdout
    wide = shoal("plan", "-f", world, "--explain", "p", "-o", "wide").stdout
    assert "n000 and 149 more" in brief
    assert "n001 and 149 more" in brief
    assert len(brief.splitlines()) < 20
    assert all(f"n{i:03}" in wide for i in range(300))


def test_with_cycles_it_is_explained_as_it_ends(tmp_path: Path) -> None:
    objects = [node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)]
    world = written(tmp_path, objects)
    text = shoal("plan", "-f", world, "--cycles", "9", "--explain", "p").stdout
    assert "ScheduledSucceed" in text
    assert "chosen for p" in text


@pytest.mark.parametrize("name", ["trian", "pod/train", "other/train", "", "/", "a/b/c/d"])
def test_a_job_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path, name: str) -> None:
    done = shoal("plan", "-f", written(tmp_path, SMALL), "--explain", name)
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
LOST = {
    "train": "means 2 jobs: TYJob/a/train, TYJob/b/train",
    "b/ads": "means 2 jobs: TrainingJob/b/ads, Pod/b/ads",
    "trian": "did you mean TYJob/a/train, TYJob/b/train",
    "job/b/render": "did you mean Pod/b/render-0?",
    "zzzzzz": "the plan has DIJob/b/atari, Gang/b/g, Pod/b/ads",
}


@pytest.mark.parametrize("name, job", FOUND.items())
def test_a_job_is_found_by_any_name_that_means_it_alone(name: str, job: str) -> None:
    assert find(name, JOBS) == job


@pytest.mark.parametrize("name, said", LOST.items())
def test_a_name_that_means_none_or_several_says_which_there_are(name: str, said: str) -> None:
    with pytest.raises(NotOneJobError) as problem:
        find(name, JOBS)
    assert said in str(problem.value)
    assert len(str(problem.value)) < 300


BATCH = [
    node("n1", cpu=2),
    batch_job("render", template(cpu=1), parallelism=3),
    batch_job("over", template(cpu=1), status={"conditions": [{"type": "Complete", "status": "True"}]}),
]


@pytest.mark.parametrize("name", ["render", "job/render", "jobs/default/render", "Job/default/render"])
def test_of_a_batch_job_the_first_pod_that_waits_is_explained(tmp_path: Path, name: str) -> None:
    done = shoal("plan", "-f", written(tmp_path, BATCH), "--explain", name, "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["job"], answer["state"]) == ("Pod/default/render-2", "Unscheduled")


def test_a_batch_job_that_waits_for_nothing(tmp_path: Path) -> None:
    world = written(tmp_path, [*BATCH, node("n2", cpu=2)])
    placed = json.loads(shoal("plan", "-f", world, "--explain", "job/render", "-o", "json").stdout)
    assert (placed["job"], placed["state"]) == ("Pod/default/render-0", "ScheduledSucceed")
    over = shoal("plan", "-f", world, "--explain", "job/over")
    assert (over.returncode, over.stderr) == (2, "error: Job/default/over has no pod that runs or waits\n")


def test_of_very_many_jobs_a_few_are_named() -> None:
    with pytest.raises(NotOneJobError, match=r"means 500 jobs: .* and 490 more") as problem:
        find("same", [f"Pod/ns{i}/same" for i in range(500)])
    assert len(str(problem.value)) < 300


def test_in_an_empty_world_there_is_nothing_to_explain(tmp_path: Path) -> None:
    done = shoal("plan", "-f", written(tmp_path, [node("n1")]), "--explain", "x")
    assert done.returncode == 2
    assert "the plan has no job" in done.stderr
