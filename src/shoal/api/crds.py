"""The CustomResourceDefinitions of our kinds, made from their types.

Everything about a kind's *shape* comes from its type; here is only what `kubectl` shows of it: short names,
columns, and by which fields it can be selected.
"""

from typing import Any, Final

import msgspec
from msgspec import inspect

from shoal.api.kinds import DIJOB, POOL, TRAININGJOB, TYJOB, Kind
from shoal.api.meta import rule
from shoal.api.pool import PoolStatus
from shoal.api.schema import Schema, schema_of
from shoal.api.trainingjob import OTHER_SPELLINGS


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; a wide one only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def definition(self) -> dict[str, Any]:
        made = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return made | ({"priority": 1} if self.wide else {})


class Shown(msgspec.Struct, frozen=True):
    """How a kind presents itself."""

    short: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    rules: tuple[dict[str, str], ...] = ()


_RULES: Final = "x-kubernetes-validations"
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_NO_SELECTOR: Final = rule(
    "self.metadata.name != 'default' || !has(self.spec) || (!has(self.spec.nodeSelector) && "
    "(!has(self.spec.nodeResources) || size(self.spec.nodeResources) == 0))",
    "the default pool has all nodes of no other pool: nodeSelector and nodeResources must be absent",
)
_SHOWN: Final = {
    DIJOB.kind: Shown(
        short="dijob",
        columns=(
            Column("Phase", ".status.phase"),
            Column("Replicas", ".status.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
            Column("Restarts", ".status.generation", "integer"),
            Column("Group", ".spec.group", wide=True),
            Column("Priority", ".spec.priority", wide=True),
            _AGE,
        ),
        selectable=(".status.phase",),
    ),
    TYJOB.kind: Shown(
        short="tyj",
        columns=(
            Column("Stage", ".status.stage"),
            Column("Schedule", ".status.scheduleState"),
            Column("Ready", ".status.ready"),
            Column("Leader", ".status.leaderAddress"),
            Column("Priority", ".spec.priority", "integer", wide=True),
            Column("Policy", ".spec.schedulerPolicy.basicPolicy", wide=True),
            _AGE,
        ),
        selectable=(".status.stage", ".status.scheduleState"),
    ),
    TRAININGJOB.kind: Shown(
        short="tj",
        columns=(
            Column("Phase", ".status.phase"),
            Column("Trainers", ".status.replicas.trainer.desired", "integer"),
            Column("Ready", ".status.replicas.trainer.ready", "integer"),
            Column("Min", ".spec.trainer.min-instance", "integer"),
            Column("Max", ".spec.trainer.max-instance", "integer"),
            Column("Pservers", ".status.replicas.pserver.ready", "integer", wide=True),
            Column("Score", ".status.score", "number", wide=True),
            _AGE,
        ),
        selectable=(".status.phase",),
    ),
    POOL.kind: Shown(
        short="pool",
        columns=(
            Column("Nodes", ".status.nodes", "integer"),
            Column("CPU", ".status.cpu"),
            Column("GPU", ".status.gpu"),
            Column("Memory", ".status.memory"),
            Column("Pending", ".status.pendingPods", "integer"),
            Column("Preempt", ".status.preemption", "boolean"),
            Column("Borrow", ".status.borrowing", "boolean"),
            Column("Share", ".status.sharing", "boolean"),
            _AGE,
        ),
        rules=(_NO_SELECTOR,),
    ),
}


def crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one of our kinds."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _names(kind: Kind) -> dict[str, Any]:
    """Jobs are in `kubectl get all`; everything of ours is in `kubectl get shoal`."""
    return {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [_SHOWN[kind.kind].short],
        "categories": ["all", "shoal"] if kind.namespaced else ["shoal"],
    }


def _version(kind: Kind) -> dict[str, Any]:
    shown = _SHOWN[kind.kind]
    made: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.definition() for column in shown.columns],
    }
    if shown.selectable:
        made["selectableFields"] = [{"jsonPath": path} for path in shown.selectable]
    return made | {"schema": {"openAPIV3Schema": object_schema(kind)}}


def object_schema(kind: Kind) -> Schema:
    """The schema of whole objects. Defaults are for users: nothing is filled into a status."""
    spec, required = _spec_schema(kind)
    made: Schema = {
        "type": "object",
        "description": kind.view.__doc__,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _status_schema(kind),
        },
    }
    rules = _SHOWN[kind.kind].rules
    return made | ({"required": ["spec"]} if required else {}) | ({_RULES: list(rules)} if rules else {})


def _spec_schema(kind: Kind) -> tuple[Schema, bool]:
    field = next(field for field in _fields(kind.view) if field.name == "spec")
    made = schema_of(field.type)
    if kind is TRAININGJOB:
        properties = made["properties"]
        properties |= {other: properties[plain] for other, plain in OTHER_SPELLINGS.items()}
    return made, field.required


def _status_schema(kind: Kind) -> Schema:
    """The schema of the status, which Shoal writes; a pool's is not read back, so its view has none."""
    types = {field.name: field.type for field in _fields(kind.view)}
    info = types.get("status") or inspect.type_info(PoolStatus)
    return schema_of(info, defaults=False)


def _fields(view: type[Any]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(view)
    return info.fields if isinstance(info, inspect.StructType) else ()
