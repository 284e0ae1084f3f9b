"""The pods of TrainingJobs: names, labels, commands, environment, resources; the service; warnings, edits."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
import yaml

from shoal.api.core import Pod
from shoal.api.decode import decode
from shoal.api.mutability import change_errors
from shoal.engine.config import SchedulerConfig
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import record_of
from shoal.kinds.trainingjob.controller import read_trainingjob
from shoal.kinds.trainingjob.kind import KIND
from shoal.kinds.trainingjob.types import TrainingJob
from shoal.kinds.trainingjob.workload import workload_spec
from tests.kinds.job_cluster import NOW, UID
from tests.kinds.trainingjob.cluster import TrainingJobCluster, trainers, trainingjob
from tests.test_seeds import TRAINING_JOB

SERVICE = "tj-j.default.svc.cluster.local"
ALL = ["j-master-0", "j-pserver-0", "j-pserver-1", *trainers(0, 1)]


def started(
    spec: dict[str, Any], name: str = "j", config: SchedulerConfig | None = None
) -> TrainingJobCluster:
    """Return a cluster in which the minimum of a job runs."""
    cluster = TrainingJobCluster(spec, config, name)
    cluster.allocate()
    cluster.run_all()
    return cluster


def container(cluster: TrainingJobCluster, pod: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.pods[pod]["spec"]["containers"][0]
    return found


# --- environment and commands ------------------------------------------------------------------------------


def test_the_environment_of_all_roles() -> None:
    roles = trainingjob(pservers=2, master=True)
    roles["trainer"] |= {"workspace": "/home/job/", "resources": {"requests": {"cpu": "1500m"}}}
    cluster = started(roles | {"port": 7000, "ports_num": 2, "ports_num_for_sparse": 3, "passes": 9})
    pservers = [f"j-pserver-{i}.{SERVICE}:7000" for i in range(2)]
    common = {
        "PADDLE_JOB_NAME": "j",
        "NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIP",
        "TRAINERS": "2",
        "PSERVERS": "2",
        "ENTRY": "train",
        "TOPOLOGY": "train",
        "TRAINER_PACKAGE": "/home/job/",
        "PADDLE_INIT_PORT": "7000",
        "PADDLE_INIT_PORTS_NUM": "2",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "3",
        "PADDLE_INIT_TRAINER_COUNT": "2",
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_NUM_PASSES": "9",
        "PADDLE_INIT_USE_GPU": "0",
        "PADDLE_INIT_PSERVERS": ",".join(pservers),
        "MASTER_ADDRESS": f"j-master-0.{SERVICE}",
    }
    for pod in ALL:
        _, role, number = pod.split("-")
        address = "status.podIP" if role == "master" else "10.0.0.1"
        own = {"PADDLE_ROLE": role, "PADDLE_TRAINER_ID": number, "MASTER_IP": address}
        assert paddle_env(cluster, pod) == common | own, pod
        ports = [one["containerPort"] for one in container(cluster, pod)["ports"]]
        assert ports == [7000, 7001, 7002, 7003, 7004]


def paddle_env(cluster: TrainingJobCluster, pod: str) -> dict[str, str]:
    """The variables of a pod that are not those of all kinds; of a reference the field path."""
    env = {
        one["name"]: one["value"] if "value" in one else one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container(cluster, pod)["env"]
    }
    shared = (
        "SHOAL_",
        "PET_",
        "TORCH_",
        "JAX_",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
    )
    kept = (name for name in env if name == "MASTER_ADDRESS" or not name.startswith(shared))
    return {name: env[name] for name in kept}


def test_a_job_without_parameter_servers_and_master() -> None:
    env = paddle_env(started(trainingjob()), "j-trainer-0")
    assert (env["PSERVERS"], env["PADDLE_INIT_PSERVERS"]) == ("0", "")
    assert not {"MASTER_IP", "MASTER_ADDRESS"} & env.keys()


def test_parameter_servers_that_came_later_are_known_to_later_pods() -> None:
    pserver = {"min-instance": 1, "max-instance": 2, "scaleWithTrainers": True}
    cluster = started(trainingjob(pserver=pserver))
    cluster.allocate(trainer=3, pserver=2)
    cluster.run_all()
    assert [paddle_env(cluster, pod)["PSERVERS"] for pod in trainers(1, 2)] == ["1", "2"]


@pytest.mark.parametrize(
    "resources, count, use_gpu",
    [
        ({}, "1", "0"),
        ({"requests": {"cpu": "500m"}}, "1", "0"),
        ({"limits": {"cpu": "2500m"}}, "3", "0"),
        ({"requests": {"cpu": "8"}, "limits": {"nvidia.com/gpu": 4}}, "4", "1"),
        ({"limits": {"alpha.kubernetes.io/nvidia-gpu": 2}}, "2", "1"),
    ],
)
def test_the_processors_of_a_trainer(resources: dict[str, Any], count: str, use_gpu: str) -> None:
    roles = trainingjob()
    roles["trainer"]["resources"] = resources
    env = paddle_env(started(roles), "j-trainer-0")
    assert (env["PADDLE_INIT_TRAINER_COUNT"], env["PADDLE_INIT_USE_GPU"]) == (count, use_gpu)


RUN = 'exec sh -c "$ENTRY"'
COMMANDS: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "without entrypoints the roles run what the published images have": (
        {},
        {
            "master": ["paddle_k8s", "start_master"],
            "pserver": ["paddle_k8s", "start_pserver"],
            "trainer": ["paddle_k8s", "start_trainer", "v2"],
        },
    ),
    "fault tolerant, that of fault-tolerant training": (
        {"fault_tolerant": True},
        {
            "master": ["paddle_k8s", "start_master"],
            "pserver": ["paddle_k8s", "start_new_pserver"],
            "trainer": ["paddle_k8s", "start_new_trainer"],
        },
    ),
    "an entrypoint runs in a shell": (
        {"trainer": {"entrypoint": "train"}, "pserver": {"entrypoint": "serve"}},
        {
            "master": ["paddle_k8s", "start_master"],
            "pserver": ["sh", "-c", RUN],
            "trainer": ["sh", "-c", RUN],
        },
    ),
    "in its workspace": (
        {"trainer": {"entrypoint": "train", "workspace": "/w"}, "pserver": {"entrypoint": "serve"}},
        {"pserver": ["sh", "-c", RUN], "trainer": ["sh", "-c", f'cd "$TRAINER_PACKAGE" && {RUN}']},
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str) -> None:
    spec, expected = COMMANDS[name]
    roles = trainingjob(pservers=1, master=True)
    roles["trainer"].pop("entrypoint")
    roles |= {key: roles[key] | value if key in roles else value for key, value in spec.items()}
    cluster = started(roles)
    assert {role: container(cluster, f"j-{role}-0")["command"] for role in expected} == expected


def test_a_role_with_an_entrypoint_has_its_own_entry_and_workspace() -> None:
    roles = trainingjob(pservers=1, master=True)
    roles["trainer"] |= {"workspace": "/w"}
    roles["pserver"] |= {"entrypoint": "serve"}
    cluster = started(roles)
    found = {pod: cluster.env(pod) for pod in ("j-master-0", "j-pserver-0", "j-trainer-0")}
    assert {pod: (env["ENTRY"], env["TRAINER_PACKAGE"]) for pod, env in found.items()} == {
        "j-master-0": ("train", "/w"),
        "j-pserver-0": ("serve", ""),
        "j-trainer-0": ("train", "/w"),
    }


def test_only_a_shell_expands_the_text_of_users() -> None:
    roles = trainingjob()
    roles["trainer"] |= {"entrypoint": "echo $HOME $(POD_IP)", "workspace": "$HOME/$(NAMESPACE)"}
    env = started(roles).env("j-trainer-0")
    assert (env["ENTRY"], env["TOPOLOGY"]) == ("echo $$HOME $$(POD_IP)",) * 2
    assert env["TRAINER_PACKAGE"] == "$$HOME/$$(NAMESPACE)"


# --- names, labels and the pod spec ------------------------------------------------------------------------


def test_labels_hosts_and_service() -> None:
    cluster = started(trainingjob(pservers=2, master=True))
    names = {"master": "paddle-job-master", "pserver": "paddle-job-pserver", "trainer": "paddle-job"}
    for pod in ALL:
        _, role, number = pod.split("-")
        ours = {"paddlepaddle.org/role": role, "paddlepaddle.org/index": number, "shoal.io/job-uid": UID}
        assert cluster.pods[pod]["metadata"]["labels"] == ours | {names[role]: "j"}
        spec = cluster.pods[pod]["spec"]
        assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == (pod, "tj-j", "Never")
    assert cluster.service
    assert cluster.service["metadata"]["name"] == "tj-j"
    assert cluster.host_files == {
        "hosts.master": ["j-master-0"],
        "hosts.pserver": ["j-pserver-0", "j-pserver-1"],
        "hosts.trainer": trainers(0, 1),
    }


@pytest.mark.parametrize("name", ["j", "a.b", "x" * 60, "y" * 170])
def test_the_hosts_that_resolve_are_those_of_the_pods(name: str) -> None:
    cluster = started(trainingjob(2, 2, pservers=2, master=True), name)
    pods = [pod["spec"] for pod in cluster.pods.values()]
    hosts = {(pod["hostname"], pod["subdomain"]) for pod in pods}
    assert len(hosts) == 5
    assert set(KIND.host_names(cluster.job)) == hosts
    assert cluster.service
    assert cluster.service["metadata"]["name"] == pods[0]["subdomain"]
    cluster.end(f"{name}-trainer-0", 1)
    cluster.settle()
    assert cluster.status["phase"] == "Failed"
    assert not list(KIND.host_names(cluster.job))


def test_hosts_above_the_maximum_resolve_while_they_have_nodes() -> None:
    cluster = started(trainingjob(2, 4))
    cluster.allocate(trainer=4)
    cluster.job["spec"]["trainer"]["max-instance"] = 2
    assert [host for host, _ in KIND.host_names(cluster.job)] == trainers(0, 1, 2, 3)


def test_the_spec_of_a_pod_has_what_the_job_says() -> None:
    mounts, volumes = [{"name": "data", "mountPath": "/data"}], [{"name": "data", "emptyDir": {}}]
    cluster = started(
        trainingjob(
            image="mine:1",
            host_network=True,
            volumes=volumes,
            volumeMounts=mounts,
            nodeSelector={"zone": "a"},
            imagePullSecrets=[{"name": "registry"}],
            priorityClassName="high",
        ),
        config=SchedulerConfig(scheduler_names=("mine",)),
    )
    spec = cluster.pods["j-trainer-0"]["spec"]
    expected = {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {"zone": "a"},
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "schedulerName": "mine",
    }
    assert {name: spec[name] for name in expected} == expected
    assert (spec["volumes"][0], container(cluster, "j-trainer-0")["volumeMounts"][0]) == (
        volumes[0],
        mounts[0],
    )
    assert container(cluster, "j-trainer-0")["image"] == "mine:1"


def test_other_spellings_are_read() -> None:
    spec = trainingjob(NodeSelector={"zone": "a"}, VolumeMounts=[{"name": "data", "mountPath": "/data"}])
    text = msgspec.json.encode(TrainingJobCluster(spec).job)
    read = read_trainingjob(text).spec
    assert (read.node_selector, read.volume_mounts[0]["mountPath"]) == ({"zone": "a"}, "/data")


# --- resources ---------------------------------------------------------------------------------------------

RESOURCES: dict[str, dict[str, Any]] = {
    "requests": {"requests": {"cpu": "500m", "memory": "600Mi"}},
    "limits alone": {"limits": {"cpu": "2", "alpha.kubernetes.io/nvidia-gpu": 1}},
    "both": {"requests": {"cpu": 0.25}, "limits": {"cpu": "1.5", "memory": "1e9"}},
    "fractions": {"requests": {"cpu": "100u", "memory": "0.5"}},
    "nothing": {},
}


@pytest.mark.parametrize("host_network", [False, True])
@pytest.mark.parametrize("name", RESOURCES)
def test_pods_request_what_was_planned_for_them(name: str, *, host_network: bool) -> None:
    roles = trainingjob(pservers=1, master=True, host_network=host_network, nodeSelector={"zone": "a"})
    for role in ("master", "pserver", "trainer"):
        roles[role]["resources"] = RESOURCES[name]
    cluster, classes = started(roles), PodClassCache()
    spec = workload_spec(decode(TrainingJob, cluster.job), classes, [], NOW)
    assert spec
    assert {slot.name for slot in spec.slots} == cluster.pods.keys()
    for slot in spec.slots:
        record = record_of(decode(Pod, cluster.pods[slot.name]), classes, NOW)
        assert record.pod_class.shape == slot.pod_class.shape, slot.name


# --- the seed's job, warnings and edits --------------------------------------------------------------------


def test_the_job_of_the_design_document_starts() -> None:
    spec = yaml.safe_load(TRAINING_JOB)["spec"]
    cluster = started(spec)
    assert cluster.status["phase"] == "Running"
    assert len(cluster.pods) == 7
    trainer = container(cluster, "j-trainer-2")
    assert trainer["command"] == ["sh", "-c", f'cd "$TRAINER_PACKAGE" && {RUN}']
    assert trainer["resources"] == {
        "limits": {"nvidia.com/gpu": "1", "cpu": "800m", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "600Mi"},
    }


def test_warnings() -> None:
    spec = trainingjob(pservers=1, master=True)
    spec["trainer"]["etcd-endpoint"] = spec["master"]["etcd-endpoint"] = "x"
    spec["pserver"]["max-instance"] = 2
    found = [one.path for one in KIND.warnings({"spec": spec})]
    assert found == ["spec.master.etcd-endpoint", "spec.trainer.etcd-endpoint", "spec.pserver.max-instance"]
    assert not list(KIND.warnings({"spec": trainingjob(pservers=2, master=True)}))


MUTABLE = ("trainer.min-instance", "trainer.max-instance", "suspend", "ttlSecondsAfterFinished")
IMMUTABLE = (
    "trainer.entrypoint",
    "pserver",
    "image",
    "fault_tolerant",
    "port",
    "passes",
    "priorityClassName",
)


@pytest.mark.parametrize("path", [*MUTABLE, *IMMUTABLE])
def test_what_may_be_edited(path: str) -> None:
    old = {"spec": trainingjob(pservers=1)}
    new = deepcopy(old)
    *parents, name = path.split(".")
    place: Any = new["spec"]
    for parent in parents:
        place = place[parent]
    place[name] = 3 if name.endswith("instance") else "other"
    assert KIND.mutability
    errors = [error.path for error in change_errors(KIND.mutability, new, old)]
    assert errors == ([] if path in MUTABLE else [f"spec.{path}"])
