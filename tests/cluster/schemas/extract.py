"""Writes `kubernetes.json`, the shapes of the kinds that Shoal keeps, from what a real API server publishes,
and `protobuf.json`, their field numbers, from the sources that Go has fetched to build it.

Run as `python -m tests.cluster.schemas.extract` after Kubernetes was moved to a newer version. The test
beside it holds the file to the API server.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.cluster.resources import resources
from shoal.cluster.schemas import core, protobuf
from tests.k8s.assets import HERE
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
    for api_version in sorted(
        {resource.api_version for resource in resources() if core.is_builtin(resource)}
    ):
        group = "apis" if "/" in api_version else "api"
        published |= get(f"/openapi/v3/{group}/{api_version}")["components"]["schemas"]
    wanted = [core.schema_name(resource) for resource in resources() if core.is_builtin(resource)]
    wanted += core.REQUEST_KINDS.values()
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


# --- protobuf ---------------------------------------------------------------------------------------------

_STRUCT: Final = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_MEMBER: Final = re.compile(
    r"""^\s+(?:\w+\s+)?(?P<type>\S+)\s+`json:"(?P<json>[^"]*)"[^`]*protobuf:"\w+,(?P<number>\d+)""",
    re.MULTILINE,
)
_SOURCES: Final = {
    "k8s.io/api": ("core/v1", "batch/v1", "policy/v1", "scheduling/v1", "coordination/v1"),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1",),
}


def field_numbers(shapes: Shapes) -> dict[str, dict[int, str]]:
    """The names of fields by their numbers, of the types that there are shapes of, and of those inlined."""
    text = "\n".join(path.read_text() for path in _sources())
    structs = dict(_STRUCT.findall(text))
    wanted = [kind for kinds in shapes.values() for kind in kinds if kind in structs]
    found: dict[str, dict[int, str]] = {}
    while wanted:
        kind = wanted.pop()
        if kind not in found:
            found[kind] = dict(sorted(_numbered(structs[kind])))
            wanted += [name[1:] for name in found[kind].values() if name.startswith("~")]
    return dict(sorted(found.items()))


def _sources() -> Iterator[Path]:
    for module, packages in _SOURCES.items():
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        place = subprocess.run(  # noqa: S603 - our own command
            command, cwd=HERE, capture_output=True, text=True, check=True
        ).stdout.strip()
        yield from (Path(place) / package / "types.go" for package in packages)


def _numbered(struct: str) -> Iterator[tuple[int, str]]:
    """Pointers, and what JSON writes although it is empty, say something even if it is nothing."""
    for member in _MEMBER.finditer(struct):
        name, *more = member["json"].split(",")
        if not name:
            yield int(member["number"]), f"~{member['type'].rpartition('.')[2]}"
        else:
            kept = member["type"].startswith("*") or "omitempty" not in more
            yield int(member["number"]), f"{name}?" if kept else name


def main() -> None:
    with tempfile.TemporaryDirectory() as place, control_plane(Path(place)) as plane:
        shapes = extract(plane.client().get)
    _write(core.SCHEMAS_FILE, shapes)
    _write(protobuf.FIELD_NUMBERS_FILE, field_numbers(shapes))


def _write(path: Path, content: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


if __name__ == "__main__":
    main()
