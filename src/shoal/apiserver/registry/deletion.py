"""Deletion (finalizers, grace periods) and garbage collection of dependents and namespaces.

In a real cluster controllers collect garbage some time later. Here it is part of the same transaction: each
change is examined, and may stage further changes, which are examined in turn. Chains of any length are
followed without recursion.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from shoal.api import registry
from shoal.api.conditions import FINISHED_PHASES
from shoal.apiserver.registry.pending import PendingState
from shoal.apiserver.registry.records import (
    Change,
    Key,
    ObjectMeta,
    OwnerReference,
    Record,
    decode,
    decode_metadata,
)
from shoal.apiserver.strategies.strategy import Strategy, timestamp
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.errors import ConflictError
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import NAMESPACES, Object, Resource, resources

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_MAX_GRACE_PERIOD: Final = 100 * 365 * 24 * 3600
"""Maximum grace period in seconds, so that the deletion timestamp is a valid date."""


def delete(pending: PendingState, strategy: Strategy, record: Record, deletion: Deletion) -> Record:
    """Delete an object, or mark it for deletion; returns the staged record."""
    obj = decode(record.body)
    check_preconditions(strategy, obj, deletion)
    if strategy.check_delete is not None:
        strategy.check_delete(obj)
    metadata = obj["metadata"]
    grace = _grace_period(strategy, obj, deletion)
    finalizers = metadata.get("finalizers", [])
    new_finalizers = _finalizers(strategy, finalizers, deletion)
    if grace is None:
        if strategy.graceful_deletion or new_finalizers == finalizers:
            return record
        set_finalizers(metadata, new_finalizers)
        return put_or_remove(pending, strategy, record.key, obj)
    set_finalizers(metadata, new_finalizers)
    if strategy.graceful_deletion or deletion_blocked(strategy, obj):
        _mark_for_deletion(obj, grace, pending.clock())
        if strategy.prepare_for_delete is not None:
            strategy.prepare_for_delete(obj)
        return put_or_remove(pending, strategy, record.key, obj)
    return pending.remove(record.key, obj)


def put_or_remove(pending: PendingState, strategy: Strategy, key: Key, obj: Object) -> Record:
    """Write an object; if it is marked for deletion and nothing blocks that, remove it."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") and not deletion_blocked(strategy, obj):
        return pending.remove(key, obj)
    return pending.put(key, obj)


def deletion_blocked(strategy: Strategy, obj: Object) -> bool:
    """Whether finalizers, the grace period or the kind's own rule still block an object's deletion."""
    metadata = obj["metadata"]
    waits = strategy.graceful_deletion and (metadata.get("deletionGracePeriodSeconds") or 0) > 0
    return (
        bool(metadata.get("finalizers"))
        or waits
        or (strategy.blocks_deletion is not None and strategy.blocks_deletion(obj))
    )


def check_preconditions(strategy: Strategy, obj: Object, deletion: Deletion) -> None:
    """Raise ConflictError if the uid or resource version is not the expected one."""
    metadata = obj["metadata"]
    for field, expected, found, reason in (
        ("UID", deletion.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", deletion.version, metadata.get("resourceVersion"), "modified"),
    ):
        if expected and expected != found:
            raise ConflictError(
                f"{strategy.conflict_prefix(metadata['name'])}: the {field} in the precondition ({expected}) "
                f"does not match the {field} in record ({found}). The object might have been {reason}"
            )


def _grace_period(strategy: Strategy, obj: Object, deletion: Deletion) -> int | None:
    """Return the grace period in seconds; None if a deletion with no longer grace is in progress."""
    metadata = obj["metadata"]
    current = metadata.get("deletionGracePeriodSeconds")
    asked = deletion.grace if deletion.grace is None or deletion.grace >= 0 else 1
    if metadata.get("deletionTimestamp"):
        if not strategy.graceful_deletion:
            return None
        if current is None:
            return 0
        return asked if asked is not None and asked < current else None
    if not strategy.graceful_deletion:
        return 0
    spec, status = obj["spec"], obj.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in FINISHED_PHASES:
        return 0
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
    return min(grace, _MAX_GRACE_PERIOD) if grace >= 0 else 1


def _mark_for_deletion(obj: Object, grace: int, now: float) -> None:
    """Set deletion timestamp and grace period; the first time, increment the generation."""
    metadata = obj["metadata"]
    begun = metadata.get("deletionTimestamp")
    if begun is None and "generation" in metadata:
        metadata["generation"] += 1
    if begun is None or "deletionGracePeriodSeconds" not in metadata:
        end = timestamp(now + grace)
    else:
        shorter = metadata["deletionGracePeriodSeconds"] - grace
        end = timestamp((datetime.fromisoformat(begun) - timedelta(seconds=shorter)).timestamp())
    metadata["deletionTimestamp"] = end
    metadata["deletionGracePeriodSeconds"] = grace


def _finalizers(strategy: Strategy, present: list[str], deletion: Deletion) -> list[str]:
    """Return the finalizers for a propagation policy; those that are not ours stay."""
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    match deletion.propagation:
        case "Orphan":
            return [*kept, ORPHAN]
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Background":
            return kept
        case None if ORPHAN in present or (strategy.orphan_by_default and FOREGROUND not in present):
            return [*kept, ORPHAN]
        case _:
            return present


def set_finalizers(metadata: dict[str, Any], finalizers: list[str]) -> None:
    """Set the finalizers in metadata; an empty list is omitted."""
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


@registry.cached_by_kinds
def _by_group_kind() -> dict[tuple[str, str], Resource[Object]]:
    return {(resource.group, resource.kind): resource for resource in resources()}


_NAMESPACE_FINALIZER: Final = "kubernetes"
"""Finalizer in the spec of a namespace; it is removed when the namespace is empty."""


def collect_garbage(pending: PendingState, changes: Sequence[Change]) -> None:
    """Process the changes of a transaction until none follows; `changes` grows meanwhile.

    Owners and namespaces that wait for deleted objects are checked after each round of deletions.
    """
    seen = 0
    while seen < len(changes):
        deleted: list[Record] = []
        while seen < len(changes):
            change = changes[seen]
            seen += 1
            _process_change(pending, change)
            if change.record.deleted:
                deleted.append(change.record)
        for key in dict.fromkeys(owner for record in deleted for owner in _waiting_owners(pending, record)):
            _finish_foreground(pending, key)
        for namespace in dict.fromkeys(record.key.namespace for record in deleted if record.key.namespace):
            _finalize_namespace(pending, namespace)


def _process_change(pending: PendingState, change: Change) -> None:
    record = change.record
    now = decode_metadata(record.body)
    if record.deleted:
        for key in sorted(pending.dependents_of(now.uid)):
            _collect_dependent(pending, key)
        return
    if now.deletion_timestamp and now.finalizers:
        _process_dependents(pending, record, now)
    if now.owners and _owners_changed(change, now):
        _collect_dependent(pending, record.key)
    if now.deletion_timestamp and record.key.resource == NAMESPACES.full_name:
        _delete_namespace_contents(pending, record.key.name)


def _owners_changed(change: Change, now: ObjectMeta) -> bool:
    return change.before is None or decode_metadata(change.before.body).owners != now.owners


# --- owners ------------------------------------------------------------------------------------------------


def _collect_dependent(pending: PendingState, key: Key) -> None:
    """Delete an object whose owners are all absent or in foreground deletion; else drop those references."""
    record = pending.get(key)
    if record is None:
        return
    now = decode_metadata(record.body)
    if now.deletion_timestamp or not now.owners:
        return
    absent = [owner for owner in now.owners if _is_absent(pending, owner, key)]
    going = [
        owner for owner in now.owners if owner not in absent and _waits_for_dependents(pending, owner, key)
    ]
    if len(absent) + len(going) < len(now.owners):
        _drop_references(pending, record, {owner.uid for owner in (*absent, *going)})
    elif going and pending.dependents_of(now.uid):
        _unblock_owner_cycle(pending, record, now)
        _delete_key(pending, key, Deletion(propagation="Foreground"))
    else:
        _delete_key(pending, key, Deletion(propagation=_propagation_from_finalizers(now)))


def _propagation_from_finalizers(now: ObjectMeta) -> Propagation:
    finalizers = now.finalizers or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _is_absent(pending: PendingState, owner: OwnerReference, dependent: Key) -> bool:
    """Whether an owner does not exist; owners of unknown kinds are assumed to exist."""
    resource = _owner_resource(owner)
    if resource is None or (resource.namespaced and not dependent.namespace):
        return False
    return _find_owner(pending, owner, dependent) is None


def _waits_for_dependents(pending: PendingState, owner: OwnerReference, dependent: Key) -> bool:
    record = _find_owner(pending, owner, dependent)
    return record is not None and _is_foreground(decode_metadata(record.body))


def _is_foreground(now: ObjectMeta) -> bool:
    return now.deletion_timestamp is not None and FOREGROUND in (now.finalizers or ())


def _find_owner(pending: PendingState, owner: OwnerReference, dependent: Key) -> Record | None:
    resource = _owner_resource(owner)
    if resource is None:
        return None
    key = Key(resource.full_name, dependent.namespace if resource.namespaced else "", owner.name)
    record = pending.get(key)
    return record if record is not None and decode_metadata(record.body).uid == owner.uid else None


def _owner_resource(owner: OwnerReference) -> Resource[Object] | None:
    group, _, _ = owner.api_version.rpartition("/")
    return _by_group_kind().get((group, owner.kind))


def _drop_references(pending: PendingState, record: Record, uids: Iterable[str]) -> None:
    """Remove the owner references to some uids."""
    deleted = set(uids)
    obj = decode(record.body)
    references = obj["metadata"]["ownerReferences"]
    kept = [reference for reference in references if reference["uid"] not in deleted]
    if len(kept) == len(references):
        return
    if kept:
        obj["metadata"]["ownerReferences"] = kept
    else:
        del obj["metadata"]["ownerReferences"]
    pending.put(record.key, obj)


def _unblock_owner_cycle(pending: PendingState, record: Record, now: ObjectMeta) -> None:
    """In a cycle of owners in foreground deletion, stop blocking the owners: else they wait for ever."""
    dependents = (pending.get(key) for key in pending.dependents_of(now.uid))
    if any(found is not None and _is_foreground(decode_metadata(found.body)) for found in dependents):
        obj = decode(record.body)
        for reference in obj["metadata"]["ownerReferences"]:
            reference["blockOwnerDeletion"] = False
        pending.put(record.key, obj)


# --- dependents --------------------------------------------------------------------------------------------


def _process_dependents(pending: PendingState, record: Record, now: ObjectMeta) -> None:
    """Orphan or delete the dependents of an object that is being deleted, by its finalizers."""
    if ORPHAN in (now.finalizers or ()):
        for key in sorted(pending.dependents_of(now.uid)):
            dependent = pending.get(key)
            if dependent is not None:
                _drop_references(pending, dependent, {now.uid})
        _drop_finalizer(pending, record.key, ORPHAN)
    elif FOREGROUND in (now.finalizers or ()):
        for key in sorted(pending.dependents_of(now.uid)):
            _collect_dependent(pending, key)
        _finish_foreground(pending, record.key)


def _waiting_owners(pending: PendingState, deleted: Record) -> Iterator[Key]:
    """Yield the owners in foreground deletion that waited for a deleted dependent."""
    for owner in decode_metadata(deleted.body).owners:
        record = _find_owner(pending, owner, deleted.key)
        if record is not None and _is_foreground(decode_metadata(record.body)):
            yield record.key


def _finish_foreground(pending: PendingState, key: Key) -> None:
    record = pending.get(key)
    if record is None:
        return
    uid = decode_metadata(record.body).uid
    held = any(_blocks(pending, dependent, uid) for dependent in pending.dependents_of(uid))
    if not held:
        _drop_finalizer(pending, key, FOREGROUND)


def _blocks(pending: PendingState, key: Key, uid: str) -> bool:
    record = pending.get(key)
    owners = decode_metadata(record.body).owners if record is not None else ()
    return any(owner.uid == uid and owner.block_owner_deletion for owner in owners)


def _drop_finalizer(pending: PendingState, key: Key, name: str) -> None:
    record = pending.get(key)
    if record is None:
        return
    obj = decode(record.body)
    metadata = obj["metadata"]
    set_finalizers(metadata, [other for other in metadata.get("finalizers", ()) if other != name])
    put_or_remove(pending, strategies()[key.resource], key, obj)


def _delete_key(pending: PendingState, key: Key, deletion: Deletion) -> None:
    record = pending.get(key)
    if record is not None:
        delete(pending, strategies()[key.resource], record, deletion)


# --- namespaces --------------------------------------------------------------------------------------------


def _delete_namespace_contents(pending: PendingState, namespace: str) -> None:
    """Delete all objects in a namespace that are not being deleted already."""
    for record in pending.in_namespace(namespace):
        if decode_metadata(record.body).deletion_timestamp is None:
            _delete_key(pending, record.key, Deletion(propagation="Background"))
    _finalize_namespace(pending, namespace)


def _finalize_namespace(pending: PendingState, namespace: str) -> None:
    """Remove the finalizer of a terminating namespace once it is empty."""
    key = Key(NAMESPACES.full_name, "", namespace)
    record = pending.get(key)
    if (
        record is None
        or decode_metadata(record.body).deletion_timestamp is None
        or not pending.is_empty(namespace)
    ):
        return
    obj = decode(record.body)
    finalizers = obj["spec"].get("finalizers", [])
    if _NAMESPACE_FINALIZER in finalizers:
        obj["spec"]["finalizers"] = [name for name in finalizers if name != _NAMESPACE_FINALIZER]
        put_or_remove(pending, strategies()[key.resource], key, obj)
