"""Handlers that need the kubelet: logs, exec (attach and port-forward are refused) and metrics.k8s.io.

Errors of exec are raised before the WebSocket is accepted, as the response to an ordinary request. Metrics
are returned for the stored objects that a selector matches; objects without a measurement are left out.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from shoal.api.fields import FieldError, shown
from shoal.apiserver.http.remote_command import PROTOCOLS, Command, Session
from shoal.apiserver.http.requests import (
    NODE_METRICS,
    RequestContext,
    Target,
    bool_param,
    int_param,
    parse_list_options,
)
from shoal.apiserver.http.responses import HEADERS, PLAIN, json_response, text_response, until_stopped
from shoal.cluster.errors import BadRequestError, InvalidError, MethodNotAllowedError, NotFoundError
from shoal.cluster.resources import NODES, PODS, Object, Resource
from shoal.cluster.times import format_time, to_seconds
from shoal.kubelet.runtime import ResourceUsage, UsageReport


class _LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Requested part of a log; `since` is in seconds since 1970."""

    follow: bool
    tail: int | None
    since: float | None
    limit: int | None
    timestamps: bool


async def read_log(context: RequestContext) -> Response:
    """Handle a request for a container's log; that of an unscheduled pod is empty."""
    query = context.request.query_params
    options = _parse_log_options(query, context.clock())
    container = await container_of_request(context)
    if not container.scheduled:
        return text_response("")
    target = context.target
    run = context.kubelet.find_run(
        target.namespace, target.name, container.name, previous=bool_param(query, "previous")
    )
    chunks = run.log.read(**msgspec.structs.asdict(options))
    return StreamingResponse(until_stopped(chunks, context.stopping), headers=HEADERS, media_type=PLAIN)


def _parse_log_options(query: QueryParams, now: float) -> _LogOptions:
    _check_log_options(query)
    past = int_param(query, "sinceSeconds")
    return _LogOptions(
        follow=bool_param(query, "follow"),
        tail=int_param(query, "tailLines"),
        since=_since_time(query) if past is None else now - past,
        limit=int_param(query, "limitBytes"),
        timestamps=bool_param(query, "timestamps"),
    )


def _check_log_options(query: QueryParams) -> None:
    """Refuse combinations of options that Kubernetes refuses."""
    errors = [
        FieldError(name, "must be greater than 0")
        for name in ("limitBytes", "sinceSeconds")
        if int_param(query, name) == 0
    ]
    if query.get("sinceTime") and query.get("sinceSeconds"):
        errors.append(FieldError("sinceTime", "is forbidden with sinceSeconds"))
    if query.get("stream", "All") != "All":
        errors.append(FieldError("stream", "must be All: stdout and stderr are stored in one log"))
    if errors:
        raise InvalidError(f"PodLogOptions is invalid: {'; '.join(map(str, errors))}", causes=errors)


def _since_time(query: QueryParams) -> float | None:
    text = query.get("sinceTime", "")
    try:
        return to_seconds(msgspec.convert(text, datetime)) if text else None
    except msgspec.ValidationError:
        raise BadRequestError(
            f"sinceTime must be a time such as 2026-01-31T12:00:00Z, not '{shown(text)}'"
        ) from None


_CONTAINER_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")


class RequestedContainer(msgspec.Struct, frozen=True):
    """A container of a pod, and whether the pod has a node."""

    name: str
    scheduled: bool


async def container_of_request(context: RequestContext) -> RequestedContainer:
    """Return the container in the query, or the pod's only one; BadRequestError if it does not exist."""
    target = context.target
    pod = await context.registry.get(target.resource, target.name, target.namespace)
    spec = pod["spec"]
    named = context.request.query_params.get("container", "")
    return RequestedContainer(
        _resolve_container(target.name, spec, named), scheduled=bool(spec.get("nodeName"))
    )


def _resolve_container(pod: str, spec: dict[str, Any], named: str) -> str:
    if named and named not in _container_names(spec):
        raise BadRequestError(f"container {named} is not valid for pod {pod}")
    if not named and len(spec["containers"]) > 1:
        choice = " ".join(_container_names(spec))
        raise BadRequestError(f"a container name must be specified for pod {pod}, choose one of: [{choice}]")
    return named or str(spec["containers"][0]["name"])


def _container_names(spec: dict[str, Any]) -> Iterator[str]:
    return (container["name"] for kind in _CONTAINER_FIELDS for container in spec.get(kind) or ())


async def execute(context: RequestContext) -> ASGIApp:
    """Handle an exec: run a command in a container over a WebSocket."""
    command = _command(context.request.query_params)
    container, target = await container_of_request(context), context.target
    if not container.scheduled:
        raise BadRequestError(f"pod {target.name} does not have a host assigned")
    run = context.kubelet.find_run(target.namespace, target.name, container.name)
    if run.exit is not None:
        raise NotFoundError(f'container not found ("{container.name}")')
    return Session(run, command, _protocol(context), context.stopping)


async def attach(context: RequestContext) -> ASGIApp:
    """Refuse attach: containers have no open standard input."""
    raise MethodNotAllowedError(
        f"attach to containers of pod {context.target.name} is not supported; follow the output with "
        "`kubectl logs -f`, or run a command with `kubectl exec -it`"
    )


async def port_forward(context: RequestContext) -> ASGIApp:
    """Refuse port-forward: pods run on this machine."""
    raise MethodNotAllowedError(
        f"port-forward to pod {context.target.name} is not supported; it runs on this machine, "
        "use the address in `kubectl get pods -o wide`"
    )


def _command(query: QueryParams) -> Command:
    tty = bool_param(query, "tty")
    command = Command(
        argv=query.getlist("command"),
        stdin=bool_param(query, "stdin"),
        stdout=bool_param(query, "stdout"),
        stderr=bool_param(query, "stderr") and not tty,  # a terminal has a single output stream
        tty=tty,
    )
    if not any(command.argv):
        raise BadRequestError("you must specify a command")
    if not (command.stdin or command.stdout or command.stderr):
        raise BadRequestError("you must specify at least 1 of stdin, stdout, stderr")
    return command


def _protocol(context: RequestContext) -> str:
    """Choose the WebSocket subprotocol: the first offered one that is supported."""
    offered: list[str] | None = context.request.scope.get("subprotocols")
    if offered is None:
        raise BadRequestError("exec requires a WebSocket; use kubectl 1.31 or newer")
    protocol = next((protocol for protocol in offered if protocol in PROTOCOLS), None)
    if protocol is None:
        offered_names = ", ".join(offered) or "none"
        raise BadRequestError(
            f"the WebSocket subprotocol must be {' or '.join(PROTOCOLS)}, not {offered_names}"
        )
    return protocol


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


class _MeasuredObject(msgspec.Struct):
    metadata: _Metadata


async def read_metrics(context: RequestContext) -> Response:
    """Handle a request for the metrics of one object or of a selection."""
    target, usage = context.target, context.kubelet.usage()
    objects = _objects_of(target)
    if target.name:
        found = await context.registry.get(objects, target.name, target.namespace)
        return json_response(_metrics_or_not_found(target, found, usage))
    page = await context.registry.list(
        objects, parse_list_options(context.request.query_params, target.namespace).selector
    )
    items = (_metrics(target.resource, found, usage) for found in page.items)
    return json_response(_list(target.resource, (item for item in items if item)))


def _objects_of(target: Target) -> Resource[_MeasuredObject]:
    objects = NODES if target.resource is NODE_METRICS else PODS
    return objects.read_as(lambda text: msgspec.json.decode(text, type=_MeasuredObject))


def _metrics_or_not_found(target: Target, found: _MeasuredObject, usage: UsageReport) -> Object:
    item = _metrics(target.resource, found, usage)
    if not item:
        raise NotFoundError(f'{target.resource.plural}.metrics.k8s.io "{target.name}" not found')
    return item


def _list(resource: Resource[Any], items: Iterable[Object]) -> Object:
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": {},
        "items": list(items),
    }


def _metrics(resource: Resource[Any], found: _MeasuredObject, usage: UsageReport) -> Object:
    """Return the metrics of an object; empty without a measurement."""
    usage_fields = _usage_fields(resource, found.metadata, usage)
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": found.metadata}
    when = {"timestamp": format_time(usage.at), "window": f"{usage.window:.3f}s"}
    return {**head, **when, **usage_fields} if usage_fields else {}


def _usage_fields(resource: Resource[Any], metadata: _Metadata, usage: UsageReport) -> Object:
    if resource is NODE_METRICS:
        load = usage.nodes.get(metadata.name)
        return {"usage": _usage(load)} if load else {}
    loads = usage.pods.get((metadata.namespace, metadata.name), {})
    containers = [{"name": name, "usage": _usage(load)} for name, load in sorted(loads.items())]
    return {"containers": containers} if containers else {}


def _usage(load: ResourceUsage) -> dict[str, str]:
    return {"cpu": f"{round(load.cpu * 1e9)}n", "memory": f"{load.memory // 1024}Ki"}
