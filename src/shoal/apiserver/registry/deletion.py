"""How an object is deleted: at once, or marked and left until its finalizers and its grace are over."""

from datetime import timedelta
from typing import Any, Final

from shoal.apiserver.registry.pending import Head
from shoal.apiserver.registry.records import Key, Record, decode
from shoal.apiserver.strategies.metadata import as_text, as_time
from shoal.apiserver.strategies.strategy import Rules
from shoal.cluster.errors import ConflictError
from shoal.cluster.port import Deletion
from shoal.cluster.resources import Object

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FINISHED: Final = ("Succeeded", "Failed")
_LONGEST: Final = 100 * 365 * 24 * 3600
"""Seconds that a pod may take to end, whatever it asks for: a moment that calendars have."""


def delete(head: Head, rules: Rules, record: Record, how: Deletion) -> Record:
    """Delete an object, or begin to: its end, or what it is now."""
    thing = decode(record.body)
    check_preconditions(rules, thing, how)
    if rules.guard is not None:
        rules.guard(thing)
    metadata = thing["metadata"]
    grace = _grace(rules, thing, how)
    finalizers = metadata.get("finalizers", [])
    wanted = _finalizers(rules, finalizers, how)
    if grace is None:
        if rules.graceful or wanted == finalizers:
            return record
        set_finalizers(metadata, wanted)
        return settle(head, rules, record.key, thing)
    set_finalizers(metadata, wanted)
    if rules.graceful or is_held(rules, thing):
        _mark(thing, grace, head.clock())
        if rules.deleting is not None:
            rules.deleting(thing)
        return settle(head, rules, record.key, thing)
    return head.remove(record.key, thing)


def settle(head: Head, rules: Rules, key: Key, thing: Object) -> Record:
    """Write an object that may be at its end: it goes when nothing holds it any more."""
    metadata = thing["metadata"]
    if metadata.get("deletionTimestamp") and not is_held(rules, thing):
        return head.remove(key, thing)
    return head.put(key, thing)


def is_held(rules: Rules, thing: Object) -> bool:
    """Whether an object that is being deleted must stay for now."""
    metadata = thing["metadata"]
    waits = rules.graceful and (metadata.get("deletionGracePeriodSeconds") or 0) > 0
    return bool(metadata.get("finalizers")) or waits or (rules.holds is not None and rules.holds(thing))


def check_preconditions(rules: Rules, thing: Object, how: Deletion) -> None:
    """ConflictError if another object is meant."""
    metadata = thing["metadata"]
    for field, said, found, why in (
        ("UID", how.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", how.version, metadata.get("resourceVersion"), "modified"),
    ):
        if said and said != found:
            raise ConflictError(
                f"{rules.cannot(metadata['name'])}: the {field} in the precondition ({said}) does not match "
                f"the {field} in record ({found}). The object might have been {why}"
            )


def _grace(rules: Rules, thing: Object, how: Deletion) -> int | None:
    """In how many seconds an object is to end; None if its end is already under way, and no later."""
    metadata = thing["metadata"]
    pending = metadata.get("deletionGracePeriodSeconds")
    asked = how.grace if how.grace is None or how.grace >= 0 else 1
    if metadata.get("deletionTimestamp"):
        if not rules.graceful:
            return None
        if pending is None:
            return 0
        return asked if asked is not None and asked < pending else None
    if not rules.graceful:
        return 0
    spec, status = thing["spec"], thing.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in _FINISHED:
        return 0
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
    return min(grace, _LONGEST) if grace >= 0 else 1


def _mark(thing: Object, grace: int, now: float) -> None:
    """Say when the object is to end; the mark is a change of what is wanted, which counts once."""
    metadata = thing["metadata"]
    begun = metadata.get("deletionTimestamp")
    if begun is None and "generation" in metadata:
        metadata["generation"] += 1
    if begun is None or "deletionGracePeriodSeconds" not in metadata:
        end = as_text(now + grace)
    else:
        shorter = metadata["deletionGracePeriodSeconds"] - grace
        end = as_text((as_time(begun) - timedelta(seconds=shorter)).timestamp())
    metadata["deletionTimestamp"] = end
    metadata["deletionGracePeriodSeconds"] = grace


def _finalizers(rules: Rules, present: list[str], how: Deletion) -> list[str]:
    """Those of others stay; what becomes of the dependents is said by ours."""
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    match how.propagation:
        case "Orphan":
            return [*kept, ORPHAN]
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Background":
            return kept
        case None if ORPHAN in present or (rules.orphans and FOREGROUND not in present):
            return [*kept, ORPHAN]
        case _:
            return present


def set_finalizers(metadata: dict[str, Any], finalizers: list[str]) -> None:
    """Write finalizers into metadata; none at all is not written."""
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
