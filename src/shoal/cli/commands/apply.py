"""What `shoal apply` does with one object: makes, changes or leaves it, as kubectl's client-side apply.

`shoal apply`: objects made as files say, or changed so.
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
from shoal.cluster.patches.merge import make_merge_patch
from shoal.cluster.patches.three_way import apply_three_way
from shoal.cluster.resources import BY_KIND, Object, Resource
from shoal.cluster.schemas import core

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_TRIES: Final = 5
_WITH_PODS: Final[Schema] = {
    "properties": {
        "spec": {"properties": {"template": {"$ref": f"{core.REFERENCES}io.k8s.api.core.v1.PodTemplateSpec"}}}
    }
}
"""What is known of Kubernetes' kinds that Shoal has no schema of: that some have a template of pods."""


def apply_one(client: Client, manifest: Manifest, dry_run: str) -> tuple[Object, str]:
    """The object as it is now, and what was done; somebody who wrote in between only makes us try again."""
    for _ in range(_TRIES):
        try:
            return _apply(client, manifest, dry_run)
        except (ConflictError, AlreadyExistsError):
            continue
    return _apply(client, manifest, dry_run)


def _apply(client: Client, manifest: Manifest, dry_run: str) -> tuple[Object, str]:
    resource, rehearsed = manifest.resource, dry_run == "server"
    there = client.find(resource, manifest.name, manifest.namespace)
    said = _configuration(manifest.body)
    if there is None:
        body = with_last_applied(said)
        if dry_run == "client":
            return body, "created"
        more = {"fieldValidation": "Strict"}
        return client.create(resource, body, manifest.namespace, dry_run=rehearsed, **more), "created"
    patch = _patch(resource, said, there)
    if not patch:
        return there, "unchanged"
    if dry_run == "client":
        return there, "configured"
    patch.setdefault("metadata", {})["resourceVersion"] = there["metadata"]["resourceVersion"]
    made = client.patch(
        resource,
        manifest.name,
        manifest.namespace,
        patch=patch,
        dry_run=rehearsed,
        fieldValidation="Strict",
    )
    return made, "unchanged" if _version(made) == _version(there) and not rehearsed else "configured"


def _patch(resource: Resource[Any], said: Object, there: Object) -> Object:
    """The merge patch that makes an object as it is said to be."""
    before = last_applied(there)
    # One that says the same in other words is left as it is.
    wanted = with_last_applied(said) if before != said else _with_annotation(said, _annotation(there))
    return make_merge_patch(there, apply_three_way(before, wanted, there, _schema(resource)))


def _configuration(body: Object) -> Object:
    """An object as its author says it: without what only a server says, and without our own note."""
    notes = {k: v for k, v in (body["metadata"].get("annotations") or {}).items() if k != LAST_APPLIED}
    metadata = {k: v for k, v in body["metadata"].items() if k not in ("creationTimestamp", "managedFields")}
    return {**body, "metadata": {**metadata, "annotations": notes}}


def with_last_applied(said: Object) -> Object:
    """An object with a note of all that is said of it: what it lacks next time is to be taken away."""
    return _with_annotation(said, msgspec.json.encode(said, order="sorted").decode() + "\n")


def _with_annotation(said: Object, text: str) -> Object:
    notes = {**said["metadata"]["annotations"], LAST_APPLIED: text}
    return {**said, "metadata": {**said["metadata"], "annotations": notes}}


def _annotation(there: Object) -> str:
    return str((there["metadata"].get("annotations") or {}).get(LAST_APPLIED) or "")


def last_applied(there: Object) -> Object:
    """What was said of an object last time; nothing if nobody noted it."""
    try:
        return msgspec.json.decode(_annotation(there), type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _schema(resource: Resource[Any]) -> Schema:
    """What is known of a kind's lists; of those of custom kinds nothing, and they are replaced whole."""
    if not core.is_builtin(resource):
        return {}
    if (resource.api_version, resource.kind) in BY_KIND:
        return core.schemas()[core.schema_name(resource)]
    return _WITH_PODS


def _version(thing: Object) -> str:
    return str(thing["metadata"]["resourceVersion"])


@click.command()
@filename_options()
@session_option
@dry_run_option
@output_option()
def apply(session: Session, filenames: Sequence[str], *, recursive: bool, dry_run: str, output: str) -> None:
    r"""Make the objects in files, or change those that are there to what the files say.

    What an earlier apply said and the files no longer do is taken away; what others wrote stays. If any
    object is malformed nothing is applied, and everything that is wrong is said. What the server refuses is
    said object by object, the rest is applied, and the command exits with 1.

    \b
    Examples:
      shoal apply -f my-job.yaml
      shoal apply -R -f deploy/                  all files below a directory
      shoal apply -f my-job.yaml --dry-run=server
      cat my-job.yaml | shoal apply -f -
    """
    failures = Failures()
    for manifest in manifests.read(session, filenames, recursive=recursive):
        with failures.noted(f'error when applying "{manifest.source}": '):
            made, done = apply_one(session.client, manifest, dry_run)
            manifests.print_result(manifest, made, done, output=output, dry_run=dry_run)
    failures.end()


@click.command()
@filename_options()
@session_option
@dry_run_option
@output_option()
def create(session: Session, filenames: Sequence[str], *, recursive: bool, dry_run: str, output: str) -> None:
    r"""Make the objects in files; one that is there already is an error.

    An object with generateName in place of a name is given one of its own each time.

    \b
    Examples:
      shoal create -f my-job.yaml
      shoal create -f my-job.yaml --dry-run=server -o yaml
    """
    failures = Failures()
    for manifest in manifests.read(session, filenames, recursive=recursive):
        made = manifest.body
        with failures.noted(f'error when creating "{manifest.source}": '):
            if dry_run != "client":
                rehearsed, more = dry_run == "server", {"fieldValidation": "Strict"}
                made = session.client.create(
                    manifest.resource, manifest.body, manifest.namespace, dry_run=rehearsed, **more
                )
            manifests.print_result(manifest, made, "created", output=output, dry_run=dry_run)
    failures.end()
