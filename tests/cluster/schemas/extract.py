"""Writes the schema files from a real API server and from the sources of Kubernetes.

`kubernetes.json` has the fields of the kinds that Shoal uses, as the API server publishes them;
`protobuf.json` has their field numbers, from the sources that Go fetched to build it.

Run as `python -m tests.cluster.schemas.extract` after an update of Kubernetes. `test_core` compares the file
with the API server.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.apiserver.http.requests import REVIEWS
from shoal.cluster.resources import resources
from shoal.cluster.schemas import core, protobuf
from tests.k8s.assets import HERE
from tests.k8s.controlplane import control_plane

Schema = Mapping[str, Any]
Notations = dict[str, dict[str, dict[str, str]]]
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


def extract(get: Callable[[str], Schema]) -> Notations:
    """Return the notations of all types that the built-in kinds consist of."""
    published: dict[str, Schema] = {}
    stored = {resource.api_version for resource in resources() if core.is_builtin(resource)}
    for api_version in sorted(stored | {review.api_version for review in REVIEWS}):
        group = "apis" if "/" in api_version else "api"
        published |= get(f"/openapi/v3/{group}/{api_version}")["components"]["schemas"]
    wanted = [core.schema_name(resource) for resource in resources() if core.is_builtin(resource)]
    wanted += core.REQUEST_KINDS.values()
    notations: Notations = {}
    for name in sorted(_reachable(published, wanted)):
        package, _, kind = name.rpartition(".")
        if "properties" in published[name]:
            notations.setdefault(package, {})[kind] = _type_notation(published[name])
    return notations


def _reachable(published: Mapping[str, Schema], wanted: list[str]) -> set[str]:
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


def _type_notation(schema: Schema) -> dict[str, str]:
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
    """Return how a list is merged, and the values of an enumeration."""
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
    "k8s.io/api": (
        "core/v1",
        "batch/v1",
        "policy/v1",
        "scheduling/v1",
        "coordination/v1",
        "authentication/v1",
        "authorization/v1",
    ),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1",),
}


def field_numbers(notations: Notations) -> dict[str, dict[int, str]]:
    """Return the names of fields by number, of the types that have notations, and of inlined types."""
    text = "\n".join(path.read_text() for path in _sources())
    structs = dict(_STRUCT.findall(text))
    wanted = [kind for kinds in notations.values() for kind in kinds if kind in structs]
    found: dict[str, dict[int, str]] = {}
    while wanted:
        kind = wanted.pop()
        if kind not in found:
            found[kind] = dict(sorted(_numbered_fields(structs[kind])))
            wanted += [name[1:] for name in found[kind].values() if name.startswith("~")]
    return dict(sorted(found.items()))


def _sources() -> Iterator[Path]:
    for module, packages in _SOURCES.items():
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        directory = subprocess.run(  # noqa: S603 - our own command
            command, cwd=HERE, capture_output=True, text=True, check=True
        ).stdout.strip()
        yield from (Path(directory) / package / "types.go" for package in packages)


def _numbered_fields(struct: str) -> Iterator[tuple[int, str]]:
    """Yield field numbers and names; pointers and fields without omitempty have a meaning when empty."""
    for member in _MEMBER.finditer(struct):
        name, *more = member["json"].split(",")
        if not name:
            yield int(member["number"]), f"~{member['type'].rpartition('.')[2]}"
        else:
            always_present = member["type"].startswith("*") or "omitempty" not in more
            yield int(member["number"]), f"{name}?" if always_present else name


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, control_plane(Path(directory)) as plane:
        notations = extract(plane.client().get)
    _write(core.SCHEMAS_FILE, notations)
    _write(protobuf.FIELD_NUMBERS_FILE, field_numbers(notations))


def _write(path: Path, content: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


if __name__ == "__main__":
    main()
