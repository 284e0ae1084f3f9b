"""Access of pods to the server: what is added to the changes of a controller, and in which order."""

import base64
from typing import Any

import pytest

from shoal.api.managed import ManagedMeta
from shoal.cluster.resources import PODS, SECRETS, SERVICES, resource_of
from shoal.controllers.changes import Changes, Create, Delete, PatchStatus, Write
from shoal.controllers.jobs.pods import create_service
from shoal.controllers.jobs.server_access import ServerAccess, give_access
from shoal.controllers.jobs.tokens import job_token
from shoal.manager import job_controllers

UID = "0123abcd-0000-0000-0000-000000000000"
JOB = ManagedMeta(name="my.job", namespace="team", uid=UID, resource_version="7")
DIJOBS = resource_of("DIJob")
ACCESS = ServerAccess("http://127.0.0.1:8080", bytes(32))
NAME = "di-my-job-0123abcd-0123abcd"

STATUS = PatchStatus(resource=DIJOBS, name="my.job", namespace="team", patch={"status": {}}, version="7")
SERVICE = create_service(DIJOBS, JOB, "di-my-job")
NO_SERVICE = Delete(resource=SERVICES, name="di-my-job", namespace="team")
NO_POD = Delete(resource=PODS, name="pod", namespace="team")


def pod(**container: Any) -> Create:  # noqa: ANN401 - JSON
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "w", **container}, {"name": "side"}]}
    return Create(resource=PODS, body={"metadata": {"name": "pod"}, "spec": spec}, owner=UID)


def described(write: Write) -> str:
    return f"{type(write).__name__} {write.resource.plural}"


STAGES: dict[str, tuple[tuple[tuple[Write, ...], ...], list[list[str]]]] = {
    "the secret is created before the pods": (
        ((STATUS,), (SERVICE,), (), (pod(), pod())),
        [["PatchStatus dijobs"], ["Create services"], [], ["Create secrets"], ["Create pods", "Create pods"]],
    ),
    "not if there are none": (
        ((STATUS,), (SERVICE,), (NO_POD,), ()),
        [["PatchStatus dijobs"], ["Create services"], ["Delete pods"], []],
    ),
    "it is deleted before the service of a finished job": (
        ((), (NO_POD, NO_SERVICE)),
        [[], ["Delete secrets"], ["Delete pods", "Delete services"]],
    ),
    "nothing is added to nothing": ((), []),
}


@pytest.mark.parametrize("stages, expected", STAGES.values(), ids=STAGES)
def test_the_order_of_writes(stages: tuple[tuple[Write, ...], ...], expected: list[list[str]]) -> None:
    changes = give_access(Changes(stages=stages, requeue_at=5.0), DIJOBS, JOB, ACCESS)
    assert [[described(write) for write in stage] for stage in changes.stages] == expected
    assert changes.requeue_at == 5.0


def test_the_secret_belongs_to_the_job_and_has_its_token() -> None:
    (secret,), _ = give_access(Changes(stages=((pod(),),)), DIJOBS, JOB, ACCESS).stages
    assert isinstance(secret, Create)
    meta = secret.body["metadata"]
    assert (secret.resource.full_name, meta["namespace"], meta["name"]) == (SECRETS.full_name, "team", NAME)
    assert base64.b64decode(secret.body["data"]["token"]).decode() == job_token(bytes(32), UID)
    assert [(one["kind"], one["uid"], one["controller"]) for one in meta["ownerReferences"]] == [
        ("DIJob", UID, True)
    ]


def test_every_container_gets_the_variables_after_its_own() -> None:
    own = {"name": "DI_SERVER_URL", "value": "mine"}
    before = pod(env=[own])
    _, (after,) = give_access(Changes(stages=((before,),)), DIJOBS, JOB, ACCESS).stages
    assert isinstance(after, Create)
    added = [
        {"name": "DI_SERVER_URL", "value": "http://127.0.0.1:8080"},
        {"name": "DI_SERVER_TOKEN", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "token"}}},
    ]
    containers = [*after.body["spec"]["initContainers"], *after.body["spec"]["containers"]]
    assert [one["env"] for one in containers] == [added, [own, *added], added]
    assert before.body["spec"]["containers"][0]["env"] == [own]
    assert job_token(bytes(32), UID) not in str(after)


def test_only_kinds_that_report_get_access() -> None:
    plain, with_server = job_controllers(native=True), job_controllers(native=True, server=ACCESS)
    changed = {
        type(one.__self__).__name__
        for one, other in zip(plain, with_server, strict=True)
        if one != other and hasattr(one, "__self__")
    }
    assert changed == {"DIJobKind", "TYJobKind", "TrainingJobKind"}
