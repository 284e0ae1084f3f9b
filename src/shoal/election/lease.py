"""The Lease as one manager sees it, and when this manager may write it. Pure: all times are passed in.

A Lease counts as expired when it has not changed for its duration, by the clock of the observer. The times
that it contains are for people: they come from other machines, and are never compared.

| the Lease | may be taken |
|---|---|
| does not exist, and was never seen | at once: it is created |
| was deleted | a duration after this was observed: its holder may not know yet |
| has no holder | at once: it was released |
| is held by another manager | when it has not changed for its duration |
| is held by this manager | at once: this is a renewal |
"""

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from shoal.cluster.resources import LEASES, Object

JITTER: Final = 0.2
"""The retry period is extended by a random part of it, up to this, so that managers do not act in step."""


class LeaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which Lease, and its times in seconds.

    `duration`: how long others wait after the last renewal before they take the Lease. `renew_deadline`: how
    long the leader leads after its last renewal. `retry_period`: between renewals, and between attempts.
    """

    name: str = "shoal-manager"
    namespace: str = "kube-system"
    duration: float = 12.0
    renew_deadline: float = 8.0
    retry_period: float = 2.0

    @property
    def full_name(self) -> str:
        """Namespace and name, for messages."""
        return f"{self.namespace}/{self.name}"

    def problem(self) -> str:
        """What is wrong with the times; empty if nothing is."""
        if self.duration < 1 or self.duration != int(self.duration):
            return "the lease duration must be a whole number of seconds, at least 1s"
        if self.renew_deadline >= self.duration:
            return "the renew deadline must be shorter than the lease duration"
        if not 0 < self.retry_period * (1 + JITTER) < self.renew_deadline:
            return (
                f"the retry period must be positive, and {1 + JITTER} times shorter than the renew deadline"
            )
        return ""


class ObservedLease:
    """The Lease as last observed, and since when it has not changed; times of a clock that never jumps."""

    def __init__(self, identity: str, options: LeaseOptions) -> None:
        """`identity` is the holder that this manager writes: no other manager ever has the same."""
        self.identity: Final = identity
        self._options: Final = options
        self._lease: Object | None = None
        self._duration = options.duration
        self._takeable_at = -math.inf
        self._was_seen = False

    @property
    def holder(self) -> str:
        """The identity of the holder; empty if there is none."""
        return _text(self._spec, "holderIdentity")

    @property
    def is_held_by_me(self) -> bool:
        """Whether this manager is the holder."""
        return self.holder == self.identity

    @property
    def version(self) -> str:
        """The resourceVersion; empty if the Lease does not exist."""
        return str(self._lease["metadata"]["resourceVersion"]) if self._lease else ""

    @property
    def takeable_at(self) -> float:
        """The time from which this manager may write the Lease, if it does not change before."""
        return -math.inf if self.is_held_by_me else self._takeable_at

    def observe(self, lease: Object | None, now: float) -> bool:
        """Record the Lease as it was received at a time, None if it does not exist; return if it changed."""
        if self._was_seen and _state_of(lease) == _state_of(self._lease):
            return False
        self._lease = lease
        seconds = self._spec.get("leaseDurationSeconds")
        if isinstance(seconds, int) and seconds > 0:
            self._duration = float(seconds)  # the holder leads by its own options, which may differ
        held = bool(self.holder) if lease else self._was_seen
        self._takeable_at = now + self._duration if held else -math.inf
        self._was_seen = self._was_seen or lease is not None
        return True

    def held(self, wall: float) -> Object:
        """Return the Lease with this manager as holder; `wall` is the time in seconds since 1970."""
        now, spec = _micro_time(wall), self._spec
        began = {"acquireTime": now, "leaseTransitions": self._transitions + 1}
        if self.is_held_by_me or not self._lease:
            began = {"acquireTime": spec.get("acquireTime") or now, "leaseTransitions": self._transitions}
        seconds = int(self._options.duration)
        return self._body(
            {"holderIdentity": self.identity, "leaseDurationSeconds": seconds, "renewTime": now} | began
        )

    def released(self, wall: float) -> Object:
        """Return the Lease without a holder."""
        return self._body(self._spec | {"holderIdentity": "", "renewTime": _micro_time(wall)})

    @property
    def _spec(self) -> dict[str, Any]:
        return (self._lease or {}).get("spec") or {}

    @property
    def _transitions(self) -> int:
        found = self._spec.get("leaseTransitions")
        return found if isinstance(found, int) else 0

    def _body(self, spec: Object) -> Object:
        """Return an object to create or to update; an update only of the version that was observed."""
        metadata = {"name": self._options.name, "namespace": self._options.namespace}
        version = {"resourceVersion": self.version} if self._lease else {}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata | version,
            "spec": spec,
        }


def _state_of(lease: Object | None) -> tuple[str, str] | None:
    """Return what changes with every write of a Lease, and when it is recreated."""
    return (lease["metadata"]["uid"], lease["metadata"]["resourceVersion"]) if lease else None


def _text(spec: dict[str, Any], field: str) -> str:
    value = spec.get(field)
    return value if isinstance(value, str) else ""


def _micro_time(wall: float) -> str:
    """Format a time as the API server wants it in Leases: with exactly six decimals."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
