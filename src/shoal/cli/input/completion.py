"""Shell completion of kinds, names, namespaces and contexts, from the selected cluster.

It runs between two keystrokes: any error completes to nothing.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from shoal.cli.input.session import Session

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_contexts(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the contexts of the kubeconfig."""
    from shoal.cluster.kubernetes.connect import list_contexts

    return _matching(incomplete, list_contexts(str(context.params.get("kubeconfig") or "")))


def complete_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the namespaces of the cluster."""
    return _matching(incomplete, _names(context, "namespaces"))


def complete_targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a kind first, then the names of its objects; after `KIND/` names too."""
    given: Sequence[str] = context.params.get(parameter.name or "") or ()
    kind, slash, name = incomplete.partition("/")
    if slash:
        return [f"{kind}/{found}" for found in _matching(name, _names(context, kind))]
    if given:
        return _matching(incomplete, _names(context, given[0]))
    *before, last = incomplete.split(",")
    return [",".join([*before, found]) for found in _matching(last, _kinds())]


def complete_names(kind: str) -> Completer:
    """Make a completer of the names of one kind's objects."""
    return lambda context, _, incomplete: _matching(incomplete, _names(context, kind))


def _kinds() -> list[str]:
    from shoal.cluster.resources import resources

    return [resource.plural for resource in resources()]


def _names(context: click.Context, kind: str) -> list[str]:
    from shoal.client.client import TABLE_MEDIA_TYPE
    from shoal.cluster.errors import ClusterError

    params = context.params
    with contextlib.suppress(ClusterError, click.ClickException, OSError), _session(params) as session:
        resource = session.kinds.resolve_one(kind)
        space = session.namespace_for(resource, all_namespaces=bool(params.get("all_namespaces")))
        from shoal.cluster.port import Selector

        pages = session.client.pages(resource, Selector(space), accept=TABLE_MEDIA_TYPE)
        return [row["object"]["metadata"]["name"] for page in pages for row in page.get("rows") or ()]
    return []


def _session(params: dict[str, object]) -> "contextlib.AbstractContextManager[Session]":
    from shoal.cli.input.connection import default_home
    from shoal.cli.input.session import open_session

    home = params.get("home")
    return open_session(
        home if isinstance(home, Path) else default_home(),
        str(params.get("kubeconfig") or ""),
        str(params.get("context") or ""),
        str(params.get("namespace") or ""),
    )


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
