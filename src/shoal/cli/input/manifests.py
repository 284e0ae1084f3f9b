"""Manifests: the objects in files, validated, each with its kind and namespace, ready to be sent."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from shoal.api.loader import load_objects
from shoal.cli.input import files
from shoal.cli.input.session import CommandError, Failures, Session
from shoal.cli.output.printing import dry_run_suffix, print_objects, typed_name
from shoal.client.client import UnknownKindError
from shoal.cluster.resources import Object, Resource


class Manifest(msgspec.Struct, frozen=True):
    """An object in a file, and where it goes."""

    source: str
    resource: Resource[Object]
    namespace: str
    body: Object

    @property
    def name(self) -> str:
        """The object's name; empty if the server generates it."""
        return str(self.body["metadata"].get("name") or "")


def read(session: Session, filenames: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Read all objects in the files. If any is invalid, all errors are printed and the command exits."""
    documents = [*files.read(filenames, recursive=recursive)]
    loaded = load_objects((source, _with_name(document)) for source, document in documents)
    files.report_problems(loaded)
    failures, found = Failures(), list[Manifest]()
    for source, document in documents:
        try:
            found.append(_manifest(session, source, dict(document)))  # type: ignore[call-overload] # validated above
        except (UnknownKindError, CommandError) as problem:
            failures.report(f"error: {source}: {problem}")
    failures.exit_if_any()
    return found


def _with_name(document: object) -> object:
    """Fill in a name where `generateName` is set, so that the object can be validated."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(metadata, Mapping) or metadata.get("name"):
        return document
    generated = metadata.get("generateName")
    return (
        {**document, "metadata": {**metadata, "name": f"{generated}x"}}
        if isinstance(generated, str)
        else document
    )


def _manifest(session: Session, source: str, body: Object) -> Manifest:
    resource = session.kinds.for_object(body["apiVersion"], body["kind"])
    metadata: dict[str, Any] = dict(body.get("metadata") or {})
    if not metadata.get("name") and not metadata.get("generateName"):
        raise CommandError("metadata.name: is required")
    if not resource.namespaced:
        return Manifest(source, resource, "", {**body, "metadata": metadata})
    namespace = metadata.get("namespace") or session.namespace
    if session.namespace_given and namespace != session.namespace:
        raise CommandError(
            f"metadata.namespace: is {namespace}, but -n selects {session.namespace}; pass -n {namespace}"
        )
    return Manifest(source, resource, namespace, {**body, "metadata": {**metadata, "namespace": namespace}})


def print_result(manifest: Manifest, result: Object, verb: str, *, output: str, dry_run: str) -> None:
    """Print the object that resulted, or a line that says what was done."""
    if output:
        print_objects([(manifest.resource, result)], output, single=True)
        return
    name = result["metadata"].get("name") or manifest.name
    click.echo(f"{typed_name(manifest.resource, name)} {verb}{dry_run_suffix(dry_run)}")
