"""Times as Kubernetes writes them: to the second, in UTC.

Metadata: what the server gives every object, what an update leaves alone, what is wrong with it.
"""

import functools
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child, shown
from shoal.api.meta import View
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors, qualified_name_errors
from shoal.apiserver.strategies.strategy import IMMUTABLE
from shoal.cluster.resources import Object


def as_text(seconds: float) -> str:
    """A moment, in seconds since 1970, as text."""
    return _written(int(seconds))


@functools.lru_cache(maxsize=16)
def _written(seconds: int) -> str:
    """Many objects are written within one second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_time(text: str) -> datetime:
    """The moment that a text says."""
    return datetime.fromisoformat(text)


_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH: Final = 5
_LONGEST_NAME: Final = 63
_MOST_ANNOTATIONS: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_SERVERS_OWN: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
"""What a new object cannot bring."""
_UID_MASK: Final = ~(0xF << 76 | 0xC << 60)
_UID_VERSION: Final = 0x4 << 76 | 0x8 << 60
_CARRIED: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
"""What an update may leave out, and cannot change."""
_DECIDED: Final = ("creationTimestamp", "generation")
"""What an update says nothing about, whatever it says."""
_NO_OWNERS: Final = {("v1", "Event"), ("events.k8s.io/v1", "Event")}
_MAY_BE_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences")


class _OwnerReference(View, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(View, frozen=True, kw_only=True):
    """Metadata as a user writes it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_OwnerReference, ...] = ()


def generated_name(prefix: str, dice: random.Random) -> str:
    """A name that begins as was asked for, and that nobody is likely to have."""
    suffix = "".join(dice.choice(_LETTERS) for _ in range(_RANDOM_LENGTH))
    return prefix[: _LONGEST_NAME - _RANDOM_LENGTH] + suffix


def begin(metadata: Object, now: float, dice: random.Random, *, generation: bool) -> None:
    """Give a new object what the server gives it."""
    for field in _SERVERS_OWN:
        metadata.pop(field, None)
    metadata["uid"] = _uid(dice.getrandbits(128))
    metadata["creationTimestamp"] = as_text(now)
    if generation:
        metadata["generation"] = 1
    tidy(metadata)


def _uid(number: int) -> str:
    """A number as a UUID of the fourth version; the standard library takes much longer to say it."""
    text = f"{number & _UID_MASK | _UID_VERSION:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def carry(metadata: Object, old: Object) -> None:
    """Give an object that is updated what its user cannot change, or need not repeat."""
    metadata.pop("selfLink", None)
    metadata.pop("managedFields", None)
    for field in _CARRIED:
        if not metadata.get(field) and field in old:
            metadata[field] = old[field]
    for field in _DECIDED:
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]
    tidy(metadata)


def tidy(metadata: Object) -> None:
    """Nothing is not written: no labels is the same as an empty mapping of them."""
    for field in [name for name, value in metadata.items() if value is None]:
        del metadata[field]
    for field in _MAY_BE_EMPTY:
        if field in metadata and not metadata[field]:
            del metadata[field]


def errors(
    metadata: Any,  # noqa: ANN401 - whatever was sent
    *,
    label_name: bool = False,
    any_finalizers: bool = False,
) -> list[FieldError]:
    """All that is wrong with metadata; `label_name` for names that must be single DNS labels."""

    def found(view: _Metadata) -> Iterator[FieldError]:
        yield from _errors(view, label_name=label_name)
        if not any_finalizers:
            yield from _unqualified_errors(view.finalizers)

    try:
        decode(_Metadata, metadata, "metadata", found)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _errors(view: _Metadata, *, label_name: bool) -> Iterator[FieldError]:
    yield from (dns_label_errors if label_name else dns_subdomain_errors)(view.name, "metadata.name")
    if view.namespace:
        yield from dns_label_errors(view.namespace, "metadata.namespace")
    yield from labels_errors(view.labels, "metadata.labels")
    for key in view.annotations:
        yield from qualified_name_errors(key.lower(), child("metadata.annotations", key))
    if sum(len(k.encode()) + len(v.encode()) for k, v in view.annotations.items()) > _MOST_ANNOTATIONS:
        yield FieldError("metadata.annotations", f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes")
    yield from _finalizer_errors(view.finalizers)
    yield from _owner_errors(view.owner_references)


def _finalizer_errors(finalizers: tuple[str, ...]) -> Iterator[FieldError]:
    for i, name in enumerate(finalizers):
        yield from qualified_name_errors(name, f"metadata.finalizers[{i}]")
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield FieldError("metadata.finalizers", "orphan and foregroundDeletion cannot both be set")


def _unqualified_errors(finalizers: tuple[str, ...]) -> Iterator[FieldError]:
    for i, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            message = f"'{shown(name)}' is neither a standard name nor has it a domain: a.b/c"
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
        if (owner.api_version, owner.kind) in _NO_OWNERS:
            yield FieldError(f"metadata.ownerReferences[{i}]", "an Event cannot own anything")
    if sum(owner.controller is True for owner in owners) > 1:
        yield FieldError("metadata.ownerReferences", "Only one reference can have Controller set to true")


def frozen(metadata: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what cannot change."""
    for field in _CARRIED:
        if metadata.get(field) != old.get(field):
            yield FieldError(f"metadata.{field}", IMMUTABLE)
    added = set(metadata.get("finalizers", ())) - set(old.get("finalizers", ()))
    if old.get("deletionTimestamp") and added:
        yield FieldError(
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            + ", ".join(sorted(added)),
        )
