"""`shoal exec`: a command run in a container."""

from collections.abc import Sequence

import click

from shoal.cli import containers
from shoal.cli.completing import names_of
from shoal.cli.connection import session_option
from shoal.cli.naming import one
from shoal.cli.session import Session
from shoal.cluster.resources import PODS


@click.command("exec")
@click.argument("pod", metavar="POD", shell_complete=names_of("pods"))
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]..."
)
@session_option
@click.option("-c", "--container", default="", metavar="NAME", help="The container; by default the first.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
def exec_(  # noqa: PLR0913 - one parameter an option
    session: Session, pod: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> None:
    r"""Run a command in a container of a pod; exits as the command does.

    \b
    Examples:
      shoal exec web -- ls -l /tmp
      shoal exec -it web -- sh
      shoal exec -i web -c sidecar -- tee /tmp/file < file
    """
    resource, name = one(session, [pod]) if "/" in pod else (PODS, pod)
    if resource is not PODS:
        raise click.UsageError(f"'{pod}' is not a pod")
    if not container:
        container = containers.usual(session.client.get(PODS, name, session.namespace))
    code = _execute(session, name, command, container=container, stdin=stdin, tty=tty)
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise click.exceptions.Exit(code)


def _execute(  # noqa: PLR0913 - what to run where, and how it is connected
    session: Session, pod: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> int:
    import asyncio

    from shoal.cli.terminal import converse
    from shoal.client.streams import executing

    http = session.client.http
    credentials = http.credentials()
    options: dict[str, str | bool] = {
        "container": container,
        "stdin": stdin,
        "stdout": True,
        "stderr": not tty,
        "tty": tty,
    }

    async def run() -> int:
        async with executing(http, credentials, session.namespace, pod, command, **options) as stream:
            return await converse(stream, stdin=stdin, tty=tty)

    return asyncio.run(run())
