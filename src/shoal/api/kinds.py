"""Kinds: how objects of each kind that Shoal reads are decoded, checked and shown."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from shoal.api import core, registry
from shoal.api.decode import decode, unknown_fields
from shoal.api.fields import FieldError
from shoal.api.meta import Object, View
from shoal.api.mutability import Mutability
from shoal.api.registry import Type

DEFAULT_NAMESPACE: Final = "default"


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; a wide one is shown only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def definition(self) -> dict[str, Any]:
        """The column as an `additionalPrinterColumns` entry."""
        made = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return made | ({"priority": 1} if self.wide else {})


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
PROGRESS: Final = Column("Progress", ".status.profilings.progress", "number")
"""What the workers of a job reported, in percent."""


class Kind(Type, frozen=True, eq=False, kw_only=True):
    """One kind of object: the type that it is decoded to, its validation, and what `kubectl get` shows of it.

    `errors` yields everything that is wrong with a decoded object. `normalise` rewrites other spellings of
    fields before decoding; `other_spellings` maps them to the usual ones, for the schema. `selectable` are
    paths for field selectors, `rules` CEL rules about whole objects. `status` is the type of a status that
    Shoal writes and does not read back. `pruned_errors` checks a manifest after unknown fields were dropped.
    `mutability` says which fields of the spec may be changed later; without it all may.
    """

    view: type[Object]
    errors: Callable[[Any], Iterable[FieldError]]
    normalise: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda raw: raw
    other_spellings: Mapping[str, str] = {}
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    rules: tuple[dict[str, str], ...] = ()
    status: type[View] | None = None
    pruned_errors: Callable[[Mapping[str, Any]], Iterable[FieldError]] = lambda _: ()
    mutability: Mutability | None = None

    def warnings(self, manifest: dict[str, Any]) -> Iterable[FieldError]:  # noqa: ARG002 - a kind may have none
        """What a valid manifest says in vain."""
        return ()


def _core(group: str, kind: str, view: type[Object], errors: Callable[[Any], Iterable[FieldError]]) -> Kind:
    plural = "priorityclasses" if kind == "PriorityClass" else f"{kind.lower()}s"
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        view=view,
        errors=errors,
        namespaced=kind not in ("Node", "Namespace", "PriorityClass"),
    )


_CORE_KINDS: Final = (
    _core("", "Node", core.Node, core.node_errors),
    _core("", "Pod", core.Pod, core.pod_errors),
    _core("", "Namespace", core.Namespace, core.object_errors),
    _core("scheduling.k8s.io", "PriorityClass", core.PriorityClass, core.object_errors),
    _core("policy", "PodDisruptionBudget", core.PodDisruptionBudget, core.budget_errors),
    _core("batch", "Job", core.Job, core.job_errors),
)


@registry.cached_by_kinds
def _by_name() -> dict[tuple[str, str], Kind]:
    return {(kind.api_version, kind.kind): kind for kind in (*registry.kinds(), *_CORE_KINDS)}


def by_name() -> Mapping[tuple[str, str], Kind]:
    """All kinds that Shoal reads, by apiVersion and kind."""
    registry.kinds()  # before the cache is looked at: the first call adds the kinds of entry points
    return _by_name()


def read(kind: Kind, raw: Mapping[str, Any]) -> Object:
    """Decode and check an object; InvalidObjectError has everything that is wrong with it."""
    view = decode(kind.view, kind.normalise(raw), check=kind.errors)
    if kind.namespaced and not view.metadata.namespace:
        metadata = msgspec.structs.replace(view.metadata, namespace=DEFAULT_NAMESPACE)
        view = msgspec.structs.replace(view, metadata=metadata)
    return view


def unknown_spec_fields(kind: Kind, raw: Mapping[str, Any]) -> list[str]:
    """Paths in the spec of one of our kinds that name no field: usually typing errors."""
    plain = kind.normalise(raw)
    return [path for path in unknown_fields(kind.view, plain) if path.startswith("spec")]
