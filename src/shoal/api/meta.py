"""What every object has: a type, metadata, owners.

The structs of `shoal.api` are typed, read-only *views*: they hold what Shoal reads, and nothing is ever
written back from them. The object itself stays the mapping it came as, so no field is lost on the way.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from shoal.api.fields import FieldError
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors

Time = Annotated[datetime, msgspec.Meta(tz=True)]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Any number, as wide as Kubernetes has it."""

Seconds = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
"""A length of time of up to thirty years."""

Deadline = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""Seconds after which something is too late."""

MAX_PODS: Final = 100_000
"""How many pods a job may have; more is a slip of the keyboard."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_PODS)]
"""How many of something."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_PODS)]
"""How many of something that must be there."""


def description(text: str, limits: Mapping[str, Any] | None = None, **schema: Any) -> msgspec.Meta:  # noqa: ANN401 - as JSON has it
    """A description of a field, which `kubectl explain` shows, and more for its schema in the CRD.

    `limits` are only for the API server; our own validation says the same with better words. In the names of
    what is more, `_` stands for `-`, and `x-kubernetes-` is left out.
    """
    extra = {f"x-kubernetes-{name.replace('_', '-')}": value for name, value in schema.items()}
    return msgspec.Meta(description=text, extra_json_schema=extra | dict(limits or {}))


def cel_rule(expression: str, message: str) -> dict[str, str]:
    """One rule, in CEL, that the API server holds an object to."""
    return {"rule": expression, "message": message}


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all views: immutable, keys in camel case as in YAML."""


class OwnerReference(View, frozen=True, kw_only=True):
    """Who made an object."""

    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class PartialObjectMeta(View, frozen=True, kw_only=True):
    """`metadata` without what people write on an object: who it is, whose, and since when."""

    name: str
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class ObjectMeta(PartialObjectMeta, frozen=True, kw_only=True):
    """`metadata` of any object."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Condition(View, frozen=True, kw_only=True):
    """One entry of `status.conditions`."""

    type: Annotated[str, description("What the condition is about.")]
    status: Annotated[str, description("True, False or Unknown.")]
    reason: Annotated[str, description("Why, in one word.")] = ""
    message: Annotated[str, description("Why, for people.")] = ""
    last_transition_time: Annotated[Time | None, description("When the status changed last.")] = None


class ScaleRecord(View, frozen=True, kw_only=True):
    """One change of a job's size."""

    time: Time
    from_: Int32 = msgspec.field(name="from")
    to: Int32
    reason: str = ""


class Object(View, frozen=True, kw_only=True):
    """Base of the views of whole objects."""

    metadata: ObjectMeta


Conditions = Annotated[
    tuple[Condition, ...],
    description("What is known about the object.", list_type="map", list_map_keys=["type"]),
]


def metadata_errors(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Complain about names and labels that Kubernetes would refuse."""
    yield from dns_subdomain_errors(metadata.name, "metadata.name")
    if metadata.namespace:
        yield from dns_label_errors(metadata.namespace, "metadata.namespace")
    yield from labels_errors(metadata.labels, "metadata.labels")
