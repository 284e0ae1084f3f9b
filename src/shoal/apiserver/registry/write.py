"""How an object is made and changed, as an API server does it: the same steps for every kind."""

import random
from collections.abc import Callable
from typing import Any, Final

from shoal.api.fields import FieldError, InvalidObjectError, described
from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.apiserver.registry.deletion import is_held
from shoal.apiserver.registry.pending import Head
from shoal.apiserver.registry.records import Key, Record, copied, decode, encode, meta
from shoal.apiserver.strategies import metadata as metadata_rules
from shoal.apiserver.strategies.schemas import shaped, shaped_text
from shoal.apiserver.strategies.strategy import Rules
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

Make = Callable[[Object], Object]
"""Makes of an object what it is to become."""

_TRIES: Final = 8
"""How often a name is generated before the dice are blamed."""
_NAMES: Final = ("name", "generateName", "namespace")
_STANDARD: Final = ("apiVersion", "kind", "metadata")


def key_of(resource: Resource[Any], name: str, namespace: str) -> Key:
    """The key of an object; without a namespace it is in the default one."""
    return Key(resource.full_name, (namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)


def found(head: Head, rules: Rules, key: Key) -> Record:
    """The newest record of an object; NotFoundError if there is none."""
    record = head.get(key)
    if record is None:
        raise NotFoundError(f"{rules.called(key.name)} not found")
    return record


# --- making ------------------------------------------------------------------------------------------------


def create(head: Head, rules: Rules, body: Object, dice: random.Random) -> Record:
    """Make an object."""
    thing = _sent(rules, body)
    metadata = thing["metadata"]
    if metadata.get("resourceVersion"):
        raise InternalError("resourceVersion should not be set on objects to be created")
    key = _place(head, rules, metadata, dice)
    _check_namespace(head, rules, key)
    metadata_rules.begin(metadata, head.clock(), dice, generation=rules.resource.generation)
    if rules.resource.status and not rules.keeps_status:
        thing.pop("status", None)
    _complete(head, rules, thing, None)
    rules.begin(thing)
    if head.get(key) is not None:
        raise AlreadyExistsError(f"{rules.called(key.name)} already exists")
    return head.put(key, thing)


def _sent(rules: Rules, body: Object) -> Object:
    """A copy of a whole object that was sent; BadRequestError if it cannot even be read."""
    try:
        return _received(rules, body)
    except InvalidObjectError as problem:
        raise BadRequestError(f"{rules.kind} cannot be read: {problem}", causes=problem.errors) from None


def _received(rules: Rules, body: Object) -> Object:
    """A copy of an object, which says what it is; BadRequestError if it is something else."""
    try:
        text = encode(body)
        quick = None if rules.custom else shaped_text(rules.resource, text)
        thing: Any = decode(text) if quick is None else quick
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadRequestError(f"this is not JSON: {problem}") from None
    if not isinstance(thing, dict) or not isinstance(thing.get("metadata", {}), dict | None):
        raise BadRequestError(f"an object with metadata is needed, not {described(thing)}")
    _check_kind(rules, thing)
    resource = rules.resource
    said = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": thing.get("metadata") or {},
    }
    whole = said | {name: value for name, value in thing.items() if name not in _STANDARD}
    return whole if rules.custom or quick is not None else shaped(resource, whole)


def _check_kind(rules: Rules, thing: Object) -> None:
    """What says what it is must be what the resource has."""
    resource = rules.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if thing.get(field) not in (None, "", wanted):
            raise BadRequestError(
                f"{described(thing[field])} is no {field} of {resource.full_name}: {wanted}"
            )


def _place(head: Head, rules: Rules, metadata: Object, dice: random.Random) -> Key:
    """The name and namespace of a new object, which are written into its metadata."""
    resource = rules.resource
    wrong = [field for field in _NAMES if not isinstance(metadata.get(field) or "", str)]
    rules.check("", [FieldError(f"metadata.{field}", "must be a string") for field in wrong])
    prefix = metadata.get("generateName")
    if not metadata.get("name") and not prefix:
        rules.check("", [FieldError("metadata.name", "Required value: name or generateName is required")])
    metadata.pop("namespace", None) if not resource.namespaced else metadata.setdefault("namespace", "")
    name, namespace = metadata.get("name") or "", metadata.get("namespace", "")
    key = key_of(resource, name, namespace)
    for _ in range(_TRIES if not name else 0):
        key = key._replace(name=metadata_rules.generated_name(str(prefix), dice))
        if head.get(key) is None:
            break
    metadata["name"] = key.name
    if resource.namespaced:
        metadata["namespace"] = key.namespace
    return key


def _check_namespace(head: Head, rules: Rules, key: Key) -> None:
    """Nothing is made where there is no namespace, or where one is on its way out."""
    if not key.namespace:
        return
    record = head.get(Key(NAMESPACES.full_name, "", key.namespace))
    if record is None:
        raise NotFoundError(f'namespaces "{key.namespace}" not found')
    if meta(record.body).deletion_timestamp is not None:
        raise ForbiddenError(
            f"{rules.called(key.name)} is forbidden: unable to create new content in namespace "
            f"{key.namespace} because it is being terminated",
            causes=[FieldError("metadata.namespace", f"namespace {key.namespace} is being terminated")],
        )


def _complete(head: Head, rules: Rules, thing: Object, old: Object | None) -> None:
    """Fill in what was left out, and refuse what is wrong."""
    name = str(thing["metadata"]["name"])
    wrong = metadata_rules.errors(
        thing["metadata"], label_name=rules.resource is NAMESPACES, any_finalizers=rules.any_finalizers
    )
    rules.default(thing)
    rules.derive(thing, old, head)
    rules.check(name, [*wrong, *rules.errors(thing)])
    rules.admit(thing, old, head)


# --- changing ----------------------------------------------------------------------------------------------


def change(head: Head, rules: Rules, key: Key, make: Make, *, status: bool = False) -> Record:
    """Make something else of the newest version of an object."""
    record = found(head, rules, key)
    if status and not rules.resource.status:
        raise NotFoundError(f"{rules.resource.full_name} have no status of their own")
    old = decode(record.body)
    thing = _made(rules, key, _remade(rules, key, make, decode(record.body)))
    _check_identity(rules, key, thing["metadata"], old["metadata"])
    if not status:
        rules.carry(thing, old)
    thing = _of_status(rules, thing, old) if status else _without_status(rules, thing, old)
    metadata = thing["metadata"]
    metadata_rules.carry(metadata, old["metadata"])
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    _complete(head, rules, thing, old)
    wrong = metadata_rules.frozen(metadata, old["metadata"])
    rules.check(key.name, [*wrong, *(() if status else rules.frozen(thing, old))])
    if thing == old:
        return record
    if rules.counts_changes and rules.resource.generation and not status and _wanted(thing) != _wanted(old):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1
    if metadata.get("deletionTimestamp") and not is_held(rules, thing):
        return head.remove(key, thing)
    return head.put(key, thing)


def _remade(rules: Rules, key: Key, make: Make, thing: Object) -> Object:
    try:
        return make(thing)
    except RecursionError:
        raise InvalidError(f'{rules.kind} "{key.name}" is invalid: patch: nested too deeply') from None


def _made(rules: Rules, key: Key, body: Object) -> Object:
    """A copy of what a patch made; InvalidError if nobody could read it."""
    try:
        return _received(rules, body)
    except InvalidObjectError as problem:
        raise rules.invalid(key.name, problem.errors) from None
    except BadRequestError as problem:
        raise InvalidError(f'{rules.kind} "{key.name}" is invalid: patch: {problem.message}') from None


def _check_identity(rules: Rules, key: Key, metadata: Object, old: Object) -> None:
    """Refuse what is meant for another object, or for another version of it."""
    if not metadata.get("name"):
        raise BadRequestError(f"the name of the object ({key.name}) cannot be taken away")
    for field, wanted in (("name", key.name), ("namespace", key.namespace)):
        if metadata.get(field) not in (None, "", wanted):
            raise BadRequestError(
                f"the {field} of the object ({metadata[field]}) does not match the {field} on the request "
                f"({wanted})"
            )
        if wanted:
            metadata[field] = wanted
    version = metadata.get("resourceVersion")
    if not version and not rules.unconditional:
        problem = FieldError("metadata.resourceVersion", "must be specified for an update")
        rules.check(key.name, [problem])
    if version and version != old["resourceVersion"]:
        raise ConflictError(
            f"{rules.cannot(key.name)}: the object has been modified; please apply your changes to the "
            "latest version and try again"
        )


def replace(head: Head, rules: Rules, key: Key, body: Object, *, status: bool) -> Record:
    """Put another object in the place of one; only of the one that is meant, if it says which."""
    uid, there = metadata_of(body).get("uid"), meta(found(head, rules, key).body).uid
    if uid and uid != there:
        raise ConflictError(
            f"{rules.cannot(key.name)}: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {there}"
        )
    sent = _sent(rules, body)
    return change(head, rules, key, lambda _: sent, status=status)


def _without_status(rules: Rules, thing: Object, old: Object) -> Object:
    if rules.resource.status:
        thing.pop("status", None)
        if "status" in old:
            thing["status"] = old["status"]
    return thing


def _of_status(rules: Rules, thing: Object, old: Object) -> Object:
    """The old object with the new status; for most of Kubernetes' own kinds with the new metadata too."""
    made = {name: value for name, value in old.items() if name != "status"}
    if thing.get("status") is not None:
        made["status"] = thing["status"]
    made["metadata"] = dict(old["metadata"]) if rules.custom else thing["metadata"]
    if "ownerReferences" in old["metadata"]:
        made["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    else:
        made["metadata"].pop("ownerReferences", None)
    whole: Object = copied(made)
    return whole


def _wanted(thing: Object) -> Object:
    """What somebody wants of an object: all but what is known about it."""
    return {name: value for name, value in thing.items() if name not in ("metadata", "status")}


def metadata_of(body: Object) -> Object:
    """The metadata of what was sent; BadRequestError if it has none to speak of."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise BadRequestError("metadata.name: the object to be updated must have a name")
    if not isinstance(metadata.get("namespace") or "", str):
        raise BadRequestError("metadata.namespace: must be a string")
    return metadata


def without_version(body: Object) -> Object:
    """The same object, as if nobody had kept it before."""
    return body | {"metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}
