"""Objects in files, on their way into a cluster: read and checked, each with its kind and its namespace."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from shoal.api.intake import take
from shoal.cli.input import files
from shoal.cli.input.session import CommandError, Failures, Session
from shoal.cli.output.printing import dry_run_suffix, print_objects, typed_name
from shoal.client.errors import UnknownKindError
from shoal.cluster.resources import Object, Resource


class Manifest(msgspec.Struct, frozen=True):
    """An object in a file."""

    source: str
    resource: Resource[Object]
    namespace: str
    body: Object

    @property
    def name(self) -> str:
        """Its name; one that a server is to make up has none yet."""
        return str(self.body["metadata"].get("name") or "")


def read(session: Session, filenames: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """All objects in the files. If any is bad, everything that is wrong is said, and the command ends."""
    raws = [*files.read(filenames, recursive=recursive)]
    intake = take((source, _named(raw)) for source, raw in raws)
    files.report_problems(intake)
    failures, found = Failures(), list[Manifest]()
    for source, raw in raws:
        try:
            found.append(_manifest(session, source, dict(raw)))  # type: ignore[call-overload] # taken in
        except (UnknownKindError, CommandError) as problem:
            failures.say(f"error: {source}: {problem}")
    failures.end()
    return found


def _named(raw: object) -> object:
    """An object that is given a name when it is made is checked as if it had one."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(metadata, Mapping) or metadata.get("name"):
        return raw
    made_up = metadata.get("generateName")
    return {**raw, "metadata": {**metadata, "name": f"{made_up}x"}} if isinstance(made_up, str) else raw


def _manifest(session: Session, source: str, body: Object) -> Manifest:
    resource = session.kinds.of(body["apiVersion"], body["kind"])
    metadata: dict[str, Any] = dict(body.get("metadata") or {})
    if not metadata.get("name") and not metadata.get("generateName"):
        raise CommandError("metadata.name: is required")
    if not resource.namespaced:
        return Manifest(source, resource, "", {**body, "metadata": metadata})
    said = metadata.get("namespace") or session.namespace
    if session.insists and said != session.namespace:
        raise CommandError(
            f"metadata.namespace: is {said}, and -n says {session.namespace}: leave one of them away"
        )
    return Manifest(source, resource, said, {**body, "metadata": {**metadata, "namespace": said}})


def print_result(manifest: Manifest, made: Object, done: str, *, output: str, dry_run: str) -> None:
    """Print what was made of an object, or that it was."""
    if output:
        print_objects([(manifest.resource, made)], output, single=True)
        return
    name = made["metadata"].get("name") or manifest.name
    click.echo(f"{typed_name(manifest.resource, name)} {done}{dry_run_suffix(dry_run)}")
