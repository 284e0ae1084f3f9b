"""`--kubeconfig` and `--context`, as kubectl has them: which cluster is meant."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shoal.cli.places import home_option

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access

_F = TypeVar("_F", bound=Callable[..., Any])
_HINT: Final = "; `shoal up` starts a cluster, --kubeconfig names one"


def options(command: _F) -> _F:
    """Give a command the options that name a cluster: parameters `home`, `kubeconfig` and `context`."""
    file = click.option(
        "--kubeconfig", default="", metavar="FILE", help="The kubeconfig of the cluster to speak to."
    )
    context = click.option(
        "--context", default="", metavar="NAME", help="The context of the kubeconfig to use."
    )
    return home_option(file(context(command)))


def find(home: Path, kubeconfig: str, context: str) -> "Access":
    """The way to the cluster that is meant: the one that is named, else the embedded home's, else as kubectl.

    Exits with 1 and one line if there is none.
    """
    from shoal.cluster.kubernetes.access import AccessError
    from shoal.cluster.kubernetes.connect import find_access

    embedded = home / "kubeconfig"
    if not kubeconfig and not context and embedded.exists():
        kubeconfig = str(embedded)
    try:
        return find_access(kubeconfig, context)
    except AccessError as problem:
        hint = "" if kubeconfig or context else _HINT
        raise click.ClickException(f"{problem}{hint}") from None
