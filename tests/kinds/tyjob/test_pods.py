"""The pods of TYJobs: names, labels, environment, resources, other schedulers; the service; clean-up."""

from typing import Any

import msgspec
import pytest

from shoal.api.core import Pod
from shoal.api.decode import decode
from shoal.engine.config import SchedulerConfig
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import record_of
from shoal.kinds.tyjob.kind import KIND
from shoal.kinds.tyjob.types import TYJob
from shoal.kinds.tyjob.workload import workload_spec
from tests.kinds.job_cluster import NOW, TEMPLATE, JobCluster
from tests.kinds.tyjob.cluster import LEADER, TYJobCluster, actors, tyjob

TWO_SETS = [
    {"name": "actor", "counts": 2, "template": TEMPLATE},
    {"name": "judge", "counts": 2, "template": TEMPLATE},
]


def started(name: str = "j", config: SchedulerConfig | None = None, **spec: Any) -> TYJobCluster:  # noqa: ANN401 - as JSON has it
    """Return a cluster in which all pods of a job run."""
    cluster = TYJobCluster(tyjob(**spec), config or SchedulerConfig(), name)
    names = [slot.name for slot in specs_of(cluster)]
    cluster.allocate(*names)
    JobCluster.run_all(cluster)
    return cluster


def specs_of(cluster: TYJobCluster) -> Any:  # noqa: ANN401 - slots
    job = msgspec.convert(cluster.job, TYJob)
    spec = workload_spec(job, PodClassCache(), NOW)
    return spec.slots if spec else ()


def template(**spec: object) -> dict[str, Any]:
    return {"spec": TEMPLATE["spec"] | spec}


# --- environment, names and labels -------------------------------------------------------------------------


def own_env(cluster: TYJobCluster, pod: str) -> dict[str, str]:
    """The variables that only TYJobs have."""
    return {k: v for k, v in cluster.env(pod).items() if k.startswith(("TYJOB_", "LEADER_"))}


def test_the_environment_of_leader_and_workers() -> None:
    cluster = started(workerSets=TWO_SETS)
    common = {
        "TYJOB_NAME": "j",
        "TYJOB_NAMESPACE": "default",
        "TYJOB_WORKERS": "4",
        "LEADER_NAME": "learner",
        "LEADER_ADDRESS": "j-learner.ty-j.default.svc.cluster.local",
    }
    leader = {"TYJOB_ROLE": "leader", "TYJOB_WORKER_SET": "", "TYJOB_INDEX": "0", "TYJOB_RANK": ""}
    assert own_env(cluster, LEADER) == common | leader | {"LEADER_IP": ""}
    for name, index, rank in (("actor", 0, 0), ("actor", 1, 1), ("judge", 0, 2), ("judge", 1, 3)):
        place = {"TYJOB_WORKER_SET": name, "TYJOB_INDEX": str(index), "TYJOB_RANK": str(rank)}
        worker = {"TYJOB_ROLE": "worker", "LEADER_IP": "10.0.0.1"}
        assert own_env(cluster, f"j-{name}-{index}") == common | worker | place


def test_pods_know_their_place_and_how_often_they_failed() -> None:
    cluster = started(workerSets=TWO_SETS)
    cluster.end("j-judge-1", 1)
    cluster.settle()
    cluster.now += 1
    JobCluster.run_all(cluster)
    assert cluster.host_files == {
        "hosts.learner": ["j-learner"],
        "hosts.actor": ["j-actor-0", "j-actor-1"],
        "hosts.judge": ["j-judge-0", "j-judge-1"],
    }
    places = {
        (name, env["SHOAL_ROLE"], env["SHOAL_INDEX"], env["SHOAL_RESTART"])
        for name in (LEADER, "j-actor-1", "j-judge-1")
        for env in [cluster.env(name)]
    }
    assert places == {
        (LEADER, "learner", "0", "0"),
        ("j-actor-1", "actor", "1", "0"),
        ("j-judge-1", "judge", "1", "1"),
    }


GROUPS: dict[str, tuple[dict[str, Any], str]] = {
    "a set that may lose workers": ({"minWorkersNum": 3}, "1:2"),
    "a minimum that other sets can meet": ({"minWorkersNum": 1}, "1:2"),
    "all workers": ({"minWorkersNum": 4}, "2:2"),
    "a gang": ({"schedulerPolicy": {"basicPolicy": "Gang"}}, "2:2"),
}


@pytest.mark.parametrize("more, nodes", GROUPS.values(), ids=GROUPS)
def test_a_worker_set_is_data_parallel_if_it_asks_for_it(more: dict[str, Any], nodes: str) -> None:
    annotated = {"metadata": {"annotations": {"shoal.io/data-parallel": "true"}}} | template()
    cluster = started(workerSets=[TWO_SETS[0], TWO_SETS[1] | {"template": annotated}], **more)
    assert "PET_NNODES" not in cluster.env("j-actor-1")
    env = cluster.env("j-judge-1")
    assert (env["PET_NNODES"], env["MASTER_ADDR"]) == (nodes, "j-judge-0.ty-j.default.svc.cluster.local")
    assert env.get("WORLD_SIZE") == ("2" if nodes == "2:2" else None)


def test_a_later_worker_gets_the_address_that_the_leader_has_then() -> None:
    cluster = started(workers=1)
    cluster.pods[LEADER]["status"]["podIP"] = "10.0.0.9"
    cluster.job["spec"]["workerSets"][0]["counts"] = 2
    cluster.allocate()
    cluster.settle()
    assert cluster.env("j-actor-1")["LEADER_IP"] == "10.0.0.9"
    assert cluster.env("j-actor-0")["LEADER_IP"] == "10.0.0.1"


def test_labels_hosts_and_volumes() -> None:
    labels = {"app": "mine", "tyrl.io/role": "mine"}
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "own", "emptyDir": {}}]
    mine = {"metadata": {"labels": labels}} | template(
        volumes=[{"name": "own", "hostPath": {"path": "/x"}}], restartPolicy="Always"
    )
    sets = [{"name": "actor", "counts": 1, "template": mine}]
    cluster = started(workerSets=sets, volumes=volumes)
    pod = cluster.pods["j-actor-0"]
    ours = {
        "tyrl.io/job": "j",
        "tyrl.io/role": "worker",
        "tyrl.io/worker-set": "actor",
        "tyrl.io/index": "0",
        "shoal.io/job-uid": cluster.job["metadata"]["uid"],
    }
    assert pod["metadata"]["labels"] == {"app": "mine"} | ours
    spec = pod["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("j-actor-0", "ty-j", "Never")
    assert spec["volumes"][:2] == [
        {"name": "own", "hostPath": {"path": "/x"}},
        {"name": "data", "emptyDir": {}},
    ]
    assert cluster.pods[LEADER]["metadata"]["labels"]["tyrl.io/worker-set"] == ""


@pytest.mark.parametrize("name", ["j", "a.b", "x" * 60, "y" * 170])
def test_the_hosts_that_resolve_are_those_of_the_pods(name: str) -> None:
    cluster = started(name, workerSets=TWO_SETS)
    pods = [pod["spec"] for pod in cluster.pods.values()]
    hosts = {(pod["hostname"], pod["subdomain"]) for pod in pods}
    assert len(hosts) == 5
    assert set(KIND.host_names(cluster.job)) == hosts
    service = cluster.service or {}
    assert service["metadata"]["name"] == pods[0]["subdomain"]
    host, subdomain = f"{pods[0]['hostname']}", pods[0]["subdomain"]
    assert cluster.status["leaderAddress"] == f"{host}.{subdomain}.default.svc.cluster.local"
    cluster.edit(terminating=True)
    cluster.settle()
    assert not list(KIND.host_names(cluster.job))


# --- resources ---------------------------------------------------------------------------------------------

REQUESTS = {
    "requests": {"requests": {"cpu": "500m", "memory": "1Gi"}},
    "limits alone": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}},
    "nothing": {},
}


@pytest.mark.parametrize("leader", REQUESTS)
@pytest.mark.parametrize("worker", REQUESTS)
def test_pods_request_what_was_planned_for_them(leader: str, worker: str) -> None:
    def of(kind: str) -> dict[str, Any]:
        sidecar = {"name": "s", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
        main = {"name": "w", "image": "x", "resources": REQUESTS[kind]}
        return template(containers=[main], initContainers=[sidecar | {"restartPolicy": "Always"}])

    cluster = started(
        leader={"name": "learner", "template": of(leader)},
        workerSets=[{"name": "actor", "counts": 2, "template": of(worker)}],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    classes = PodClassCache()
    job = msgspec.convert(cluster.job, TYJob)
    spec = workload_spec(job, classes, NOW)
    assert spec
    assert [slot.name for slot in spec.slots] == [LEADER, *actors(0, 1)]
    for slot in spec.slots:
        record = record_of(decode(Pod, cluster.pods[slot.name]), classes, NOW)
        assert record.pod_class.shape.requests == slot.pod_class.shape.requests, slot.name


# --- schedulers --------------------------------------------------------------------------------------------

FOREIGN = template(schedulerName="volcano")


def test_pods_of_another_scheduler_need_no_node_from_us() -> None:
    leader = {"name": "learner", "template": FOREIGN}
    cluster = TYJobCluster(
        tyjob(leader=leader, workerSets=[{"name": "actor", "counts": 2, "template": FOREIGN}])
    )
    cluster.settle()
    assert list(cluster.pods) == [LEADER]
    cluster.run()
    cluster.settle()
    assert list(cluster.pods) == [LEADER, *actors(0, 1)]
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods.values()} == {"volcano"}


def test_of_a_mixed_job_only_our_pods_wait_for_nodes() -> None:
    cluster = TYJobCluster(
        tyjob(least=2, workerSets=[TWO_SETS[0], {"name": "judge", "counts": 1, "template": FOREIGN}])
    )
    cluster.allocate(LEADER)
    cluster.settle()
    assert cluster.created == [], "the minimum lacks a worker"
    cluster.allocate("j-actor-1")
    JobCluster.run_all(cluster)
    assert cluster.created == [LEADER, "j-actor-1", "j-judge-0"]


@pytest.mark.parametrize("names, name", [(("*",), "shoal"), (("mine", "shoal"), "mine")])
def test_pods_without_a_scheduler_get_the_first_of_ours(names: tuple[str, ...], name: str) -> None:
    cluster = started(config=SchedulerConfig(scheduler_names=names))
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods.values()} == {name}


# --- names that are taken, the service, clean-up -----------------------------------------------------------


def test_a_name_of_another_pod_is_refused_and_one_that_terminates_is_waited_for() -> None:
    cluster = TYJobCluster(tyjob())
    cluster.create({"metadata": {"name": LEADER, "namespace": "default"}, "spec": {"nodeName": "n"}})
    cluster.allocate()
    changes = cluster._reconcile(cluster.view(), cluster.now)
    names = [
        write.body["metadata"]["name"]
        for stage in changes.stages
        for write in stage
        if hasattr(write, "body")
    ]
    assert names == ["ty-j", "ty-j-0123abcd", LEADER], "the API server refuses it, which causes an Event"
    cluster.delete(LEADER)
    cluster.settle()
    changes = cluster.step()
    assert [wait.key for wait in changes.waits_for] == [("default", LEADER)]
    cluster.end(LEADER, 0)
    cluster.settle()
    assert cluster.created == [LEADER, LEADER]


def test_the_service_is_created_again_while_pods_run() -> None:
    cluster = started()
    cluster.service = None
    cluster.settle()
    assert cluster.service is not None


def test_a_job_that_ends_needs_no_service() -> None:
    cluster = started()
    cluster.service = None
    cluster.edit(terminating=True)
    assert not any(getattr(write, "body", None) for stage in cluster.step().stages for write in stage)


@pytest.mark.parametrize(
    "policy, kept", [("All", []), ("Running", actors(0)), ("None", [*actors(0, 1), LEADER])]
)
def test_clean_up(policy: str, kept: list[str]) -> None:
    cluster = started(cleanPodPolicy=policy)
    cluster.end("j-actor-0", 0)
    cluster.settle()
    cluster.edit(terminating=True)
    cluster.settle()
    cluster.finish()
    cluster.settle()
    assert sorted(cluster.pods) == kept
    assert cluster.service is None
    assert "completionTimestamp" in cluster.status


def test_the_job_is_deleted_when_its_time_to_live_is_over() -> None:
    cluster = started(ttlSecondsAfterFinished=5)
    cluster.end(LEADER)
    cluster.settle()
    assert not cluster.is_deleted
    cluster.now += 5
    cluster.settle()
    assert cluster.is_deleted


def test_events_tell_what_happened() -> None:
    cluster = started()
    cluster.now += 5
    cluster.delete("j-actor-0")
    cluster.settle()
    cluster.finish()
    JobCluster.run_all(cluster)
    cluster.end(LEADER)
    cluster.settle()
    creates = ["SuccessfulCreate", "SuccessfulCreate"]
    again = ["JobRescheduling", "JobStarting", "SuccessfulCreate", "JobRunning"]
    assert [one for one in cluster.events if one != "SuccessfulDelete"] == [
        *["JobPending", "JobStarting", *creates, "JobRunning"],
        *again,
        "JobSucceeded",
    ]
