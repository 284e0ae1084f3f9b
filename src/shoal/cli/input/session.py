"""The cluster that a command speaks to while it lasts, and what becomes of its refusals."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from shoal.cli.input.completion import complete_namespaces
from shoal.cli.input.connection import cluster_options, is_embedded, resolve_access
from shoal.client.client import Client
from shoal.client.errors import UnknownKindError, UnreachableError
from shoal.client.kinds import KindResolver
from shoal.cluster.errors import ClusterError, InvalidError
from shoal.cluster.kubernetes.access import AccessError
from shoal.cluster.resources import Resource

_UNREACHABLE: Final = (UnreachableError, AccessError)
"""There is nobody to speak to: the next request would fail as well."""


class Session:
    """A cluster, its kinds, and the namespace that is meant where none is said; `insists` if it was named."""

    def __init__(self, client: Client, namespace: str, *, insists: bool) -> None:
        self.client: Final = client
        self.kinds: Final = KindResolver(client)
        self.namespace: Final = namespace
        self.insists: Final = insists

    def space(self, resource: Resource[Any], *, everywhere: bool = False) -> str:
        """Where objects of a kind are looked for; nowhere in particular if they have no namespace."""
        return "" if everywhere or not resource.namespaced else self.namespace


class CommandError(click.ClickException):
    """Ends a command with the words of kubectl."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's signature
        click.echo(self.message, file=file, err=True)


@contextlib.contextmanager
def open_session(home: Path, kubeconfig: str, context: str, namespace: str) -> Iterator[Session]:
    """The cluster that is meant. Its refusals end the command with 1 and one line."""
    access = resolve_access(home, kubeconfig, context)
    client = Client(access)
    try:
        yield Session(client, namespace or access.namespace, insists=bool(namespace))
    except UnreachableError as problem:
        if not kubeconfig and not context and is_embedded(home):
            raise CommandError(f"error: {_absent(home, str(problem))}") from problem
        raise CommandError(error_text(problem)) from problem
    except ClusterError as problem:
        raise CommandError(error_text(problem)) from problem
    finally:
        client.close()


def _absent(home: Path, problem: str) -> str:
    return f"the embedded home in {home} is not running ({problem}): `shoal up -d` starts it"


def error_text(problem: ClusterError, doing: str = "") -> str:
    """An error as kubectl tells it; `doing` is what was being done."""
    said = f"{doing}{problem.message}"
    if isinstance(problem, (UnknownKindError, *_UNREACHABLE)):
        return f"error: {said}"
    if isinstance(problem, InvalidError):
        return f"The {_invalid(problem)}"
    return f"Error from server ({problem.reason}): {said}"


def _invalid(problem: InvalidError) -> str:
    """What is wrong with an object, a line for each thing if there are several."""
    if len(problem.causes) <= 1:
        return problem.message
    first = problem.message.partition(": ")[0]
    return "\n* ".join([f"{first}: ", *(f"{cause.path}: {cause.message}" for cause in problem.causes)])


class Failures:
    """Things that went wrong while others went on: said as they happen, and in the end the command fails."""

    def __init__(self) -> None:
        self.count = 0

    def say(self, line: str) -> None:
        """Say one thing that went wrong."""
        click.echo(line, err=True)
        self.count += 1

    @contextlib.contextmanager
    def noted(self, doing: str = "") -> Iterator[None]:
        """What the server refuses in here is said, and the command goes on."""
        try:
            yield
        except _UNREACHABLE:
            raise
        except ClusterError as problem:
            self.say(error_text(problem, doing))

    def end(self) -> None:
        """Exit with 1 if anything went wrong."""
        if self.count:
            raise click.exceptions.Exit(1)


def session_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a cluster and a namespace, as the one parameter `session`."""

    @functools.wraps(command)
    def connected(
        *arguments: Any,  # noqa: ANN401 - the command's own
        home: Path,
        kubeconfig: str,
        context: str,
        namespace: str,
        **more: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        from shoal.cli.input.session import open_session

        with open_session(home, kubeconfig, context, namespace) as session:
            return command(*arguments, session=session, **more)

    space = click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        shell_complete=complete_namespaces,
        help="The namespace that is meant; by default the kubeconfig's, else default.",
    )
    return cluster_options(space(connected))
