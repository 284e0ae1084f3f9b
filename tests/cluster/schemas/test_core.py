"""The schemas of Kubernetes' built-in kinds are those that a real API server publishes."""

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
    "a list of strings is merged as a set": ("v1.ObjectMeta.finalizers", {core.PATCH_STRATEGY: "merge"}),
    "a list is replaced": ("v1.PodSpec.tolerations", {"type": "array"}),
    "an enumeration": (
        "v1.ContainerPort.protocol",
        {"type": "string", "enum": ["SCTP", "TCP", "UDP"]},
    ),
    "a mapping": (
        "v1.ConfigMap.data",
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
    "a 64-bit integer": ("v1.JobSpec.activeDeadlineSeconds", {"type": "integer", "format": "int64"}),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_parsed_from_its_notation(name: str) -> None:
    path, expected = FIELDS[name]
    kind, _, field = path.rpartition(".")
    schema = next(schema for name, schema in core.schemas().items() if name.endswith(f".{kind}"))
    assert expected.items() <= schema["properties"][field].items()


@pytest.mark.parametrize(
    "resource", [*filter(core.is_builtin, resources())], ids=lambda resource: resource.kind
)
def test_every_builtin_kind_has_a_schema(resource: Resource[Object]) -> None:
    assert "metadata" in core.schemas()[core.schema_name(resource)]["properties"]


def test_the_file_agrees_with_the_api_server(k8s: ControlPlane) -> None:
    stored = msgspec.json.decode(core.SCHEMAS_FILE.read_bytes())
    assert stored == extract(k8s.client().get), "run `python -m tests.cluster.schemas.extract`"
