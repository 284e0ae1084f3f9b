"""The pods of DIJobs and their service: names, labels, environment, and what a template keeps."""

from typing import Any, Final

import pytest

from shoal.engine.config import SchedulerConfig
from tests.kinds.dijob.cases import DIJobCluster, make_job, task
from tests.kinds.job_cluster import UID


def only_pod(job: dict[str, Any], config: SchedulerConfig | None = None) -> dict[str, Any]:
    """The first pod of a job."""
    cluster = DIJobCluster(job, config)
    cluster.settle()
    return next(iter(cluster.pods.values()))


def template(metadata: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    containers = {"containers": [{"name": "w", "image": "x", "env": [{"name": "DI_RANK", "value": "9"}]}]}
    return {"metadata": metadata or {}, "spec": containers | spec}


def with_template(metadata: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    return make_job(template=template(metadata, **spec))


SPECS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a pod is never restarted by its kubelet": (
        with_template(restartPolicy="Always"),
        {"restartPolicy": "Never"},
    ),
    "host and subdomain override the template": (
        with_template(hostname="mine", subdomain="own"),
        {"hostname": "job-0", "subdomain": "di-job"},
    ),
    "a host network keeps the names of the cluster": (
        with_template(hostNetwork=True),
        {"dnsPolicy": "ClusterFirstWithHostNet"},
    ),
    "a DNS policy of the template stays": (
        with_template(hostNetwork=True, dnsPolicy="Default"),
        {"dnsPolicy": "Default"},
    ),
    "a pod without scheduler is Shoal's": (with_template(), {"schedulerName": "shoal"}),
    "a scheduler of the template stays": (with_template(schedulerName="other"), {"schedulerName": "other"}),
    "other fields of the template stay": (
        with_template(nodeSelector={"a": "b"}, terminationGracePeriodSeconds=5),
        {"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 5},
    ),
    "volumes of the job are added": (
        make_job(template=template(volumes=[{"name": "a"}]), volumes=[{"name": "b"}]),
        {"volumes": [{"name": "a"}, {"name": "b"}]},
    ),
    "a volume of the template takes precedence": (
        make_job(template=template(volumes=[{"name": "a", "own": 1}]), volumes=[{"name": "a"}]),
        {"volumes": [{"name": "a", "own": 1}]},
    ),
    "no node is chosen": (with_template(), {"nodeName": None}),
}


@pytest.mark.parametrize("name", SPECS)
def test_specs(name: str) -> None:
    job, expected = SPECS[name]
    spec = only_pod(job)["spec"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "shoal-job"]
    assert {field: spec.get(field) for field in expected} == expected


@pytest.mark.parametrize("names, scheduler", [(("*",), "shoal"), (("mine", "shoal"), "mine")])
def test_the_scheduler_of_a_pod_is_the_first_that_shoal_acts_for(
    names: tuple[str, ...], scheduler: str
) -> None:
    pod = only_pod(with_template(), SchedulerConfig(scheduler_names=names))
    assert pod["spec"]["schedulerName"] == scheduler


def test_metadata() -> None:
    own = {"labels": {"app": "a", "diengine/rank": "9"}, "annotations": {"note": "n"}, "finalizers": ["x/y"]}
    job = with_template(own)
    job["spec"]["group"] = "team"
    job["metadata"]["annotations"] = {"resource.aibee.cn/pool": "gold"}
    meta = only_pod(job)["metadata"]
    assert meta["labels"] == {
        "app": "a",
        "diengine/group": "team",
        "diengine/job": "job",
        "diengine/operator": "di-operator",
        "diengine/rank": "0",
        "diengine/pod": "job-0-0",
        "shoal.io/job-uid": UID,
    }
    assert meta["annotations"] == {
        "note": "n",
        "resource.aibee.cn/pool": "gold",
        "diengine/generation": "0",
        "diengine/replicas": "1",
        "diengine/rank": "0",
        "diengine/node": "",
        "shoal.io/attempt": "1",
    }
    assert meta["finalizers"] == ["x/y", "shoal.io/tracking"]
    (owner,) = meta["ownerReferences"]
    assert owner == {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "name": "job",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_labels_of_tasks() -> None:
    labels = only_pod(make_job(tasks=[task("none", name="extra")]))["metadata"]["labels"]
    assert labels | {"diengine/task-type": "none", "diengine/task-name": "extra"} == labels
    assert labels["diengine/pod"] == "job-extra-0"


def test_the_environment_of_a_worker() -> None:
    cluster = DIJobCluster(make_job(minReplicas=2, engineFields={"topology": "mesh", "parallelWorkers": 2}))
    cluster.run_all()
    hosts = [f"job-{rank}.di-job.default.svc.cluster.local" for rank in (0, 1)]
    env = [one for one in cluster.env("job-0-1").items() if one[0].startswith("DI_")]
    assert env == [
        ("DI_JOB_ID", "default.job.0"),
        ("DI_JOB_NAMESPACE", "default"),
        ("DI_JOB_NAME", "job"),
        ("DI_JOB_GENERATION", "0"),
        ("DI_RANK", "1"),
        ("DI_NODES", ",".join(hosts)),
        ("DI_PARALLEL_WORKERS_ARG", "--parallel-workers=2"),
        ("DI_PORTS_ARG", "--ports=22270,22271"),
        ("DI_NODE_IDS_ARG", "--node-ids=2,3"),
        ("DI_ATTACHED_NODES_ARG", f"--attach-to=tcp://{hosts[0]}:22270,tcp://{hosts[0]}:22271"),
    ]
    assert cluster.env("job-0-0")["DI_ATTACHED_NODES_ARG"] == ""


def test_the_environment_comes_after_the_users_in_all_containers() -> None:
    job = with_template(initContainers=[{"name": "i", "image": "x"}])
    job["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "x"})
    spec = only_pod(job)["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert [one["value"] for one in container["env"] if one["name"] == "DI_RANK"][-1] == "0"
    assert [one["value"] for one in spec["containers"][0]["env"] if one["name"] == "DI_RANK"] == ["9", "0"]


def test_the_nodes_of_every_task() -> None:
    cluster = DIJobCluster(make_job(tasks=[task("learner"), task("none", 2, name="data-store")]))
    cluster.run_all()
    env = cluster.env("job-learner-0")
    suffix = "di-job.default.svc.cluster.local"
    assert env["DI_LEARNER_NODES"] == f"job-learner-0.{suffix}"
    assert env["DI_DATA_STORE_NODES"] == f"job-data-store-0.{suffix},job-data-store-1.{suffix}"
    assert env["DI_NODES"].split(",") == [
        f"{name}.{suffix}" for name in ("job-learner-0", "job-data-store-0", "job-data-store-1")
    ]


def test_the_service() -> None:
    cluster = DIJobCluster(make_job())
    cluster.settle()
    service: Any = cluster.service
    assert service["metadata"]["name"] == "di-job"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"shoal.io/job-uid": UID},
    }
    cluster.service = None
    cluster.settle()
    assert cluster.service, "it is created again"


@pytest.mark.parametrize("name", ["a.b", "j" * 170])
def test_jobs_with_dots_and_long_names(name: str) -> None:
    cluster = DIJobCluster(make_job(name, minReplicas=2))
    cluster.run_all()
    service: Any = cluster.service
    pods = [cluster.pods[f"{name}-0-{rank}"] for rank in (0, 1)]
    hosts = [pod["spec"]["hostname"] for pod in pods]
    assert all(len(one) <= 63 and "." not in one for one in (*hosts, service["metadata"]["name"]))
    assert len(set(hosts)) == 2
    assert len({pod["metadata"]["labels"]["diengine/pod"] for pod in pods}) == 2
    qualified = [f"{host}.{service['metadata']['name']}.default.svc.cluster.local" for host in hosts]
    assert cluster.env(f"{name}-0-1")["DI_NODES"].split(",") == qualified


# --- names that are taken ----------------------------------------------------------------------------------


def foreign(cluster: DIJobCluster, name: str) -> None:
    cluster.create({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": "n"}})
    cluster.created.clear()


def test_a_name_whose_pod_terminates_is_waited_for_without_an_event() -> None:
    cluster = DIJobCluster(make_job())
    foreign(cluster, "job-0-0")
    cluster.delete("job-0-0")
    changes = cluster.step()
    (wait,) = changes.waits_for
    assert (wait.resource, wait.key, cluster.created) == ("pods", ("default", "job-0-0"), [])
    assert cluster.events == ["JobPending"]
    cluster.end("job-0-0")
    cluster.settle()
    assert cluster.created == ["job-0-0"]


def test_a_pod_of_another_owner_is_neither_counted_nor_deleted() -> None:
    cluster = DIJobCluster(make_job())
    foreign(cluster, "job-0-1")
    cluster.run_all()
    assert (cluster.phase, cluster.created) == ("Running", ["job-0-0"])
    cluster.end("job-0-0")
    cluster.settle()
    assert (cluster.phase, list(cluster.pods)) == ("Succeeded", ["job-0-1", "job-0-0"])
