"""Completion at the prompt: kinds, names, namespaces and contexts, from the cluster that is meant.

It happens between two keystrokes: whatever fails or takes longer than a moment completes nothing.
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
    """The contexts of the kubeconfig that is meant."""
    from shoal.cluster.kubernetes.connect import list_contexts

    return _matching(incomplete, list_contexts(str(context.params.get("kubeconfig") or "")))


def complete_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return _matching(incomplete, _names(context, "namespaces"))


def complete_targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """A kind first, then names of its objects; `KIND/` completes names too."""
    given: Sequence[str] = context.params.get(parameter.name or "") or ()
    kind, slash, name = incomplete.partition("/")
    if slash:
        return [f"{kind}/{found}" for found in _matching(name, _names(context, kind))]
    if given:
        return _matching(incomplete, _names(context, given[0]))
    *before, last = incomplete.split(",")
    return [",".join([*before, found]) for found in _matching(last, _kinds())]


def complete_names(kind: str) -> Completer:
    """Completes names of objects of one kind."""
    return lambda context, _, incomplete: _matching(incomplete, _names(context, kind))


def _kinds() -> list[str]:
    from shoal.cluster.resources import RESOURCES

    return [resource.plural for resource in RESOURCES]


def _names(context: click.Context, kind: str) -> list[str]:
    from shoal.client.client import TABLE_MEDIA_TYPE
    from shoal.cluster.errors import ClusterError

    said = context.params
    with contextlib.suppress(ClusterError, click.ClickException, OSError), _session(said) as session:
        resource = session.kinds.one(kind)
        space = session.space(resource, everywhere=bool(said.get("all_namespaces")))
        from shoal.cluster.port import Selector

        pages = session.client.pages(resource, Selector(space), accept=TABLE_MEDIA_TYPE)
        return [row["object"]["metadata"]["name"] for page in pages for row in page.get("rows") or ()]
    return []


def _session(said: dict[str, object]) -> "contextlib.AbstractContextManager[Session]":
    from shoal.cli.input.connection import default_home
    from shoal.cli.input.session import open_session

    home = said.get("home")
    return open_session(
        home if isinstance(home, Path) else default_home(),
        str(said.get("kubeconfig") or ""),
        str(said.get("context") or ""),
        str(said.get("namespace") or ""),
    )


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
