"""Registry of Shoal's own kinds: the built-in ones, and those that other packages add.

Every component that works with our kinds (API server, cache, scheduler, explain, commands) asks here; no
other module lists them. A built-in kind is a package: its `__init__` has the names (`TYPE`) and is quick to
import, its module `kind` has the implementation (`KIND`). Other packages add kinds in one of two ways:

    [project.entry-points."shoal.kinds"]        # pyproject.toml; loaded when the kinds are first asked for
    toyjob = "toy_package:KIND"

    registry.register(KIND)                     # at run time, before a cluster is opened

What is derived from the kinds (resources, schemas, tables) is cached by `cached_by_kinds`: it is computed
again after a kind was added.
"""

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from shoal.api.kinds import Kind

import msgspec

T = TypeVar("T")

GROUP: Final = "shoal.kinds"
"""The entry point group of other packages' kinds."""

_BUILT_IN: Final = ("shoal.kinds.dijob", "shoal.kinds.tyjob", "shoal.kinds.trainingjob", "shoal.kinds.pool")


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """Names and addresses of one kind. Naming a resource needs no more: commands start without any views.

    `index_label` is the label (or annotation) with the rank or index of a pod, where a job's pods have one.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_name: str = ""
    namespaced: bool = True
    index_label: str = ""

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core kinds."""
        return f"{self.group}/{self.version}" if self.group else self.version


class KindError(ValueError):
    """Raised when a kind cannot be added: its names are taken, or its package does not load."""


class _State:
    """The kinds that were added to the built-in ones."""

    def __init__(self) -> None:
        self.entry_points_loaded = False
        self.added: tuple[Kind, ...] = ()


_state: Final = _State()


def cached_by_kinds(compute: Callable[[], T]) -> Callable[[], T]:
    """Cache the result of a function until a kind is added."""
    cached: list[tuple[tuple[Kind, ...], T]] = []

    @functools.wraps(compute)
    def current() -> T:
        if not cached or cached[0][0] is not _state.added:
            added = _state.added
            cached[:] = [(added, compute())]
        return cached[0][1]

    return current


def types() -> tuple[Type, ...]:
    """The types of all kinds that are known so far, without importing their implementations.

    Kinds of entry points are among them once `kinds()` has been called.
    """
    return _types()


def kinds() -> "tuple[Kind, ...]":
    """All kinds, built-in ones first; loads the kinds of entry points when it is called first."""
    if not _state.entry_points_loaded:
        _state.entry_points_loaded = True
        _load_entry_points()
    return _kinds()


def register(kind: "Kind") -> None:
    """Add a kind; KindError if another kind has its name or its plural."""
    for other in types():
        if kind.kind == other.kind or (kind.group, kind.plural) == (other.group, other.plural):
            raise KindError(f"{kind.kind} ({kind.plural}.{kind.group}): the name is taken by {other.kind}")
    _state.added = (*_state.added, kind)


@cached_by_kinds
def _types() -> tuple[Type, ...]:
    built_in: list[Type] = [importlib.import_module(package).TYPE for package in _BUILT_IN]
    return (*built_in, *_state.added)


@cached_by_kinds
def _kinds() -> "tuple[Kind, ...]":
    built_in: list[Kind] = [importlib.import_module(f"{package}.kind").KIND for package in _BUILT_IN]
    return (*built_in, *_state.added)


def _load_entry_points() -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 15 ms that most commands do not need

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            kind = entry.load()
        except Exception as problem:
            raise KindError(
                f"kind {entry.name} ({entry.value}) does not load: {type(problem).__name__}: {problem}"
            ) from problem
        register(kind)
