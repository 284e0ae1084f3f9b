"""`shoal apply` and `shoal create`: create or update the objects in manifests.

Apply is kubectl's client-side apply: a three-way merge of the last applied configuration (kept in an
annotation), the manifest, and the live object.
"""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from shoal.api.crds import Schema
from shoal.cli.input import manifests
from shoal.cli.input.manifests import Manifest
from shoal.cli.input.options import dry_run_option, filename_options
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import output_option
from shoal.client.client import Client
from shoal.cluster.errors import AlreadyExistsError, ConflictError
from shoal.cluster.patches.json_patch import make_merge_patch
from shoal.cluster.patches.strategic import apply_three_way
from shoal.cluster.resources import Object, Resource, by_kind
from shoal.cluster.schemas import core

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_TRIES: Final = 5
_WITH_PODS: Final[Schema] = {
    "properties": {
        "spec": {"properties": {"template": {"$ref": f"{core.REFERENCES}io.k8s.api.core.v1.PodTemplateSpec"}}}
    }
}
"""Schema for built-in kinds that Shoal has none of: some of them have a pod template."""


def apply_one(client: Client, manifest: Manifest, dry_run: str) -> tuple[Object, str]:
    """Apply one manifest; the object afterwards, and the verb to print. Conflicting writes are retried."""
    for _ in range(_TRIES):
        try:
            return _apply(client, manifest, dry_run)
        except (ConflictError, AlreadyExistsError):
            continue
    return _apply(client, manifest, dry_run)


def _apply(client: Client, manifest: Manifest, dry_run: str) -> tuple[Object, str]:
    resource, server_dry_run = manifest.resource, dry_run == "server"
    live = client.find(resource, manifest.name, manifest.namespace)
    config = _configuration(manifest.body)
    if live is None:
        body = with_last_applied(config)
        if dry_run == "client":
            return body, "created"
        query = {"fieldValidation": "Strict"}
        return client.create(resource, body, manifest.namespace, dry_run=server_dry_run, **query), "created"
    patch = _patch(resource, config, live)
    if not patch:
        return live, "unchanged"
    if dry_run == "client":
        return live, "configured"
    patch.setdefault("metadata", {})["resourceVersion"] = live["metadata"]["resourceVersion"]
    result = client.patch(
        resource,
        manifest.name,
        manifest.namespace,
        patch=patch,
        dry_run=server_dry_run,
        fieldValidation="Strict",
    )
    return result, "unchanged" if _version(result) == _version(live) and not server_dry_run else "configured"


def _patch(resource: Resource[Any], config: Object, live: Object) -> Object:
    """The merge patch that turns the live object into the configured one."""
    previous = last_applied(live)
    # An annotation that differs only in its formatting is kept.
    desired = with_last_applied(config) if previous != config else _with_annotation(config, _annotation(live))
    return make_merge_patch(live, apply_three_way(previous, desired, live, _schema(resource)))


def _configuration(body: Object) -> Object:
    """The object as its author wrote it: without fields of the server and the last-applied annotation."""
    annotations = {k: v for k, v in (body["metadata"].get("annotations") or {}).items() if k != LAST_APPLIED}
    metadata = {k: v for k, v in body["metadata"].items() if k not in ("creationTimestamp", "managedFields")}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def with_last_applied(config: Object) -> Object:
    """Add the last-applied annotation: fields that are in it and not in the next manifest are removed."""
    return _with_annotation(config, msgspec.json.encode(config, order="sorted").decode() + "\n")


def _with_annotation(config: Object, text: str) -> Object:
    annotations = {**config["metadata"]["annotations"], LAST_APPLIED: text}
    return {**config, "metadata": {**config["metadata"], "annotations": annotations}}


def _annotation(live: Object) -> str:
    return str((live["metadata"].get("annotations") or {}).get(LAST_APPLIED) or "")


def last_applied(live: Object) -> Object:
    """The last applied configuration of an object; empty if it was never applied."""
    try:
        return msgspec.json.decode(_annotation(live), type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _schema(resource: Resource[Any]) -> Schema:
    """Schema that says how a kind's lists are merged; empty for custom kinds, whose lists are replaced."""
    if not core.is_builtin(resource):
        return {}
    if (resource.api_version, resource.kind) in by_kind():
        return core.schemas()[core.schema_name(resource)]
    return _WITH_PODS


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


@click.command()
@filename_options()
@session_option
@dry_run_option
@output_option()
def apply(session: Session, filenames: Sequence[str], *, recursive: bool, dry_run: str, output: str) -> None:
    r"""Apply manifests: create or update objects.

    Fields that an earlier apply set and the files no longer have are removed; fields set by others stay. If
    any object is invalid, all errors are printed and nothing is applied. If the server rejects an object, the
    error is printed, the others are applied, and the command exits with 1.

    \b
    Examples:
      shoal apply -f my-job.yaml
      shoal apply -R -f deploy/                  all files in a directory tree
      shoal apply -f my-job.yaml --dry-run=server
      cat my-job.yaml | shoal apply -f -
    """
    failures = Failures()
    for manifest in manifests.read(session, filenames, recursive=recursive):
        with failures.catch(f'error when applying "{manifest.source}": '):
            result, verb = apply_one(session.client, manifest, dry_run)
            manifests.print_result(manifest, result, verb, output=output, dry_run=dry_run)
    failures.exit_if_any()


@click.command()
@filename_options()
@session_option
@dry_run_option
@output_option()
def create(session: Session, filenames: Sequence[str], *, recursive: bool, dry_run: str, output: str) -> None:
    r"""Create the objects in files. It is an error if one exists already.

    An object with generateName in place of a name gets a new name each time.

    \b
    Examples:
      shoal create -f my-job.yaml
      shoal create -f my-job.yaml --dry-run=server -o yaml
    """
    failures = Failures()
    for manifest in manifests.read(session, filenames, recursive=recursive):
        result = manifest.body
        with failures.catch(f'error when creating "{manifest.source}": '):
            if dry_run != "client":
                server_dry_run, query = dry_run == "server", {"fieldValidation": "Strict"}
                result = session.client.create(
                    manifest.resource, manifest.body, manifest.namespace, dry_run=server_dry_run, **query
                )
            manifests.print_result(manifest, result, "created", output=output, dry_run=dry_run)
    failures.exit_if_any()
