"""Answers to those who read what containers write."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response, StreamingResponse

from shoal.api.fields import FieldError, shown
from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.requests import number, truth
from shoal.apiserver.http.responses import HEADERS, PLAIN, plain_answer
from shoal.apiserver.http.watch import unless_stopping
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.times import seconds


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log is wanted; `since` is a moment in seconds since 1970."""

    follow: bool
    tail: int | None
    since: float | None
    limit: int | None
    timestamps: bool


async def read(ask: Ask) -> Response:
    """The log of a container, as it is or as it grows. A pod without a node has written nothing."""
    query = ask.request.query_params
    wanted = _wanted(query, ask.clock())
    container = await meant(ask)
    if not container.placed:
        return plain_answer("")
    target = ask.target
    run = ask.kubelet.run_of(target.namespace, target.name, container.name, previous=truth(query, "previous"))
    pieces = run.log.read(**msgspec.structs.asdict(wanted))
    return StreamingResponse(unless_stopping(pieces, ask.stopping), headers=HEADERS, media_type=PLAIN)


def _wanted(query: QueryParams, now: float) -> _Wanted:
    _check(query)
    past = number(query, "sinceSeconds")
    return _Wanted(
        follow=truth(query, "follow"),
        tail=number(query, "tailLines"),
        since=_moment(query) if past is None else now - past,
        limit=number(query, "limitBytes"),
        timestamps=truth(query, "timestamps"),
    )


def _check(query: QueryParams) -> None:
    """Refuse what makes no sense, as Kubernetes does."""
    problems = [
        FieldError(name, "must be greater than 0")
        for name in ("limitBytes", "sinceSeconds")
        if number(query, name) == 0
    ]
    if query.get("sinceTime") and query.get("sinceSeconds"):
        problems.append(FieldError("sinceTime", "is forbidden with sinceSeconds"))
    if query.get("stream", "All") != "All":
        problems.append(FieldError("stream", "must be All: what a container writes is kept together"))
    if problems:
        raise InvalidError(f"PodLogOptions is invalid: {'; '.join(map(str, problems))}", causes=problems)


def _moment(query: QueryParams) -> float | None:
    text = query.get("sinceTime", "")
    try:
        return seconds(msgspec.convert(text, datetime)) if text else None
    except msgspec.ValidationError:
        raise BadRequestError(
            f"sinceTime must be a time such as 2026-01-31T12:00:00Z, not '{shown(text)}'"
        ) from None


_ALL: Final = ("initContainers", "containers", "ephemeralContainers")


class Meant(msgspec.Struct, frozen=True):
    """A container of a pod, and whether the pod has a node that could run it."""

    name: str
    placed: bool


async def meant(ask: Ask) -> Meant:
    """The container that a request names, or the only one; BadRequestError if that is none."""
    target = ask.target
    pod = await ask.registry.get(target.resource, target.name, target.namespace)
    spec = pod["spec"]
    named = ask.request.query_params.get("container", "")
    return Meant(_container(target.name, spec, named), placed=bool(spec.get("nodeName")))


def _container(pod: str, spec: dict[str, Any], named: str) -> str:
    if named and named not in _names(spec):
        raise BadRequestError(f"container {named} is not valid for pod {pod}")
    if not named and len(spec["containers"]) > 1:
        choice = " ".join(_names(spec))
        raise BadRequestError(f"a container name must be specified for pod {pod}, choose one of: [{choice}]")
    return named or str(spec["containers"][0]["name"])


def _names(spec: dict[str, Any]) -> Iterator[str]:
    return (container["name"] for kind in _ALL for container in spec.get(kind) or ())
