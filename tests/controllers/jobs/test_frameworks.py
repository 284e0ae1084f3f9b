"""The environment for training frameworks: the place of a pod in a job goes in, variables come out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.managed import ManagedMeta
from shoal.cluster.resources import Object, resource_of
from shoal.controllers.jobs.frameworks import (
    Member,
    ProcessGroup,
    is_data_parallel,
    member_variables,
    process_port,
    processes_of,
)
from shoal.controllers.jobs.pods import NewPod, create_pod
from shoal.engine.config import SchedulerConfig

JOB = ManagedMeta(name="train", namespace="ns", uid="0123abcd-0000-0000-0000-000000000000")
HOST = "train-1.di-train.ns.svc.cluster.local"
FIRST = "train-0.di-train.ns.svc.cluster.local"
RIGID = ProcessGroup(first_host=FIRST, size=3, minimum=3, maximum=3)
ELASTIC = ProcessGroup(first_host=FIRST, size=3, minimum=2, maximum=8)
DISTRIBUTED = {"RANK", "WORLD_SIZE", "LOCAL_RANK"}


def variables(group: ProcessGroup | None, index: int = 1, **spec: Any) -> dict[str, str]:  # noqa: ANN401 - a pod spec
    member = Member(role="worker", index=index, restart=2, group=group)
    return member_variables(JOB, member, HOST, spec)


def gpus(*numbers: int) -> list[Object]:
    return [{"name": str(n), "resources": {"limits": {"nvidia.com/gpu": n}}} for n in numbers]


def test_every_pod_learns_its_place() -> None:
    assert variables(None, terminationGracePeriodSeconds=90) == {
        "SHOAL_JOB": "train",
        "SHOAL_ROLE": "worker",
        "SHOAL_INDEX": "1",
        "SHOAL_RESTART": "2",
        "SHOAL_GRACE_SECONDS": "90",
        "SHOAL_HOSTFILE": "/var/run/shoal/hosts.worker",
    }


def test_a_data_parallel_pod_learns_its_group() -> None:
    port = process_port(JOB.uid)
    found = variables(ELASTIC)
    assert {name: text for name, text in found.items() if not name.startswith("SHOAL_")} == {
        "MASTER_ADDR": FIRST,
        "MASTER_PORT": str(port),
        "PET_NNODES": "2:8",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{FIRST}:{port}",
        "PET_RDZV_ID": JOB.uid,
        "PET_RDZV_CONF": "is_host=false,join_timeout=600,read_timeout=600,last_call_timeout=5",
        "PET_LOCAL_ADDR": HOST,
        "PET_MAX_RESTARTS": "100",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "JAX_COORDINATOR_ADDRESS": f"{FIRST}:{port}",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "1",
    }


def test_index_0_is_the_rendezvous() -> None:
    assert variables(ELASTIC, index=0)["PET_RDZV_CONF"].startswith("is_host=true,")


WORLDS: dict[str, tuple[ProcessGroup | None, list[Object], bool]] = {
    "a job of one size, one process in each pod": (RIGID, gpus(1), True),
    "without GPUs a pod has one process": (RIGID, [{"name": "a"}], True),
    "an elastic job": (ELASTIC, gpus(1), False),
    "a job that was scaled beyond its maximum": (
        ProcessGroup(first_host=FIRST, size=4, minimum=3, maximum=3),
        gpus(1),
        False,
    ),
    "several processes in each pod": (RIGID, gpus(2), False),
    "a pod that is not data-parallel, such as a collector": (None, gpus(1), False),
}


@pytest.mark.parametrize("group, containers, known", WORLDS.values(), ids=WORLDS)
def test_the_world_size_is_told_where_it_never_changes(
    group: ProcessGroup | None, containers: list[Object], *, known: bool
) -> None:
    found = variables(group, containers=containers)
    assert DISTRIBUTED & found.keys() == (DISTRIBUTED if known else set())


@pytest.mark.parametrize(
    "containers, processes",
    [
        ([], 1),
        (gpus(4), 4),
        (gpus(1, 2), 3),
        ([{"resources": {"requests": {"amd.com/gpu": "2"}, "limits": None}}], 2),
        ([{"resources": {"limits": {"cpu": "16"}}}], 1),
    ],
)
def test_a_pod_has_one_process_for_each_gpu(containers: list[Object], processes: int) -> None:
    assert processes_of({"containers": containers}) == processes


@pytest.mark.parametrize(
    "annotation, default, expected",
    [("true", False, True), ("false", True, False), ("", True, True), ("", False, False)],
)
def test_an_annotation_makes_pods_data_parallel(annotation: str, *, default: bool, expected: bool) -> None:
    annotations = {"shoal.io/data-parallel": annotation} if annotation else {}
    assert is_data_parallel({"metadata": {"annotations": annotations}}, default=default) is expected


@given(st.uuids())
def test_ports_are_below_those_of_di_engine_and_of_nodes(uid: object) -> None:
    assert 10_000 <= process_port(str(uid)) < 22_270


# --- in a pod ----------------------------------------------------------------------------------------------


def created(container: Object, group: ProcessGroup | None = RIGID, **spec: Any) -> Object:  # noqa: ANN401 - a pod spec
    new = NewPod(
        name="train-0-1",
        host="train-1",
        service="di-train",
        template={"spec": {"containers": [container], **spec}},
        member=Member(role="worker", index=1, group=group),
        labels={},
        annotations={},
        env=[("DI_RANK", "1")],
    )
    made: Object = create_pod(resource_of("DIJob"), JOB, new, SchedulerConfig()).body["spec"]
    return made


def test_what_the_user_sets_counts() -> None:
    env = [{"name": "WORLD_SIZE", "value": "7"}, {"name": "URL", "value": "$(MASTER_ADDR):1"}]
    (container,) = created({"name": "main", "env": env})["containers"]
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert {"name": "WORLD_SIZE", "value": "7"} in container["env"]
    assert names.index("MASTER_ADDR") < names.index("URL") < names.index("DI_RANK"), (
        "a later one may refer to it"
    )


def test_all_containers_get_the_job() -> None:
    spec = created({"name": "main"}, initContainers=[{"name": "init"}])
    for container in (*spec["containers"], *spec["initContainers"]):
        assert "SHOAL_INDEX" in {variable["name"] for variable in container["env"]}
        assert container["volumeMounts"] == [
            {"name": "shoal-job", "mountPath": "/var/run/shoal", "readOnly": True}
        ]
    assert [volume["name"] for volume in spec["volumes"]] == ["shoal-job"]


def test_a_mount_of_the_user_stays_alone() -> None:
    mount = {"name": "mine", "mountPath": "/var/run/shoal/"}
    (container,) = created({"name": "main", "volumeMounts": [mount]})["containers"]
    assert container["volumeMounts"] == [mount]
