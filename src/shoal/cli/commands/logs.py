"""`shoal logs`: what containers write; of all workers of a job together."""

from typing import Any

import click

from shoal.cli.input.completing import complete_wanted
from shoal.cli.input.connection import session_option
from shoal.cli.input.options import duration, labels_option
from shoal.cli.input.session import Session


@click.command()
@click.argument("wanted", nargs=-1, metavar="POD|KIND/NAME [CONTAINER]", shell_complete=complete_wanted)
@session_option
@labels_option
@click.option("-f", "--follow", is_flag=True, help="Go on, and print what is written.")
@click.option("--tail", type=int, default=-1, metavar="LINES", help="Only the last lines of each container.")
@click.option("--since", callback=duration, default="0s", metavar="DURATION", help="Only what is newer.")
@click.option("--since-time", default="", metavar="TIME", help="Only what was written after (RFC 3339).")
@click.option("-p", "--previous", is_flag=True, help="Of the run before the last restart.")
@click.option("-c", "--container", default="", metavar="NAME", help="Of this container.")
@click.option("--all-containers", is_flag=True, help="Of all containers.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it was written.")
@click.option(
    "--prefix/--no-prefix", default=None, help="Begin each line with whose it is; if there are several."
)
@click.option(
    "--limit-bytes", type=click.IntRange(0), default=0, metavar="N", help="At most so much of each."
)
def logs(session: Session, wanted: tuple[str, ...], selector: str, **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Print what containers write.

    Of a job it prints what all its workers write, line by line in the order of time, each with the name of
    its worker in front. With -f workers that come later are followed too, until the job has ended.

    \b
    Examples:
      shoal logs web
      shoal logs web -c sidecar --tail=20 -f
      shoal logs dijob/cartpole -f               all workers
      shoal logs -l team=a --since=5m --prefix
    """
    from shoal.cli.output.weaving import Reading, print_logs

    if bool(wanted) == bool(selector):
        raise click.UsageError("name a pod or a job (KIND/NAME), or choose pods with -l")
    most = 2
    if len(wanted) > most:
        raise click.UsageError("name one pod or job, and one container")
    if len(wanted) == most:
        said["container"] = said["container"] or wanted[1]
    print_logs(session, wanted[0] if wanted else "", selector, Reading(**said))
