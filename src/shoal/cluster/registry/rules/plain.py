"""Kinds with little of their own: nodes, config maps, secrets, events, leases."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

from shoal.api.fields import FieldError, child, described, shown
from shoal.cluster.registry.rules.rules import unchanged
from shoal.cluster.resources import Object

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_ABOUT_NODE: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def default_node(node: Object) -> None:
    """Fill in what a user left out of a node: without a word, all that it has is for pods."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if not isinstance(status, dict):
        return
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict.fromkeys(_ABOUT_NODE, ""))


# --- data --------------------------------------------------------------------------------------------------


def config_map_errors(thing: Object) -> Iterator[FieldError]:
    """All that is wrong with a config map."""
    yield from _data_errors(thing, "data", base64_wanted=False)
    yield from _data_errors(thing, "binaryData", base64_wanted=True)
    for key in set(_mapping(thing.get("data"))) & set(_mapping(thing.get("binaryData"))):
        yield FieldError(child("binaryData", key), "is in data too")


def secret_errors(thing: Object) -> Iterator[FieldError]:
    """All that is wrong with a secret."""
    yield from _data_errors(thing, "data", base64_wanted=True)


def default_secret(secret: Object) -> None:
    """Plain texts are kept as all data of a secret is."""
    secret.setdefault("type", "Opaque")
    plain = secret.get("stringData")
    if isinstance(plain, dict) and all(isinstance(value, str) for value in plain.values()):
        del secret["stringData"]
        kept = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = (secret.get("data") or {}) | kept


def frozen_data(thing: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what was declared immutable."""
    if old.get("immutable") is True:
        yield from unchanged(thing, old, "immutable", "data", "binaryData")


def frozen_secret(thing: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what was declared immutable, and of the type."""
    yield from unchanged(thing, old, "type")
    yield from frozen_data(thing, old)


def _data_errors(thing: Object, field: str, *, base64_wanted: bool) -> Iterator[FieldError]:
    data = thing.get(field)
    if data is not None and not isinstance(data, dict):
        yield FieldError(field, f"must be a mapping, not {described(data)}")
    for key, value in _mapping(data).items():
        where = child(field, key)
        if not _KEY.fullmatch(key):
            yield FieldError(where, f"must be letters, digits, -, _ and . (at most 253), not '{shown(key)}'")
        if not isinstance(value, str):
            yield FieldError(where, f"must be a text, not {described(value)}")
        elif base64_wanted and not _is_base64(value):
            yield FieldError(where, "must be base64")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- events and leases -------------------------------------------------------------------------------------

_EVENT: Final[dict[str, Any]] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def default_event(event: Object) -> None:
    """Fill in what a user left out of an event."""
    for field, value in _EVENT.items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)


def event_errors(event: Object) -> Iterator[FieldError]:
    """All that is wrong with an event: it is in the namespace of what it is about."""
    about = event.get("involvedObject")
    if not isinstance(about, dict):
        yield FieldError("involvedObject", f"must be a mapping, not {described(about)}")
        return
    namespace = about.get("namespace") or "default"
    if namespace != event["metadata"].get("namespace"):
        yield FieldError("involvedObject.namespace", f"does not match event.namespace: '{shown(namespace)}'")


def default_lease(lease: Object) -> None:
    """Fill in what a user left out of a lease."""
    lease.setdefault("spec", {})


def lease_errors(lease: Object) -> Iterator[FieldError]:
    """All that is wrong with a lease."""
    spec = lease.get("spec")
    if not isinstance(spec, dict):
        yield FieldError("spec", f"must be a mapping, not {described(spec)}")
        return
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and (not _is_number(seconds) or seconds <= 0):
        yield FieldError("spec.leaseDurationSeconds", "must be greater than 0")
    if transitions is not None and (not _is_number(transitions) or transitions < 0):
        yield FieldError("spec.leaseTransitions", "must be greater than or equal to 0")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
