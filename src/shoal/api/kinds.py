"""The table of kinds: what Shoal reads, and what it makes of each."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from shoal.api import batch, core, dijob, pool, trainingjob, tyjob, types
from shoal.api.decode import decode, unknown_fields
from shoal.api.fields import FieldError
from shoal.api.meta import Object

DEFAULT_NAMESPACE: Final = "default"


class Kind(types.Type, frozen=True, kw_only=True):
    """One kind of object, and what is made of it."""

    view: type[Object]
    errors: Callable[[Any], Iterable[FieldError]]
    normalise: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda raw: raw


DIJOB: Final = Kind(**msgspec.structs.asdict(types.DIJOB), view=dijob.DIJob, errors=dijob.dijob_errors)
TYJOB: Final = Kind(**msgspec.structs.asdict(types.TYJOB), view=tyjob.TYJob, errors=tyjob.tyjob_errors)
TRAININGJOB: Final = Kind(
    **msgspec.structs.asdict(types.TRAININGJOB),
    view=trainingjob.TrainingJob,
    errors=trainingjob.trainingjob_errors,
    normalise=trainingjob.normalise,
)
POOL: Final = Kind(**msgspec.structs.asdict(types.POOL), view=pool.Pool, errors=pool.pool_errors)
OWN_KINDS: Final = (DIJOB, TYJOB, TRAININGJOB, POOL)
_CORE_KINDS: Final = (
    Kind(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        view=core.Node,
        errors=core.node_errors,
        namespaced=False,
    ),
    Kind(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        view=core.Pod,
        errors=core.pod_errors,
    ),
    Kind(
        group="",
        version="v1",
        kind="Namespace",
        plural="namespaces",
        view=core.Namespace,
        errors=core.plain_errors,
        namespaced=False,
    ),
    Kind(
        group="scheduling.k8s.io",
        version="v1",
        kind="PriorityClass",
        plural="priorityclasses",
        view=core.PriorityClass,
        errors=core.plain_errors,
        namespaced=False,
    ),
    Kind(
        group="policy",
        version="v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        view=core.PodDisruptionBudget,
        errors=core.budget_errors,
    ),
    Kind(
        group="batch",
        version="v1",
        kind="Job",
        plural="jobs",
        view=batch.Job,
        errors=batch.job_errors,
    ),
)
KINDS: Final = {(kind.api_version, kind.kind): kind for kind in (*OWN_KINDS, *_CORE_KINDS)}


def read(kind: Kind, raw: Mapping[str, Any]) -> Object:
    """The object as its view, checked; InvalidObjectError with everything that is wrong otherwise."""
    view = decode(kind.view, kind.normalise(raw), check=kind.errors)
    if kind.namespaced and not view.metadata.namespace:
        metadata = msgspec.structs.replace(view.metadata, namespace=DEFAULT_NAMESPACE)
        view = msgspec.structs.replace(view, metadata=metadata)
    return view


def unknown_spec_fields(kind: Kind, raw: Mapping[str, Any]) -> list[str]:
    """Paths in the spec of one of our kinds that mean nothing to us: often a slip of the keyboard."""
    plain = kind.normalise(raw)
    return [path for path in unknown_fields(kind.view, plain) if path.startswith("spec")]
