"""Homes made by an earlier version, opened by this version: no object is lost, and work continues.

The homes are in `tests/fixtures/home-<version>/`, and the README.md there describes them. One was stopped
with `shoal down`; the daemon of the other was killed while containers ran, and these containers are gone, as
after a reboot. The expected objects are read from the home's database with sqlite3, not with code of Shoal.
"""

import json
import sqlite3
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.cli.process import shoal

T = TypeVar("T")
Object = dict[str, Any]
Objects = dict[tuple[str, str, str], Object]
"""Objects by kind, namespace and name."""

FIXTURES = Path(__file__).parent / "fixtures"
ARCHIVES = sorted(FIXTURES.glob("home-*/*.tar.gz"))
KINDS = (
    "nodes,namespaces,priorityclasses,pools,configmaps,secrets,services,poddisruptionbudgets,"
    "pods,jobs,dijobs,tyjobs,trainingjobs"
)
NOT_COMPARED = ("Event", "Lease")
"""Kinds whose objects expire or are renewed."""
REPLACED = ("victim", "guest", "train-0", "train-1")
"""Pods that were being evicted, and pods that their Job replaces."""
OUR_JOBS = ("DIJob", "TYJob", "TrainingJob")
PATIENCE = 120.0
"""Seconds until a wait fails."""

IDS = [f"{path.parent.name}-{path.name.partition('.')[0]}" for path in ARCHIVES]

every_home = pytest.mark.parametrize("archive", ARCHIVES, ids=IDS)


class Home(NamedTuple):
    """A home of an earlier version, served by this version."""

    directory: Path
    temporary: Path
    """TMPDIR of the containers; running Jobs complete when the file `go` is in it."""
    before: Objects
    """The objects in the fixture."""

    def run(self, command: str, *arguments: str, stdin: str = "") -> str:
        done = shoal(command, "--home", str(self.directory), *arguments, stdin=stdin.encode())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, kinds: str = KINDS) -> Objects:
        return by_key(json.loads(self.run("get", kinds, "-A", "-o", "json"))["items"])

    def pods(self, namespace: str = "default") -> dict[str, Object]:
        return {name: pod for (_, space, name), pod in self.objects("pods").items() if space == namespace}

    def job(self, name: str) -> Object:
        return self.objects("jobs")["Job", "default", name]

    def plan(self) -> dict[str, Object]:
        """The workloads in the plan for this home, by `Kind/namespace/name`."""
        return {job["job"]: job for job in json.loads(self.run("plan", "-o", "json"))["jobs"]}


def by_key(objects: list[Object]) -> Objects:
    found = {}
    for one in objects:
        metadata = one["metadata"]
        found[one["kind"], metadata.get("namespace", ""), metadata["name"]] = one
    return found


@contextmanager
def opened(archive: Path, directory: Path) -> Iterator[Home]:
    """Unpack a home and serve it until the block ends."""
    home = Home(directory / "home", directory / "tmp", objects_in(archive, directory / "before"))
    home.temporary.mkdir()
    unpack(archive, home.directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home.temporary))
        home.run("up", "-d")
    try:
        yield home
    finally:
        close(home)
    assert "Traceback" not in (home.directory / "daemon.log").read_text()


def close(home: Home) -> None:
    """Stop the daemon and the containers, also those that a crashed daemon left."""
    down = ("down", "--home", str(home.directory), "--timeout", "5")
    done = shoal(*down)
    if done.returncode:
        shoal("up", "-d", "--home", str(home.directory))
        shoal(*down)
    assert done.returncode == 0, done.stderr


def unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")


def objects_in(archive: Path, directory: Path) -> Objects:
    """Objects in the database of a home: the newest record of each key, unless it is a deletion.

    Reads a copy: SQLite would checkpoint and remove the write-ahead log that the killed daemon left.
    """
    unpack(archive, directory)
    newest = {}
    with closing(sqlite3.connect(directory / "state.db")) as database:
        for *key, body, deleted in database.execute(
            "SELECT resource, namespace, name, body, deleted FROM records ORDER BY version"
        ):
            newest[tuple(key)] = None if deleted else json.loads(body)
    return by_key([one for one in newest.values() if one and one["kind"] not in NOT_COMPARED])


def until(look: Callable[[], T | None]) -> T:
    """Call `look` until it returns a true value, and return that."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, f"still false after {PATIENCE:.0f} s"
        time.sleep(0.5)
    return found


def condition(one: Object, kind: str) -> Object:
    conditions = one.get("status", {}).get("conditions", ())
    return next((dict(each) for each in conditions if each["type"] == kind), {})


def is_true(one: Object, kind: str) -> bool:
    return condition(one, kind).get("status") == "True"


def ready(home: Home, *names: str) -> dict[str, Object] | None:
    """The pods of the namespace default, if those with these names are all ready."""
    pods = home.pods()
    return pods if all(name in pods and is_true(pods[name], "Ready") for name in names) else None


def failed(home: Home, name: str) -> Object | None:
    pod = home.pods()[name]
    return pod if pod["status"]["phase"] == "Failed" else None


def complete(home: Home, name: str) -> Object | None:
    job = home.job(name)
    return job if is_true(job, "Complete") else None


# --- no object is lost: these tests change nothing, and share one home -------------------------------------


@pytest.fixture(scope="module", params=ARCHIVES, ids=IDS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with opened(request.param, tmp_path_factory.mktemp("earlier")) as found:
        yield found


def test_every_object_is_there_with_the_same_content(home: Home) -> None:
    after = home.objects()
    kept = {key: one for key, one in home.before.items() if key[2] not in REPLACED}
    assert len(kept) > 40
    assert {key: one["metadata"]["uid"] for key, one in kept.items()} == {
        key: after[key]["metadata"]["uid"] for key in kept if key in after
    }
    # Nodes, and the scheduler's configuration in kube-system, are written again at every start.
    for key, one in kept.items():
        if key[0] != "Node" and key[1] != "kube-system":
            assert content(after[key], like=one) == content(one, like=one), key


def content(one: Object, *, like: Object) -> Object:
    """An object without status and new annotations; a pod also without a node that it was bound to since."""
    found = {field: value for field, value in one.items() if field not in ("metadata", "status")}
    if one["kind"] == "Pod" and "nodeName" not in like["spec"]:
        found["spec"] = {field: value for field, value in one["spec"].items() if field != "nodeName"}
    metadata, known = one["metadata"], like["metadata"].get("annotations", {})
    found["annotations"] = {name: metadata.get("annotations", {}).get(name) for name in known}
    return found | {name: metadata.get(name) for name in ("labels", "ownerReferences", "creationTimestamp")}


def test_applying_the_same_files_changes_nothing(home: Home) -> None:
    files = FIXTURES / "home-objects"
    lines = home.run("apply", "--dry-run=server", "-f", str(files / "first.yaml")).splitlines()
    assert len(lines) > 20
    others = [line for line in lines if not line.startswith(tuple(f"pod/{name} " for name in REPLACED))]
    assert [line for line in others if " unchanged" not in line] == []


def test_the_nodes_are_the_same(home: Home) -> None:
    nodes = home.objects("nodes")
    assert [name for _, _, name in nodes] == ["node-0", "node-1", "node-2", "node-3"]
    for key, node in nodes.items():
        assert is_true(node, "Ready"), key
        assert node["status"]["capacity"] == home.before[key]["status"]["capacity"]
        assert node["metadata"]["labels"].get("team") == home.before[key]["metadata"]["labels"].get("team")
        assert node["spec"].get("unschedulable", False) == (key[2] == "node-3")


def test_finished_work_keeps_its_status_and_its_log(home: Home) -> None:
    after = home.objects("pods,jobs")
    finished = [
        key
        for key, one in home.before.items()
        if one.get("status", {}).get("phase") in ("Succeeded", "Failed")
        or is_true(one, "Complete")
        or is_true(one, "Failed")
    ]
    assert len(finished) == 9  # the Jobs done and broken, and seven pods
    for key in finished:
        before, now = home.before[key]["status"], after[key]["status"]
        assert {field: now.get(field) for field in before} == before, key
    assert home.run("logs", "done-0") == "finished\n"
    assert home.run("logs", "broken-0") == "oops\n"


def test_waiting_work_still_waits_with_a_reason(home: Home) -> None:
    planned = home.plan()
    for job, name, code in (
        ("Pod/default/too-big-0", "too-big-0", "NeverFits"),
        ("Gang/default/alone", "alone-0", "NoRoom"),
    ):
        assert [reason["code"] for reason in planned[job]["reasons"]] == [code]
        pod = home.pods()[name]
        assert pod["status"]["phase"] == "Pending"
        scheduled = condition(pod, "PodScheduled")
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
        assert scheduled["message"]
    assert is_true(home.job("suspended"), "Suspended")
    assert not [name for name in home.pods() if name.startswith("suspended")]


def test_restartable_pods_run_again_on_their_nodes(home: Home) -> None:
    names = ("half-done-1", "notebook", "ring-0", "ring-1")
    pods = until(lambda: ready(home, *names))
    for name in names:
        before = home.before["Pod", "default", name]
        assert pods[name]["spec"]["nodeName"] == before["spec"]["nodeName"] == "node-0"
        assert pods[name]["status"]["containerStatuses"][0]["restartCount"] == 1
    assert home.run("logs", "notebook") == "rate 0.001 word not-a-real-one\n"


def test_a_pod_with_restart_policy_never_is_not_run_again(home: Home) -> None:
    pod = until(lambda: failed(home, "once-running"))
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    assert container["state"]["terminated"]["exitCode"] != 0


def test_a_started_eviction_completes_and_the_nominated_pod_gets_the_node(home: Home) -> None:
    pods = until(lambda: ready(home, "urgent"))
    before = home.before["Pod", "default", "urgent"]["status"]
    assert pods["urgent"]["spec"]["nodeName"] == before["nominatedNodeName"] == "node-0"
    assert "victim" not in pods
    until(lambda: home.pods("team").get("guest", {}).get("status", {}).get("phase") != "Running")


def test_jobs_keep_their_allocated_and_nominated_nodes(home: Home) -> None:
    expected = {"/".join(key): nodes_of(one) for key, one in home.before.items() if key[0] in OUR_JOBS}
    assert len(expected) == 5
    assert all(expected.values())

    def as_expected() -> bool:
        planned = home.plan()
        return all(nodes.items() <= planned[job]["allocation"].items() for job, nodes in expected.items())

    until(as_expected)


def nodes_of(job: Object) -> dict[str, str]:
    """Allocated or nominated node of each pod; a preemptible DIJob has a list of nodes, by rank."""
    name, status = job["metadata"]["name"], job["status"]
    nodes = {f"{name}-0-{rank}": str(node) for rank, node in enumerate(status.get("allocation", ()))}
    return {**nodes, **status.get("allocations", {}), **status.get("nominations", {})}


# --- work continues: each of these tests has its own home ---------------------------------------------------


@every_home
def test_running_jobs_continue_and_complete(archive: Path, tmp_path: Path) -> None:
    with opened(archive, tmp_path) as home:
        pods = until(lambda: running_indices(home.pods()))
        for index, pod in pods.items():
            before = home.before["Pod", "default", f"train-{index}"]
            assert pod["status"]["podIP"] == before["status"]["podIP"], "the address belongs to the service"
        until(lambda: ready(home, "half-done-1"))
        (home.temporary / "go").touch()
        for job in (until(lambda: complete(home, "train")), until(lambda: complete(home, "half-done"))):
            assert job["status"]["succeeded"] == 2
            if archive.name.startswith("stopped"):
                assert not job["status"].get("failed"), "pods ended by `shoal down` are not failures"
        assert (home.temporary / "half-done").read_text() == "1\n", "index 0 had completed before"


def running_indices(pods: dict[str, Object]) -> dict[str, Object]:
    """The running pods of the Job train by index; empty unless both indices run."""
    found = {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod
        for pod in pods.values()
        if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == "train"
        and is_true(pod, "Ready")
    }
    return found if sorted(found) == ["0", "1"] else {}


NEW_WORK = """
apiVersion: batch/v1
kind: Job
metadata: {name: new}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none, command: [sh, -c, echo new], resources: {requests: {cpu: 100m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: alone-1, annotations: {shoal.io/gang: alone, shoal.io/gang-min: "2"}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [sleep, "1"], resources: {requests: {cpu: 200m}}}]
"""


@every_home
def test_new_work_runs_and_the_home_opens_again(archive: Path, tmp_path: Path) -> None:
    with opened(archive, tmp_path) as home:
        home.run("apply", "-f", "-", stdin=NEW_WORK)
        for what, holds in (
            ("job/new", "condition=Complete"),
            ("pod/alone-0", "jsonpath={.status.phase}=Succeeded"),
            ("pod/alone-1", "jsonpath={.status.phase}=Succeeded"),
        ):
            home.run("wait", what, f"--for={holds}", f"--timeout={PATIENCE:.0f}s")
        assert home.run("logs", "job/new").endswith("new\n")
        home.run("down", "--timeout", "5")
        home.run("up", "-d")
        assert is_true(home.job("new"), "Complete")
        assert is_true(home.job("done"), "Complete")


def test_fixtures_exist() -> None:
    assert ARCHIVES
