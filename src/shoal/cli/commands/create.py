"""`shoal create`: the objects in files, made anew."""

from collections.abc import Sequence

import click

from shoal.cli.input import manifests
from shoal.cli.input.connection import session_option
from shoal.cli.input.filenames import files_option
from shoal.cli.input.options import dry_run_option
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.printing import output_option


@click.command()
@files_option()
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
            manifests.say(manifest, made, "created", output=output, dry_run=dry_run)
    failures.end()
