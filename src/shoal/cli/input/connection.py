"""`--kubeconfig`, `--context` and `--home`: the options that select a cluster, as in kubectl."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shoal.cli.input.completion import complete_contexts

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access

_F = TypeVar("_F", bound=Callable[..., Any])
_HINT: Final = "; start a cluster with `shoal up`, or name one with --kubeconfig"


def cluster_options(command: _F) -> _F:
    """Add the options that select a cluster: parameters `home`, `kubeconfig` and `context`."""
    kubeconfig_option = click.option(
        "--kubeconfig", default="", metavar="FILE", help="Path of the kubeconfig file."
    )
    context_option = click.option(
        "--context",
        default="",
        metavar="NAME",
        shell_complete=complete_contexts,
        help="Name of the kubeconfig context to use.",
    )
    return home_option(kubeconfig_option(context_option(command)))


def home_option(command: _F) -> _F:
    """Add the option `--home`, as the parameter `home`."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_home,
        metavar="DIR",
        help="State directory of the embedded cluster; default $SHOAL_HOME, else ~/.shoal.",
    )(command)


def default_home() -> Path:
    """State directory of the embedded cluster when `--home` is not given."""
    return Path(os.environ.get("SHOAL_HOME") or "~/.shoal").expanduser()


def resolve_access(home: Path, kubeconfig: str, context: str) -> "Access":
    """Find the cluster to use: the named one, else the embedded cluster, else as kubectl does.

    Exits with 1 and one line if there is none.
    """
    from shoal.cluster.kubernetes.access import AccessError
    from shoal.cluster.kubernetes.connect import find_access

    if not kubeconfig and not context:
        if is_embedded(home):
            kubeconfig = str(home / "kubeconfig")
        elif home != default_home():  # an explicit --home must never select another cluster
            raise click.ClickException(
                f"{home} is not an embedded home; create one with `shoal up -d --home {home}`"
            )
    try:
        return find_access(kubeconfig, context)
    except AccessError as problem:
        hint = "" if kubeconfig or context else _HINT
        raise click.ClickException(f"{problem}{hint}") from None


def is_embedded(home: Path) -> bool:
    """Whether a directory holds the state of an embedded cluster."""
    return (home / "kubeconfig").exists()
