"""Writes: create, update and patch, with the same steps for every kind.

The order of the steps (decode, name, default, derive, validate, admit) and the messages of refusals are those
of a Kubernetes API server.
"""

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from shoal.api.fields import FieldError, InvalidObjectError, described
from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.apiserver.registry.deletion import deletion_blocked
from shoal.apiserver.registry.pending import PendingState
from shoal.apiserver.registry.records import Key, Record, decode, decode_metadata, json_copy
from shoal.apiserver.strategies.schemas import DecodedObject, decode_object
from shoal.apiserver.strategies.strategy import (
    Strategy,
    generate_name,
    metadata_errors,
    metadata_update_errors,
    prepare_metadata_create,
    prepare_metadata_update,
)
from shoal.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InternalError,
    InvalidError,
    NotFoundError,
)
from shoal.cluster.resources import NAMESPACES, Object, Resource

Body = Object | DecodedObject
"""An object to be written; one that was decoded by its schema is not decoded again."""
Transform = Callable[[Object], Body]
"""Returns the new version of an object, given the current one."""

_NAME_ATTEMPTS: Final = 8
"""Attempts to generate a name that is not taken."""
_NAME_FIELDS: Final = ("name", "generateName", "namespace")
_COMMON_FIELDS: Final = ("apiVersion", "kind", "metadata")


def key_of(resource: Resource[Any], name: str, namespace: str) -> Key:
    """Return the key of an object; an empty namespace means the default one."""
    return Key(resource.full_name, (namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)


def get_record(pending: PendingState, strategy: Strategy, key: Key) -> Record:
    """Return the newest record of an object; NotFoundError if it does not exist."""
    record = pending.get(key)
    if record is None:
        raise NotFoundError(f"{strategy.describe(key.name)} not found")
    return record


# --- create ------------------------------------------------------------------------------------------------


def create(pending: PendingState, strategy: Strategy, body: Body, rng: random.Random) -> Record:
    """Stage the creation of an object."""
    obj = _decode_sent(strategy, body)
    metadata = obj["metadata"]
    if metadata.get("resourceVersion"):
        raise InternalError("resourceVersion should not be set on objects to be created")
    key = _assign_name(pending, strategy, metadata, rng)
    _check_namespace(pending, strategy, key)
    prepare_metadata_create(metadata, pending.clock(), rng, generation=strategy.resource.generation)
    if strategy.resource.status and not strategy.allow_status_on_create:
        obj.pop("status", None)
    _default_and_validate(pending, strategy, obj, None)
    strategy.prepare_for_create(obj)
    if pending.get(key) is not None:
        raise AlreadyExistsError(f"{strategy.describe(key.name)} already exists")
    return pending.put(key, obj)


def _decode_sent(strategy: Strategy, body: Body) -> Object:
    """Decode an object from a request; BadRequestError if fields have the wrong type."""
    try:
        return _decode_object(strategy, body)
    except InvalidObjectError as problem:
        raise BadRequestError(f"{strategy.kind} cannot be read: {problem}", causes=problem.errors) from None


def _decode_object(strategy: Strategy, body: Body) -> Object:
    """Copy an object, pruned to known fields, with apiVersion and kind; BadRequestError for another kind."""
    try:
        decoded = body if isinstance(body, DecodedObject) else decode_object(strategy.resource, body)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadRequestError(f"the object is not JSON: {problem}") from None
    obj = decoded.value
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata", {}), dict | None):
        raise BadRequestError(f"an object with metadata is required, not {described(obj)}")
    _check_kind(strategy, obj)
    if decoded.errors:
        raise InvalidObjectError(decoded.errors)
    resource = strategy.resource
    common = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": obj.get("metadata") or {},
    }
    return common | {name: value for name, value in obj.items() if name not in _COMMON_FIELDS}


def _check_kind(strategy: Strategy, obj: Object) -> None:
    """Check that apiVersion and kind, if given, are those of the resource."""
    resource = strategy.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) not in (None, "", wanted):
            raise BadRequestError(
                f"{field} must be {wanted} for {resource.full_name}, not {described(obj[field])}"
            )


def _assign_name(pending: PendingState, strategy: Strategy, metadata: Object, rng: random.Random) -> Key:
    """Set the name (generated if needed) and namespace of a new object; returns its key."""
    resource = strategy.resource
    errors = [
        FieldError(f"metadata.{field}", "must be a string")
        for field in _NAME_FIELDS
        if not isinstance(metadata.get(field) or "", str)
    ]
    strategy.raise_if_invalid("", errors)
    prefix = metadata.get("generateName")
    if not metadata.get("name") and not prefix:
        strategy.raise_if_invalid(
            "", [FieldError("metadata.name", "Required value: name or generateName is required")]
        )
    metadata.pop("namespace", None) if not resource.namespaced else metadata.setdefault("namespace", "")
    name, namespace = metadata.get("name") or "", metadata.get("namespace", "")
    key = key_of(resource, name, namespace)
    for _ in range(_NAME_ATTEMPTS if not name else 0):
        key = key._replace(name=generate_name(str(prefix), rng))
        if pending.get(key) is None:
            break
    metadata["name"] = key.name
    if resource.namespaced:
        metadata["namespace"] = key.namespace
    return key


def _check_namespace(pending: PendingState, strategy: Strategy, key: Key) -> None:
    """Refuse to create objects in a namespace that does not exist or is terminating."""
    if not key.namespace:
        return
    record = pending.get(Key(NAMESPACES.full_name, "", key.namespace))
    if record is None:
        raise NotFoundError(f'namespaces "{key.namespace}" not found')
    if decode_metadata(record.body).deletion_timestamp is not None:
        raise ForbiddenError(
            f"{strategy.describe(key.name)} is forbidden: unable to create new content in namespace "
            f"{key.namespace} because it is being terminated",
            causes=[FieldError("metadata.namespace", f"namespace {key.namespace} is being terminated")],
        )


def _default_and_validate(pending: PendingState, strategy: Strategy, obj: Object, old: Object | None) -> None:
    """Apply defaults and derived fields, validate, and run admission."""
    name = str(obj["metadata"]["name"])
    errors = metadata_errors(
        obj["metadata"],
        name_is_dns_label=strategy.resource is NAMESPACES,
        allow_unqualified_finalizers=strategy.allow_unqualified_finalizers,
    )
    strategy.default(obj)
    strategy.derive(obj, old, pending)
    strategy.raise_if_invalid(name, [*errors, *strategy.validate(obj)])
    strategy.admit(obj, old, pending)


# --- update ------------------------------------------------------------------------------------------------


def guaranteed_update(
    pending: PendingState, strategy: Strategy, key: Key, transform: Transform, *, status: bool = False
) -> Record:
    """Stage the result of `transform` on the newest version of an object; no write if it is unchanged."""
    record = get_record(pending, strategy, key)
    if status and not strategy.resource.status:
        raise NotFoundError(f"{strategy.resource.full_name} have no status subresource")
    old = decode(record.body)
    obj = _decode_transformed(strategy, key, _apply_transform(strategy, key, transform, decode(record.body)))
    _check_identity(strategy, key, obj["metadata"], old["metadata"])
    if not status:
        strategy.prepare_for_update(obj, old)
    obj = _with_new_status(strategy, obj, old) if status else _with_old_status(strategy, obj, old)
    metadata = obj["metadata"]
    prepare_metadata_update(metadata, old["metadata"])
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    _default_and_validate(pending, strategy, obj, old)
    errors = metadata_update_errors(metadata, old["metadata"])
    strategy.raise_if_invalid(key.name, [*errors, *(() if status else strategy.validate_update(obj, old))])
    if obj == old:
        return record
    if (
        strategy.bump_generation
        and strategy.resource.generation
        and not status
        and _desired_state(obj) != _desired_state(old)
    ):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1
    if metadata.get("deletionTimestamp") and not deletion_blocked(strategy, obj):
        return pending.remove(key, obj)
    return pending.put(key, obj)


def _apply_transform(strategy: Strategy, key: Key, transform: Transform, obj: Object) -> Body:
    try:
        return transform(obj)
    except RecursionError:
        raise InvalidError(f'{strategy.kind} "{key.name}" is invalid: patch: nested too deeply') from None


def _decode_transformed(strategy: Strategy, key: Key, body: Body) -> Object:
    """Decode the result of a transform; InvalidError if it is not a valid object of the kind."""
    try:
        return _decode_object(strategy, body)
    except InvalidObjectError as problem:
        raise strategy.invalid_error(key.name, problem.errors) from None
    except BadRequestError as problem:
        raise InvalidError(f'{strategy.kind} "{key.name}" is invalid: patch: {problem.message}') from None


def _check_identity(strategy: Strategy, key: Key, metadata: Object, old: Object) -> None:
    """Check that name, namespace and resource version are those of the stored object."""
    if not metadata.get("name"):
        raise BadRequestError(f"metadata.name ({key.name}) cannot be removed")
    for field, wanted in (("name", key.name), ("namespace", key.namespace)):
        if metadata.get(field) not in (None, "", wanted):
            raise BadRequestError(
                f"the {field} of the object ({metadata[field]}) does not match the {field} on the request "
                f"({wanted})"
            )
        if wanted:
            metadata[field] = wanted
    version = metadata.get("resourceVersion")
    if not version and not strategy.allow_unconditional_update:
        problem = FieldError("metadata.resourceVersion", "must be specified for an update")
        strategy.raise_if_invalid(key.name, [problem])
    if version and version != old["resourceVersion"]:
        raise ConflictError(
            f"{strategy.conflict_prefix(key.name)}: the object has been modified; please apply your changes "
            "to the latest version and try again"
        )


def update(pending: PendingState, strategy: Strategy, key: Key, body: Body, *, status: bool) -> Record:
    """Stage the replacement of an object; ConflictError if the body has another uid."""
    uid, there = (
        required_metadata(body).get("uid"),
        decode_metadata(get_record(pending, strategy, key).body).uid,
    )
    if uid and uid != there:
        raise ConflictError(
            f"{strategy.conflict_prefix(key.name)}: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {there}"
        )
    sent = DecodedObject(_decode_sent(strategy, body))
    return guaranteed_update(pending, strategy, key, lambda _: sent, status=status)


def _with_old_status(strategy: Strategy, obj: Object, old: Object) -> Object:
    if strategy.resource.status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]
    return obj


def _with_new_status(strategy: Strategy, obj: Object, old: Object) -> Object:
    """Return the old object with the new status; for built-in kinds also with the new metadata."""
    result = {name: value for name, value in old.items() if name != "status"}
    if obj.get("status") is not None:
        result["status"] = obj["status"]
    result["metadata"] = dict(old["metadata"]) if strategy.custom_resource else obj["metadata"]
    if "ownerReferences" in old["metadata"]:
        result["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    else:
        result["metadata"].pop("ownerReferences", None)
    copied: Object = json_copy(result)
    return copied


def _desired_state(obj: Object) -> Object:
    """Return the fields that the generation counts changes of: all except metadata and status."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def required_metadata(body: Body) -> Object:
    """Return the metadata of an object in an update; BadRequestError without a name."""
    metadata = _value(body).get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise BadRequestError("metadata.name: the object to be updated must have a name")
    if not isinstance(metadata.get("namespace") or "", str):
        raise BadRequestError("metadata.namespace: must be a string")
    return metadata


def without_resource_version(body: Body) -> Body:
    """Return the object without its resource version."""
    metadata = {k: v for k, v in _value(body)["metadata"].items() if k != "resourceVersion"}
    value = _value(body) | {"metadata": metadata}
    return msgspec.structs.replace(body, value=value) if isinstance(body, DecodedObject) else value


def _value(body: Body) -> Object:
    value: Object = body.value if isinstance(body, DecodedObject) else body
    return value
