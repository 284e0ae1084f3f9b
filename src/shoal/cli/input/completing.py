"""Completion at the prompt: kinds, names, namespaces and contexts, from the cluster that is meant.

It happens between two keystrokes: whatever fails or takes longer than a moment completes nothing.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.input.places import usual_home

if TYPE_CHECKING:
    from shoal.cli.input.session import Session

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_contexts(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig that is meant."""
    from shoal.cluster.kubernetes.connect import contexts

    return _starting(incomplete, contexts(str(context.params.get("kubeconfig") or "")))


def complete_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return _starting(incomplete, _names(context, "namespaces"))


def complete_wanted(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """A kind first, then names of its objects; `KIND/` completes names too."""
    given: Sequence[str] = context.params.get(parameter.name or "") or ()
    kind, slash, name = incomplete.partition("/")
    if slash:
        return [f"{kind}/{found}" for found in _starting(name, _names(context, kind))]
    if given:
        return _starting(incomplete, _names(context, given[0]))
    *before, last = incomplete.split(",")
    return [",".join([*before, found]) for found in _starting(last, _kinds())]


def names_of(kind: str) -> Completer:
    """Completes names of objects of one kind."""
    return lambda context, _, incomplete: _starting(incomplete, _names(context, kind))


def _kinds() -> list[str]:
    from shoal.cluster.resources import RESOURCES

    return [resource.plural for resource in RESOURCES]


def _names(context: click.Context, kind: str) -> list[str]:
    from shoal.client.client import TABLE
    from shoal.cluster.errors import ClusterError

    said = context.params
    with contextlib.suppress(ClusterError, click.ClickException, OSError), _session(said) as session:
        resource = session.kinds.one(kind)
        space = session.space(resource, everywhere=bool(said.get("all_namespaces")))
        from shoal.cluster.port import Where

        pages = session.client.pages(resource, Where(space), accept=TABLE)
        return [row["object"]["metadata"]["name"] for page in pages for row in page.get("rows") or ()]
    return []


def _session(said: dict[str, object]) -> "contextlib.AbstractContextManager[Session]":
    from shoal.cli.input.session import opened

    home = said.get("home")
    return opened(
        home if isinstance(home, Path) else usual_home(),
        str(said.get("kubeconfig") or ""),
        str(said.get("context") or ""),
        str(said.get("namespace") or ""),
    )


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
