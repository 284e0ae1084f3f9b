"""Strategies: the hooks and flags with which a kind differs from others, and the rules of all metadata."""

import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child, shown
from shoal.api.meta import View
from shoal.api.mutability import IMMUTABLE
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors, qualified_name_errors
from shoal.apiserver.registry.records import Record
from shoal.cluster.errors import InvalidError
from shoal.cluster.resources import Object, Resource
from shoal.cluster.times import format_time


class ObjectReader(Protocol):
    """Read access of strategies to other objects, including pending writes."""

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """Return the objects of a resource, optionally of one namespace."""


def _no_change(_: Object) -> None:
    """Leave the object unchanged."""


def _no_update(_new: Object, _old: Object) -> None:
    """Leave the updated object unchanged."""


def _always_valid(_: Object) -> Iterable[FieldError]:
    return ()


def _update_always_valid(_new: Object, _old: Object) -> Iterable[FieldError]:
    return ()


def _admit_all(_obj: Object, _old: Object | None, _reader: ObjectReader) -> None:
    """Admit every object."""


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one resource. Hooks that set fields modify the object in place.

    `default` sets omitted fields on every write; `derive` sets fields that depend on other objects, before
    validation; `prepare_for_create` and `prepare_for_update` set fields that clients cannot. `validate`
    returns the errors of an object, `validate_update` those of a change; `admit` may refuse an object
    because of other objects, after validation.
    """

    resource: Resource[Any]
    default: Callable[[Object], None] = _no_change
    prepare_for_create: Callable[[Object], None] = _no_change
    prepare_for_update: Callable[[Object, Object], None] = _no_update
    derive: Callable[[Object, Object | None, ObjectReader], None] = _admit_all
    admit: Callable[[Object, Object | None, ObjectReader], None] = _admit_all
    validate: Callable[[Object], Iterable[FieldError]] = _always_valid
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = _update_always_valid
    allow_status_on_create: bool = False
    """The status of a new object is kept."""
    custom_resource: bool = False
    """Defined by one of our CRDs: pruned by its schema, and status writes leave metadata alone."""
    bump_generation: bool = True
    """Increment the generation, if the resource has one, with every change of the spec."""
    allow_unconditional_update: bool = True
    """Updates without a resource version are accepted."""
    allow_create_on_update: bool = False
    """An update of an object that does not exist creates it."""
    allow_unqualified_finalizers: bool = False
    """Finalizers without a domain are accepted."""
    orphan_by_default: bool = False
    """Dependents are orphaned unless the delete options say otherwise."""
    graceful_deletion: bool = False
    """Deletion waits for the object's grace period."""
    check_delete: Callable[[Object], None] | None = None
    """Raises if the object must not be deleted."""
    prepare_for_delete: Callable[[Object], None] | None = None
    """Sets fields when the deletion starts."""
    blocks_deletion: Callable[[Object], bool] | None = None
    """Whether something other than metadata.finalizers blocks the deletion."""

    @property
    def kind(self) -> str:
        """The kind as in error messages: `Job.batch`."""
        return f"{self.resource.kind}.{self.resource.group}" if self.resource.group else self.resource.kind

    def describe(self, name: str) -> str:
        """The object as in error messages: `pods "a"`."""
        return f'{self.resource.full_name} "{name}"'

    def conflict_prefix(self, name: str) -> str:
        """Start of the message of a conflict."""
        return f"Operation cannot be fulfilled on {self.describe(name)}"

    def raise_if_invalid(self, name: str, errors: Iterable[FieldError]) -> None:
        """Raise InvalidError if there are errors."""
        found = list(errors)
        if found:
            raise self.invalid_error(name, InvalidObjectError(found).errors)

    def invalid_error(self, name: str, errors: list[FieldError]) -> InvalidError:
        """Return an InvalidError that lists all errors."""
        text = ", ".join(map(str, errors))
        return InvalidError(
            f'{self.kind} "{name}" is invalid: {text if len(errors) == 1 else f"[{text}]"}', causes=errors
        )


def immutable_errors(new: Object, old: Object, *fields: str) -> Iterator[FieldError]:
    """Yield an error for each field that changed; a field is a path such as `spec.selector`."""
    for path in fields:
        if _value_at(new, path) != _value_at(old, path):
            yield FieldError(path, IMMUTABLE)


def _value_at(obj: object, path: str) -> object:
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def timestamp(seconds: float) -> str:
    """Format seconds since 1970 as a Kubernetes timestamp; cached, as many writes fall into one second."""
    return _timestamp_of_second(int(seconds))


_timestamp_of_second: Final = functools.lru_cache(maxsize=16)(format_time)


_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_NAME_LENGTH: Final = 63
_MAX_ANNOTATION_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_SERVER_SET_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
"""Fields that the server sets: dropped from new objects."""
_UID_MASK: Final = ~(0xF << 76 | 0xC << 60)
_UID_VERSION: Final = 0x4 << 76 | 0x8 << 60
_IMMUTABLE_FIELDS: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Fields that an update may omit but not change."""
_SERVER_OWNED_FIELDS: Final = ("creationTimestamp", "generation")
"""Fields whose value in an update is ignored."""
_KINDS_WITHOUT_DEPENDENTS: Final = {("v1", "Event"), ("events.k8s.io/v1", "Event")}
_OMITTED_WHEN_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences")


class _OwnerReference(View, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(View, frozen=True, kw_only=True):
    """Metadata: the fields that are validated."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_OwnerReference, ...] = ()


def generate_name(prefix: str, rng: random.Random) -> str:
    """Return the prefix with a random suffix, as for metadata.generateName."""
    suffix = "".join(rng.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))
    return prefix[: _MAX_NAME_LENGTH - _SUFFIX_LENGTH] + suffix


def prepare_metadata_create(metadata: Object, now: float, rng: random.Random, *, generation: bool) -> None:
    """Set uid, creation timestamp and generation of a new object."""
    for field in _SERVER_SET_FIELDS:
        metadata.pop(field, None)
    metadata["uid"] = _format_uid(rng.getrandbits(128))
    metadata["creationTimestamp"] = timestamp(now)
    if generation:
        metadata["generation"] = 1
    drop_empty_fields(metadata)


def _format_uid(number: int) -> str:
    """Format a number as a version 4 UUID; several times faster than `uuid.UUID`."""
    text = f"{number & _UID_MASK | _UID_VERSION:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def prepare_metadata_update(metadata: Object, old: Object) -> None:
    """Copy the server-set fields of the stored object into an updated one."""
    metadata.pop("selfLink", None)
    metadata.pop("managedFields", None)
    for field in _IMMUTABLE_FIELDS:
        if not metadata.get(field) and field in old:
            metadata[field] = old[field]
    for field in _SERVER_OWNED_FIELDS:
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]
    drop_empty_fields(metadata)


def drop_empty_fields(metadata: Object) -> None:
    """Drop null fields and empty maps and lists: no labels and empty labels are the same."""
    for field in [name for name, value in metadata.items() if value is None]:
        del metadata[field]
    for field in _OMITTED_WHEN_EMPTY:
        if field in metadata and not metadata[field]:
            del metadata[field]


def metadata_errors(
    metadata: Any,  # noqa: ANN401 - whatever was sent
    *,
    name_is_dns_label: bool = False,
    allow_unqualified_finalizers: bool = False,
) -> list[FieldError]:
    """Return all errors of metadata; with `name_is_dns_label` the name must be a single DNS label."""

    def found(view: _Metadata) -> Iterator[FieldError]:
        yield from _errors(view, name_is_dns_label=name_is_dns_label)
        if not allow_unqualified_finalizers:
            yield from _unqualified_finalizer_errors(view.finalizers)

    try:
        decode(_Metadata, metadata, "metadata", found)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _errors(view: _Metadata, *, name_is_dns_label: bool) -> Iterator[FieldError]:
    yield from (dns_label_errors if name_is_dns_label else dns_subdomain_errors)(view.name, "metadata.name")
    if view.namespace:
        yield from dns_label_errors(view.namespace, "metadata.namespace")
    yield from labels_errors(view.labels, "metadata.labels")
    for key in view.annotations:
        yield from qualified_name_errors(key.lower(), child("metadata.annotations", key))
    if sum(len(k.encode()) + len(v.encode()) for k, v in view.annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield FieldError(
            "metadata.annotations", f"Too long: may not be more than {_MAX_ANNOTATION_BYTES} bytes"
        )
    yield from _finalizer_errors(view.finalizers)
    yield from _owner_errors(view.owner_references)


def _finalizer_errors(finalizers: tuple[str, ...]) -> Iterator[FieldError]:
    for i, name in enumerate(finalizers):
        yield from qualified_name_errors(name, f"metadata.finalizers[{i}]")
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield FieldError("metadata.finalizers", "orphan and foregroundDeletion cannot both be set")


def _unqualified_finalizer_errors(finalizers: tuple[str, ...]) -> Iterator[FieldError]:
    for i, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            message = f"'{shown(name)}' must be a standard finalizer or have a domain, such as a.b/c"
            yield FieldError(f"metadata.finalizers[{i}]", message)


def _owner_errors(owners: tuple[_OwnerReference, ...]) -> Iterator[FieldError]:
    for i, owner in enumerate(owners):
        for field, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                yield FieldError(f"metadata.ownerReferences[{i}].{field}", "must not be empty")
        if (owner.api_version, owner.kind) in _KINDS_WITHOUT_DEPENDENTS:
            yield FieldError(f"metadata.ownerReferences[{i}]", "an Event cannot be an owner")
    if sum(owner.controller is True for owner in owners) > 1:
        yield FieldError("metadata.ownerReferences", "Only one reference can have Controller set to true")


def metadata_update_errors(metadata: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changes of immutable metadata, and for finalizers added during deletion."""
    for field in _IMMUTABLE_FIELDS:
        if metadata.get(field) != old.get(field):
            yield FieldError(f"metadata.{field}", IMMUTABLE)
    added = set(metadata.get("finalizers", ())) - set(old.get("finalizers", ()))
    if old.get("deletionTimestamp") and added:
        yield FieldError(
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            + ", ".join(sorted(added)),
        )
