"""The examples: each is valid, and its plan has what its comment announces."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.resources import by_kind
from shoal.embedded.store import with_pod_validation
from shoal.kubelet.admission import pod_validator
from shoal.kubelet.runtime import RuntimeFeatures
from tests.builders import node
from tests.cli.process import shoal

EMBEDDED = Path(__file__).parents[1] / "examples"
WORLDS = EMBEDDED / "worlds"
EXAMPLES = sorted(WORLDS.glob("*.yaml"))

every_example = pytest.mark.parametrize("world", EXAMPLES, ids=[path.stem for path in EXAMPLES])

Answer = dict[str, Any]


@cache
def planned(name: str, cycles: int = 1) -> Answer:
    """The plan of an example."""
    done = shoal("plan", "-f", str(WORLDS / f"{name}.yaml"), "--cycles", str(cycles), "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answer: Answer = json.loads(done.stdout)
    return answer


def evicted(answer: Answer) -> list[tuple[str, str, str]]:
    """Evicted pods, with node and reason."""
    return [(entry["pod"], entry["node"], entry["reason"]) for entry in answer["evictions"]]


def placed(answer: Answer) -> dict[str, str]:
    """Pod to node, of what was placed."""
    return {entry["pod"]: entry["node"] for entry in answer["placements"]}


def job(answer: Answer, name: str) -> Answer:
    """The entry of one job."""
    (found,) = [entry for entry in answer["jobs"] if entry["job"] == name]
    return dict(found)


def codes(answer: Answer, name: str) -> list[str]:
    """Why a job waits."""
    return [reason["code"] for reason in job(answer, name)["reasons"]]


# --- all of them -------------------------------------------------------------------------------------------


@every_example
def test_it_is_valid_without_a_warning(world: Path) -> None:
    done = shoal("validate", "--quiet", "-f", str(world))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@every_example
def test_it_begins_with_a_description_and_the_command_to_run(world: Path) -> None:
    head = re.match(r"(#.*\n)+", world.read_text())
    assert head, "the first line is the headline that `make examples` prints"
    assert f"shoal plan -f examples/worlds/{world.name}" in head[0]
    assert "Look for: " in head[0]


@every_example
def test_its_plan_becomes_stable(world: Path) -> None:
    assert planned(world.stem, cycles=20)["stable"]


# --- each of them ------------------------------------------------------------------------------------------


def test_cpu_pods_are_evicted_from_a_gpu_node_for_a_gpu_job() -> None:
    first, last = planned("cpu-on-gpu-machines"), planned("cpu-on-gpu-machines", cycles=10)
    leaving = [(f"ads/features-{number}", "gpu-1", "Reclaimed") for number in (58, 59)]
    assert evicted(first) == evicted(last) == leaving
    assert {entry["for"] for entry in last["evictions"]} == {"DIJob/research/atari"}
    assert placed(first) == {}
    assert placed(last) == {f"research/atari-0-{rank}": "gpu-1" for rank in range(8)}
    assert job(last, "Pod/ads/features-57")["allocation"] == {"features-57": "gpu-1"}
    assert codes(last, "Pod/ads/features-58") == codes(last, "Pod/ads/features-59") == ["NoRoom"]


def test_the_node_with_the_fewest_borrowers_is_reclaimed_for_eight_gpus() -> None:
    answer = planned("one-gpu-on-eight", cycles=10)
    assert evicted(answer) == [("search/trial-5", "big-2", "Reclaimed")]
    assert placed(answer) == {"language/pretrain-0": "big-2", "search/trial-5": "big-1"}
    assert [entry["pod"] for entry in answer["placements"] if entry["borrowed"]] == ["search/trial-5"]


def test_team_b_reclaims_its_room() -> None:
    first, last = planned("two-teams"), planned("two-teams", cycles=10)
    assert evicted(first) == evicted(last) == [("a/sweep-1", "b-1", "Reclaimed")]
    assert codes(first, "DIJob/b/chess") == ["WaitingForRoom"]
    assert placed(last) == {"b/chess-0-0": "b-1", "b/chess-0-1": "b-1"}
    assert job(last, "Pod/a/sweep-0")["allocation"] == {"sweep-0": "a-1"}
    assert (job(last, "Pod/a/sweep-1")["pool"], codes(last, "Pod/a/sweep-1")) == ("team-a", ["NoRoom"])


def test_the_masters_do_not_lend() -> None:
    answer = planned("masters", cycles=10)
    assert list(placed(answer)) == ["kube-system/etcd-backup-0"]
    assert placed(answer)["kube-system/etcd-backup-0"].startswith("master-")
    (reason,) = job(answer, "Pod/physics/simulation")["reasons"]
    assert reason["code"] == "NoRoom"
    assert "worker-1" in reason["message"]
    assert "master" not in reason["message"]
    (masters,) = [pool for pool in answer["pools"] if pool["pool"] == "masters"]
    idle = int(masters["allocatable"]["cpu"]) - int(masters["used"]["cpu"])
    assert idle > 2 * 16, "the masters have enough free room"


def test_all_kinds_run() -> None:
    answer = planned("all-kinds", cycles=10)
    kinds = Counter(entry["job"].partition("/")[0] for entry in answer["jobs"])
    assert kinds == {"TYJob": 1, "DIJob": 2, "TrainingJob": 1, "Gang": 1, "Pod": 5}
    assert {entry["state"] for entry in answer["jobs"]} == {"ScheduledSucceed"}
    homes = {entry["job"]: entry["pool"] for entry in answer["jobs"]}
    asked = ("TYJob/", "DIJob/", "Gang/")
    assert {name for name, pool in homes.items() if pool == "gpu"} == {
        name for name in homes if name.startswith(asked)
    }
    assert not any(entry["borrowed"] for entry in answer["placements"])
    assert "Pod/ads/website" not in homes
    assert job(answer, "TrainingJob/ads/click-rate")["target"] == 4, "it grows as far as it may"


def test_a_gang_waits_whole_for_the_room_of_terminating_pods() -> None:
    first, last = planned("team"), planned("team", cycles=10)
    assert codes(first, "DIJob/research/atari") == ["WaitingForRoom"]
    assert job(first, "DIJob/research/atari")["allocation"] == {}
    assert len(job(last, "DIJob/research/atari")["allocation"]) == 8
    assert codes(last, "Pod/research/dreamer") == ["NeverFits"]


# --- elastic sizes -----------------------------------------------------------------------------------------


def trainers(answer: Answer) -> dict[str, int]:
    """Allocated and nominated trainers of each job."""
    return {entry["job"].rpartition("/")[2]: entry["target"] for entry in answer["jobs"]}


def test_a_new_job_gets_its_minimum_from_the_most_fulfilled() -> None:
    answer = planned("edl")
    assert sorted(evicted(answer)) == [
        ("paddle/ranking-trainer-6", "gpu-2", "Shrunk"),
        ("paddle/ranking-trainer-7", "gpu-2", "Shrunk"),
    ]
    assert {entry["for"] for entry in answer["evictions"]} == {"TrainingJob/paddle/ocr"}
    assert trainers(answer) == {"ranking": 6, "speech": 4, "ocr": 2}


def test_elastic_jobs_end_equal() -> None:
    answer = planned("edl", cycles=20)
    assert trainers(answer) == {"ranking": 4, "speech": 4, "ocr": 4}
    assert {reason for _, _, reason in evicted(answer)} == {"Shrunk"}
    assert sorted(pod for pod, _, _ in evicted(answer)) == [
        f"paddle/ranking-trainer-{i}" for i in range(4, 8)
    ]


# --- what runs in an embedded cluster ----------------------------------------------------------------------


async def test_jobs_can_be_applied_and_are_planned_as_the_file_says(tmp_path: Path) -> None:
    kept = [node("laptop", cpu=4), *await applied(read(EMBEDDED / "jobs.yaml"))]
    (tmp_path / "kept.yaml").write_text(yaml.safe_dump_all(kept))
    (tmp_path / "scheduler.yaml").write_text("schedulerNames: ['*']")
    files = ("-f", str(tmp_path / "kept.yaml"), "--config", str(tmp_path / "scheduler.yaml"))
    answer = json.loads(shoal("plan", *files, "-o", "json").stdout)
    assert set(placed(answer)) == {"default/evaluate", *(f"default/train-{i}" for i in range(4))}
    assert codes(answer, "Pod/default/big") == ["NeverFits"]


async def test_the_demonstration_can_be_applied() -> None:
    manifests = {*(EMBEDDED / "demo").glob("*.yaml")} - {EMBEDDED / "demo" / "scheduler.yaml"}
    for path in sorted(manifests):
        assert await applied(read(path))


def read(path: Path) -> list[Answer]:
    return list(yaml.safe_load_all(path.read_text()))


async def applied(things: Iterable[Answer]) -> list[Answer]:
    """Objects as an embedded cluster keeps them."""
    able = RuntimeFeatures(mounts=True, cgroups="", users=False, notes=[])
    async with Registry(
        strategies=with_pod_validation(strategies(), pod_validator(lambda: able, 0))
    ) as registry:
        return [
            await registry.create(by_kind()[thing["apiVersion"], thing["kind"]], thing) for thing in things
        ]
