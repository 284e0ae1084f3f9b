"""What a write entails: dependents go with their owners, and what is in a namespace with the namespace.

A real cluster leaves this to controllers, which come a little later. Here it is part of the same transaction:
every change of a transaction is looked at, and what follows from it is one more change to look at. Chains of
any length are followed without recursion.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from shoal.apiserver.registry.deletion import FOREGROUND, ORPHAN, delete, set_finalizers, settle
from shoal.apiserver.registry.pending import Head
from shoal.apiserver.registry.records import Change, Key, Meta, Owner, Record, decode, meta
from shoal.apiserver.strategies.table import RULES
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import NAMESPACES, RESOURCES, Object, Resource

_BY_KIND: Final = {(resource.group, resource.kind): resource for resource in RESOURCES}
_KEEPER: Final = "kubernetes"
"""The finalizer in the spec of a namespace, which stands for what is in it."""


def collect(head: Head, changes: Sequence[Change]) -> None:
    """Do all that follows from the changes of a transaction; `changes` grows meanwhile.

    Those who may have waited for what is gone, owners and namespaces, are asked once all is gone that goes.
    """
    seen = 0
    while seen < len(changes):
        gone: list[Record] = []
        while seen < len(changes):
            change = changes[seen]
            seen += 1
            _follow_up(head, change)
            if change.record.deleted:
                gone.append(change.record)
        for key in dict.fromkeys(owner for record in gone for owner in _held_owners(head, record)):
            _finish_foreground(head, key)
        for namespace in dict.fromkeys(record.key.namespace for record in gone if record.key.namespace):
            _end_namespace(head, namespace)


def _follow_up(head: Head, change: Change) -> None:
    record = change.record
    now = meta(record.body)
    if record.deleted:
        for key in sorted(head.owned_by(now.uid)):
            _attend(head, key)
        return
    if now.deletion_timestamp and now.finalizers:
        _see_to_dependents(head, record, now)
    if now.owners and _owners_changed(change, now):
        _attend(head, record.key)
    if now.deletion_timestamp and record.key.resource == NAMESPACES.full_name:
        _empty(head, record.key.name)


def _owners_changed(change: Change, now: Meta) -> bool:
    return change.before is None or meta(change.before.body).owners != now.owners


# --- owners ------------------------------------------------------------------------------------------------


def _attend(head: Head, key: Key) -> None:
    """Delete an object whose owners are all gone or going; else drop its references to those that are."""
    record = head.get(key)
    if record is None:
        return
    now = meta(record.body)
    if now.deletion_timestamp or not now.owners:
        return
    absent = [owner for owner in now.owners if _is_absent(head, owner, key)]
    going = [owner for owner in now.owners if owner not in absent and _waits_for_dependents(head, owner, key)]
    if len(absent) + len(going) < len(now.owners):
        _drop_references(head, record, {owner.uid for owner in (*absent, *going)})
    elif going and head.owned_by(now.uid):
        _break_circle(head, record, now)
        _delete(head, key, Deletion(propagation="Foreground"))
    else:
        _delete(head, key, Deletion(propagation=_own_wish(now)))


def _own_wish(now: Meta) -> Propagation:
    finalizers = now.finalizers or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _is_absent(head: Head, owner: Owner, dependent: Key) -> bool:
    """Whether there is no such owner; one of a kind that nobody here knows may be anywhere."""
    resource = _resource(owner)
    if resource is None or (resource.namespaced and not dependent.namespace):
        return False
    return _owner(head, owner, dependent) is None


def _waits_for_dependents(head: Head, owner: Owner, dependent: Key) -> bool:
    record = _owner(head, owner, dependent)
    return record is not None and _is_foreground(meta(record.body))


def _is_foreground(now: Meta) -> bool:
    return now.deletion_timestamp is not None and FOREGROUND in (now.finalizers or ())


def _owner(head: Head, owner: Owner, dependent: Key) -> Record | None:
    resource = _resource(owner)
    if resource is None:
        return None
    key = Key(resource.full_name, dependent.namespace if resource.namespaced else "", owner.name)
    record = head.get(key)
    return record if record is not None and meta(record.body).uid == owner.uid else None


def _resource(owner: Owner) -> Resource[Object] | None:
    group, _, _ = owner.api_version.rpartition("/")
    return _BY_KIND.get((group, owner.kind))


def _drop_references(head: Head, record: Record, uids: Iterable[str]) -> None:
    """Let an object forget some of its owners."""
    gone = set(uids)
    thing = decode(record.body)
    references = thing["metadata"]["ownerReferences"]
    kept = [reference for reference in references if reference["uid"] not in gone]
    if len(kept) == len(references):
        return
    if kept:
        thing["metadata"]["ownerReferences"] = kept
    else:
        del thing["metadata"]["ownerReferences"]
    head.put(record.key, thing)


def _break_circle(head: Head, record: Record, now: Meta) -> None:
    """Objects that own each other would wait for each other for ever: this one no longer holds its owners."""
    dependents = (head.get(key) for key in head.owned_by(now.uid))
    if any(found is not None and _is_foreground(meta(found.body)) for found in dependents):
        thing = decode(record.body)
        for reference in thing["metadata"]["ownerReferences"]:
            reference["blockOwnerDeletion"] = False
        head.put(record.key, thing)


# --- dependents --------------------------------------------------------------------------------------------


def _see_to_dependents(head: Head, record: Record, now: Meta) -> None:
    """What an object that is being deleted has decided about those it owns."""
    if ORPHAN in (now.finalizers or ()):
        for key in sorted(head.owned_by(now.uid)):
            dependent = head.get(key)
            if dependent is not None:
                _drop_references(head, dependent, {now.uid})
        _drop_finalizer(head, record.key, ORPHAN)
    elif FOREGROUND in (now.finalizers or ()):
        for key in sorted(head.owned_by(now.uid)):
            _attend(head, key)
        _finish_foreground(head, record.key)


def _held_owners(head: Head, gone: Record) -> Iterator[Key]:
    """The owners of one that is gone who waited for its end: they may be free to go."""
    for owner in meta(gone.body).owners:
        record = _owner(head, owner, gone.key)
        if record is not None and _is_foreground(meta(record.body)):
            yield record.key


def _finish_foreground(head: Head, key: Key) -> None:
    record = head.get(key)
    if record is None:
        return
    uid = meta(record.body).uid
    held = any(_blocks(head, dependent, uid) for dependent in head.owned_by(uid))
    if not held:
        _drop_finalizer(head, key, FOREGROUND)


def _blocks(head: Head, key: Key, uid: str) -> bool:
    record = head.get(key)
    owners = meta(record.body).owners if record is not None else ()
    return any(owner.uid == uid and owner.block_owner_deletion for owner in owners)


def _drop_finalizer(head: Head, key: Key, name: str) -> None:
    record = head.get(key)
    if record is None:
        return
    thing = decode(record.body)
    metadata = thing["metadata"]
    set_finalizers(metadata, [other for other in metadata.get("finalizers", ()) if other != name])
    settle(head, RULES[key.resource], key, thing)


def _delete(head: Head, key: Key, how: Deletion) -> None:
    record = head.get(key)
    if record is not None:
        delete(head, RULES[key.resource], record, how)


# --- namespaces --------------------------------------------------------------------------------------------


def _empty(head: Head, namespace: str) -> None:
    """Delete all that is in a namespace, as far as it is not going already."""
    for record in head.within(namespace):
        if meta(record.body).deletion_timestamp is None:
            _delete(head, record.key, Deletion(propagation="Background"))
    _end_namespace(head, namespace)


def _end_namespace(head: Head, namespace: str) -> None:
    """Let a namespace go that is being deleted and has nothing in it any more."""
    key = Key(NAMESPACES.full_name, "", namespace)
    record = head.get(key)
    if record is None or meta(record.body).deletion_timestamp is None or not head.is_empty(namespace):
        return
    thing = decode(record.body)
    finalizers = thing["spec"].get("finalizers", [])
    if _KEEPER in finalizers:
        thing["spec"]["finalizers"] = [name for name in finalizers if name != _KEEPER]
        settle(head, RULES[key.resource], key, thing)
