"""`shoal apply`: objects made as files say, or changed so."""

from collections.abc import Sequence

import click

from shoal.cli import manifests
from shoal.cli.connection import session_option
from shoal.cli.filenames import files_option
from shoal.cli.options import dry_run_option
from shoal.cli.printing import output_option
from shoal.cli.session import Failures, Session


@click.command()
@files_option()
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
    from shoal.cli.applying import apply_one

    failures = Failures()
    for manifest in manifests.read(session, filenames, recursive=recursive):
        with failures.noted(f'error when applying "{manifest.source}": '):
            made, done = apply_one(session.client, manifest, dry_run)
            manifests.say(manifest, made, done, output=output, dry_run=dry_run)
    failures.end()
