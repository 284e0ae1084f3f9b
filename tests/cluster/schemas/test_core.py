"""The schemas of Kubernetes' own kinds are those that a real API server publishes."""

import msgspec
import pytest

from shoal.cluster.resources import Object, Resource, resources
from shoal.cluster.schemas import core
from tests.cluster.schemas.extract import extract
from tests.k8s.controlplane import ControlPlane

FIELDS: dict[str, tuple[str, Object]] = {
    "a list is merged by key": (
        "v1.PodSpec.containers",
        {core.MERGE_KEY: "name", core.PATCH_STRATEGY: "merge"},
    ),
    "a list is merged by key and retains keys": (
        "v1.PodSpec.volumes",
        {core.MERGE_KEY: "name", core.PATCH_STRATEGY: "merge,retainKeys"},
    ),
    "a list of texts is merged as a set": ("v1.ObjectMeta.finalizers", {core.PATCH_STRATEGY: "merge"}),
    "a list is replaced": ("v1.PodSpec.tolerations", {"type": "array"}),
    "a field has values to choose from": (
        "v1.ContainerPort.protocol",
        {"type": "string", "enum": ["SCTP", "TCP", "UDP"]},
    ),
    "a mapping has values of a type": (
        "v1.ConfigMap.data",
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
    "a number has a width": ("v1.JobSpec.activeDeadlineSeconds", {"type": "integer", "format": "int64"}),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_read_from_its_notation(name: str) -> None:
    place, expected = FIELDS[name]
    kind, _, field = place.rpartition(".")
    schema = next(schema for name, schema in core.schemas().items() if name.endswith(f".{kind}"))
    assert expected.items() <= schema["properties"][field].items()


@pytest.mark.parametrize(
    "resource", [*filter(core.is_builtin, resources())], ids=lambda resource: resource.kind
)
def test_every_kind_of_kubernetes_has_one(resource: Resource[Object]) -> None:
    assert "metadata" in core.schemas()[core.schema_name(resource)]["properties"]


def test_the_file_says_what_the_api_server_does(k8s: ControlPlane) -> None:
    kept = msgspec.json.decode(core.SCHEMAS_FILE.read_bytes())
    assert kept == extract(k8s.client().get), "run `python -m tests.cluster.schemas.extract`"
