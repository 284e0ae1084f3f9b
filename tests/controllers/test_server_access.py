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


TRAINER = {
    "KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:8080/v1/dijobs/team/my.job/trainer-status",
    "KUBEFLOW_TRAINER_SERVER_TOKEN": "/var/run/shoal/token",
}
SERVER = [
    {"name": "DI_SERVER_URL", "value": "http://127.0.0.1:8080"},
    {"name": "DI_SERVER_TOKEN", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "token"}}},
]


def with_access(write: Create, access: ServerAccess = ACCESS) -> dict[str, Any]:
    """Return the spec of a pod that was given access."""
    _, (after,) = give_access(Changes(stages=((write,),)), DIJOBS, JOB, access).stages
    assert isinstance(after, Create)
    assert job_token(bytes(32), UID) not in str(after)
    spec: dict[str, Any] = after.body["spec"]
    return spec


def as_variables(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def test_variables_of_every_container() -> None:
    """Those of the server win over the user's; those of trainers are defaults."""
    own = as_variables({"DI_SERVER_URL": "mine", "KUBEFLOW_TRAINER_SERVER_URL": "mine"})
    before = pod(env=own)
    spec = with_access(before)
    usual, token_file = [*as_variables(TRAINER), *SERVER], as_variables(TRAINER)[1:]
    containers = [*spec["initContainers"], *spec["containers"]]
    assert [one["env"] for one in containers] == [usual, [*token_file, *own, *SERVER], usual]
    assert before.body["spec"]["containers"][0]["env"] == own


def test_the_volume_of_the_job_gets_the_files() -> None:
    """It stands for itself: other volumes, also one of the user with its name, stay as they are."""
    user, job_volume = {"name": "data", "emptyDir": {}}, {"name": "shoal-job", "projected": {"sources": [{}]}}
    before = pod()
    before.body["spec"]["volumes"] = [user, job_volume]
    secret = {"secret": {"name": NAME, "optional": True}}
    after = {"name": "shoal-job", "projected": {"sources": [{}, secret]}}
    assert with_access(before)["volumes"] == [user, after]
    before.body["spec"]["volumes"] = [user | {"name": "shoal-job"}]
    assert with_access(before)["volumes"] == [user | {"name": "shoal-job"}]


def test_certificates_to_trust_are_a_file_too() -> None:
    access = ServerAccess("https://server", bytes(32), b"PEM")
    (secret,), _ = give_access(Changes(stages=((pod(),),)), DIJOBS, JOB, access).stages
    assert isinstance(secret, Create)
    assert base64.b64decode(secret.body["data"]["ca.crt"]) == b"PEM"
    variables = {one["name"]: one.get("value") for one in with_access(pod(), access)["containers"][0]["env"]}
    assert variables["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == "/var/run/shoal/ca.crt"


def test_only_kinds_that_report_get_access() -> None:
    plain, with_server = job_controllers(native=True), job_controllers(native=True, server=ACCESS)
    changed = {
        type(one.__self__).__name__
        for one, other in zip(plain, with_server, strict=True)
        if one != other and hasattr(one, "__self__")
    }
    assert changed == {"DIJobKind", "TYJobKind", "TrainingJobKind"}
