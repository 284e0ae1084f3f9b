"""Metadata, owner references, conditions and field types that all kinds share.

The structs of `shoal.api` are typed, read-only *views*: they have only the fields that Shoal reads, and are
never written back. The object itself stays the mapping that it was read as, so no field is lost.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from shoal.api.fields import FieldError
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors

Time = Annotated[datetime, msgspec.Meta(tz=True)]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A 32-bit integer, as in Kubernetes."""

Seconds = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
"""A duration in seconds, of at most about thirty years."""

Deadline = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""A deadline in seconds after a start; at least 1."""

MAX_PODS: Final = 100_000
"""Maximum number of pods of a job; a larger number is taken for a typing error."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_PODS)]
"""A number of pods; may be 0."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_PODS)]
"""A number of pods; at least 1."""


def description(text: str, limits: Mapping[str, Any] | None = None, **schema: Any) -> msgspec.Meta:  # noqa: ANN401 - as JSON has it
    """Description of a field for `kubectl explain`, and additions to its schema in the CRD.

    `limits` are schema keywords for the API server only; Shoal's own validation checks the same with clearer
    messages. `schema` are `x-kubernetes-` extensions, without this prefix and with `_` for `-`:
    `list_type="map"` becomes `x-kubernetes-list-type: map`.
    """
    extra = {f"x-kubernetes-{name.replace('_', '-')}": value for name, value in schema.items()}
    return msgspec.Meta(description=text, extra_json_schema=extra | dict(limits or {}))


def cel_rule(expression: str, message: str) -> dict[str, str]:
    """Validation rule in CEL, which the API server evaluates for every write (`x-kubernetes-validations`)."""
    return {"rule": expression, "message": message}


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all typed views: immutable; fields are in camel case in YAML and JSON."""


class OwnerReference(View, frozen=True, kw_only=True):
    """Reference to an owner of an object, such as the job of a pod."""

    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class PartialObjectMeta(View, frozen=True, kw_only=True):
    """`metadata` without labels and annotations: identity, times and owners."""

    name: str
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class ObjectMeta(PartialObjectMeta, frozen=True, kw_only=True):
    """`metadata` of any object."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Condition(View, frozen=True, kw_only=True):
    """One entry of `status.conditions`."""

    type: Annotated[str, description("Type of the condition.")]
    status: Annotated[str, description("True, False or Unknown.")]
    reason: Annotated[str, description("Reason of the last change, in one CamelCase word.")] = ""
    message: Annotated[str, description("Explanation in plain text.")] = ""
    last_transition_time: Annotated[Time | None, description("Time of the last change of the status.")] = None


class ScaleRecord(View, frozen=True, kw_only=True):
    """One change of the number of a job's replicas."""

    time: Time
    from_: Int32 = msgspec.field(name="from")
    to: Int32
    reason: str = ""


class Object(View, frozen=True, kw_only=True):
    """Base of the views of complete objects."""

    metadata: ObjectMeta


Conditions = Annotated[
    tuple[Condition, ...],
    description("Conditions of the object.", list_type="map", list_map_keys=["type"]),
]


MAX_JOB_NAME: Final = 170
"""Maximum length of a job's name: the names of its pods, which begin with it, must fit too."""

JOB_NAME_RULE: Final = cel_rule(
    f"self.metadata.name.size() <= {MAX_JOB_NAME}", f"name must have at most {MAX_JOB_NAME} characters"
)


def job_metadata_errors(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Yield errors for the metadata of one of our job kinds."""
    yield from metadata_errors(metadata)
    if len(metadata.name) > MAX_JOB_NAME:
        message = f"must have at most {MAX_JOB_NAME} characters in a job, not {len(metadata.name)}"
        yield FieldError("metadata.name", message)


def metadata_errors(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Yield errors for names and labels that Kubernetes rejects."""
    yield from dns_subdomain_errors(metadata.name, "metadata.name")
    if metadata.namespace:
        yield from dns_label_errors(metadata.namespace, "metadata.namespace")
    yield from labels_errors(metadata.labels, "metadata.labels")
