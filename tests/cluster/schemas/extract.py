"""Writes `kubernetes.json`: the shapes of the kinds that Shoal keeps, from what a real API server publishes.

Run as `python -m tests.cluster.schemas.extract` after Kubernetes was moved to a newer version. The test
beside it holds the file to the API server.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.cluster.resources import RESOURCES
from shoal.cluster.schemas import core
from tests.k8s.controlplane import control_plane

Schema = Mapping[str, Any]
Shapes = dict[str, dict[str, dict[str, str]]]
"""The notation of every field, by type and by package."""

_SCALARS: Final = {
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("string", "date-time"): "time",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "double",
    ("boolean", ""): "boolean",
    ("object", ""): "object",
}


def extract(get: Callable[[str], Schema]) -> Shapes:
    """The shapes of all that the core kinds are made of."""
    published: dict[str, Schema] = {}
    for api_version in sorted({resource.api_version for resource in RESOURCES if core.knows(resource)}):
        group = "apis" if "/" in api_version else "api"
        published |= get(f"/openapi/v3/{group}/{api_version}")["components"]["schemas"]
    wanted = [core.schema_name(resource) for resource in RESOURCES if core.knows(resource)]
    shapes: Shapes = {}
    for name in sorted(_reached(published, wanted)):
        package, _, kind = name.rpartition(".")
        if "properties" in published[name]:
            shapes.setdefault(package, {})[kind] = _shape(published[name])
    return shapes


def _reached(published: Mapping[str, Schema], wanted: list[str]) -> set[str]:
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += _references(published[name])
    return found


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _shape(schema: Schema) -> dict[str, str]:
    required = schema.get("required", ())
    return {
        name: _notation(field) + ("!" if name in required else "") + _suffix(field)
        for name, field in sorted(schema["properties"].items())
    }


def _notation(schema: Schema) -> str:
    if "items" in schema:
        return f"[{_notation(schema['items'])}]"
    if "additionalProperties" in schema:
        return f"{{{_notation(schema['additionalProperties'])}}}"
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return str(part["$ref"].rpartition(".")[2])
    return _SCALARS[schema.get("type", "object"), schema.get("format", "")]


def _suffix(field: Schema) -> str:
    """How lists are merged, and which values there are."""
    key, strategy = field.get("x-kubernetes-patch-merge-key"), field.get("x-kubernetes-patch-strategy", "")
    merged = f" by {key}" if key else " as a set" if strategy else ""
    retained = " retaining keys" if "retainKeys" in strategy else ""
    values = f" of {'|'.join(field['enum'])}" if "enum" in field else ""
    return merged + retained + values


def main() -> None:
    with tempfile.TemporaryDirectory() as place, control_plane(Path(place)) as plane:
        text = msgspec.json.format(msgspec.json.encode(extract(plane.client().get)), indent=1)
    core.SHAPES.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
