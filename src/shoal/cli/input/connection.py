"""`--kubeconfig`, `--context`, `--home` and `-n`, as kubectl has them: which cluster is meant."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shoal.cli.input.completion import complete_contexts

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access

_F = TypeVar("_F", bound=Callable[..., Any])
_HINT: Final = "; `shoal up` starts a cluster, --kubeconfig names one"


def cluster_options(command: _F) -> _F:
    """Give a command the options that name a cluster: parameters `home`, `kubeconfig` and `context`."""
    file = click.option(
        "--kubeconfig", default="", metavar="FILE", help="The kubeconfig of the cluster to speak to."
    )
    context = click.option(
        "--context",
        default="",
        metavar="NAME",
        shell_complete=complete_contexts,
        help="The context of the kubeconfig to use.",
    )
    return home_option(file(context(command)))


def resolve_access(home: Path, kubeconfig: str, context: str) -> "Access":
    """The way to the cluster that is meant: the one that is named, else the embedded home's, else as kubectl.

    Exits with 1 and one line if there is none.
    """
    from shoal.cluster.kubernetes.access import AccessError
    from shoal.cluster.kubernetes.connect import find_access

    if not kubeconfig and not context:
        if is_embedded(home):
            kubeconfig = str(home / "kubeconfig")
        elif home != default_home():  # whoever names one means no other cluster
            raise click.ClickException(
                f"{home} is not an embedded home: `shoal up -d --home {home}` makes it one"
            )
    try:
        return find_access(kubeconfig, context)
    except AccessError as problem:
        hint = "" if kubeconfig or context else _HINT
        raise click.ClickException(f"{problem}{hint}") from None


def is_embedded(home: Path) -> bool:
    """Whether there is an embedded home in a directory."""
    return (home / "kubeconfig").exists()


_F = TypeVar("_F", bound=Callable[..., Any])


def home_option(command: _F) -> _F:
    """Give a command the option `--home`, as the parameter `home`."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_home,
        metavar="DIR",
        help="Where the embedded home keeps its state; by default $SHOAL_HOME, else ~/.shoal.",
    )(command)


def default_home() -> Path:
    """Where it is if nobody says."""
    return Path(os.environ.get("SHOAL_HOME") or "~/.shoal").expanduser()
