"""A command's session with a cluster, and how the cluster's errors are reported."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from shoal.cli.input.completion import complete_namespaces
from shoal.cli.input.connection import cluster_options, is_embedded, resolve_access
from shoal.client.client import Client, UnknownKindError
from shoal.client.connection import UnreachableError
from shoal.client.kind_resolver import KindResolver
from shoal.cluster.errors import ClusterError, InvalidError
from shoal.cluster.kubernetes.access import AccessError
from shoal.cluster.resources import Resource

_UNREACHABLE: Final = (UnreachableError, AccessError)
"""Errors after which the next request would fail as well."""


class Session:
    """A client, the kinds of its cluster, and the default namespace.

    `namespace_given` is true if the namespace was named on the command line.
    """

    def __init__(self, client: Client, namespace: str, *, namespace_given: bool) -> None:
        self.client: Final = client
        self.kinds: Final = KindResolver(client)
        self.namespace: Final = namespace
        self.namespace_given: Final = namespace_given

    def namespace_for(self, resource: Resource[Any], *, all_namespaces: bool = False) -> str:
        """Namespace to look in for objects of a kind; empty for all, and for cluster-scoped kinds."""
        return "" if all_namespaces or not resource.namespaced else self.namespace


class CommandError(click.ClickException):
    """Ends a command with exit code 1 and a message that is printed as it is."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's signature
        click.echo(self.message, file=file, err=True)


@contextlib.contextmanager
def open_session(home: Path, kubeconfig: str, context: str, namespace: str) -> Iterator[Session]:
    """Connect to the selected cluster. Its errors end the command with 1 and one line."""
    access = resolve_access(home, kubeconfig, context)
    client = Client(access)
    try:
        yield Session(client, namespace or access.namespace, namespace_given=bool(namespace))
    except UnreachableError as problem:
        if not kubeconfig and not context and is_embedded(home):
            raise CommandError(f"error: {_not_running(home, str(problem))}") from problem
        raise CommandError(error_text(problem)) from problem
    except ClusterError as problem:
        raise CommandError(error_text(problem)) from problem
    finally:
        client.close()


def session_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a cluster and a namespace, as the single parameter `session`."""

    @functools.wraps(command)
    def with_session(
        *arguments: Any,  # noqa: ANN401 - the command's own
        home: Path,
        kubeconfig: str,
        context: str,
        namespace: str,
        **more: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        with open_session(home, kubeconfig, context, namespace) as session:
            return command(*arguments, session=session, **more)

    namespace_option = click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        shell_complete=complete_namespaces,
        help="Namespace to use; default that of the kubeconfig, else default.",
    )
    return cluster_options(namespace_option(with_session))


def _not_running(home: Path, problem: str) -> str:
    return f"the embedded home in {home} is not running ({problem}): `shoal up -d` starts it"


def error_text(problem: ClusterError, action: str = "") -> str:
    """Format an error as kubectl does; `action` says what was being done."""
    text = f"{action}{problem.message}"
    if isinstance(problem, (UnknownKindError, *_UNREACHABLE)):
        return f"error: {text}"
    if isinstance(problem, InvalidError):
        return f"The {_invalid_text(problem)}"
    return f"Error from server ({problem.reason}): {text}"


def _invalid_text(problem: InvalidError) -> str:
    """Format the causes of an invalid object, one per line if there are several."""
    if len(problem.causes) <= 1:
        return problem.message
    first = problem.message.partition(": ")[0]
    return "\n* ".join([f"{first}: ", *(f"{cause.path}: {cause.message}" for cause in problem.causes)])


class Failures:
    """Counts errors of single objects: each is printed at once, and the command exits with 1 at the end."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, line: str) -> None:
        """Print an error and count it."""
        click.echo(line, err=True)
        self.count += 1

    @contextlib.contextmanager
    def catch(self, action: str = "") -> Iterator[None]:
        """Report errors of the server raised in the block, and continue after it."""
        try:
            yield
        except _UNREACHABLE:
            raise
        except ClusterError as problem:
            self.report(error_text(problem, action))

    def exit_if_any(self) -> None:
        """Exit with 1 if any error was reported."""
        if self.count:
            raise click.exceptions.Exit(1)
