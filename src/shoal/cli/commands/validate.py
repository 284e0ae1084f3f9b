"""`shoal validate`: whether objects in files are good, and all that is wrong with those that are not."""

from collections.abc import Sequence

import click

from shoal.api.intake import Intake, title
from shoal.cli.input import files
from shoal.cli.input.filenames import files_option


@click.command()
@files_option()
@click.option("-q", "--quiet", is_flag=True, help="Print only what is wrong or doubtful.")
def validate(filenames: Sequence[str], *, recursive: bool, quiet: bool) -> None:
    """Check the objects in files.

    Every error of every object is printed on standard error, with its file, object and field. Exits with 2 if
    there is any. Kinds that Shoal does not read are skipped.
    """
    intake = files.load(filenames, recursive=recursive)
    if not quiet:
        for kind, view in intake.views:
            click.echo(f"{title(kind, view.metadata.namespace, view.metadata.name)}: valid")
        click.echo(_summary(intake))
    files.report(intake)


def _summary(intake: Intake) -> str:
    parts = [f"{len(intake.views)} valid"]
    if intake.invalid:
        parts.append(f"{intake.invalid} invalid")
    if intake.unknown:
        parts.append(f"{intake.unknown.total()} skipped")
    return ", ".join(parts)
