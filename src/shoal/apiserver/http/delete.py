"""Answers to those who delete: one object, or all that are meant."""

from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from shoal.apiserver.http import bodies
from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.representations import Shaper, listed
from shoal.apiserver.http.requests import dry_run, number, reading_of, truth
from shoal.apiserver.http.responses import json_answer, success, text_answer
from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import PODS

_KINDS: Final = (None, "", "DeleteOptions")


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """How to delete, as clients say it."""

    kind: str | None = None
    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


class _Uid(msgspec.Struct):
    uid: str = ""


class _Glance(msgspec.Struct):
    metadata: _Uid


_glance: Final = msgspec.json.Decoder(_Glance)


async def delete(ask: Ask) -> Response:
    """Delete one object: answered with the object while it is still there, and for pods always."""
    target, how = ask.target, await _how(ask)
    before = await ask.registry.get(target.text, target.name, target.namespace)
    left = await ask.registry.delete(target.text, target.name, target.namespace, how)
    if left is None and target.resource.full_name == PODS.full_name:
        left = _ended(before)
    if left is None:
        return json_answer(success(target, _glance.decode(before).metadata.uid))
    return text_answer(Shaper(target.resource, ask.shape, ask.request.query_params, ask.clock).one(left))


def _ended(before: bytes) -> bytes:
    """A pod as it was when it went: with no time left, so that nobody waits for its end."""
    pod = msgspec.json.decode(before)
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    return msgspec.json.encode(pod)


async def delete_all(ask: Ask) -> Response:
    """Delete all objects that are meant."""
    reading = reading_of(ask.request.query_params, ask.target.namespace)
    gone = await ask.registry.delete_all(ask.target.text, reading.where, await _how(ask))
    resource = ask.target.resource
    metadata = {"resourceVersion": ask.registry.version}
    return text_answer(listed(f"{resource.kind}List", resource.api_version, metadata, list(gone)))


async def _how(ask: Ask) -> Deletion:
    """What the body says, or without one the query."""
    query = ask.request.query_params
    if text := await bodies.read(ask.request):
        return deletion_of(bodies.object_in(text, bodies.media_type(ask.request)).value)
    said: dict[str, Any] = {
        "gracePeriodSeconds": number(query, "gracePeriodSeconds"),
        "propagationPolicy": query.get("propagationPolicy") or None,
        "orphanDependents": truth(query, "orphanDependents") if "orphanDependents" in query else None,
        "dryRun": query.getlist("dryRun"),
    }
    return deletion_of(said)


def deletion_of(said: object) -> Deletion:
    """How to delete, from what a client says."""
    try:
        options = msgspec.convert(said or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"DeleteOptions cannot be read: {error}") from None
    if options.kind not in _KINDS:
        raise BadRequestError(f"DeleteOptions is wanted, not {options.kind}")
    meant = options.preconditions or _Preconditions()
    return Deletion(
        grace=options.grace_period_seconds,
        propagation=_propagation(options),
        uid=meant.uid or "",
        version=meant.resource_version or "",
        dry_run=dry_run(options.dry_run or []),
    )


def _propagation(options: DeleteOptions) -> Propagation | None:
    if options.orphan_dependents is None:
        return options.propagation_policy
    if options.propagation_policy is not None:
        raise BadRequestError("orphanDependents and propagationPolicy cannot be said together")
    return "Orphan" if options.orphan_dependents else "Background"
