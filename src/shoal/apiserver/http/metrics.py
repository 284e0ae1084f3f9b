"""metrics.k8s.io: what nodes and pods really consume, for `kubectl top`.

What there is, and whom a selector means, is asked of the objects: an object that nothing was measured of
yet is left out.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.requests import NODE_METRICS, Target, reading_of
from shoal.apiserver.http.responses import json_answer
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import NODES, PODS, Object, Resource
from shoal.cluster.times import as_text
from shoal.kubelet.runtime import Consumption, Load


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


class _Measured(msgspec.Struct):
    metadata: _Metadata


async def read(ask: Ask) -> Response:
    """Of one object, or of all that are selected."""
    target, usage = ask.target, ask.kubelet.usage()
    objects = _objects_of(target)
    if target.name:
        found = await ask.registry.get(objects, target.name, target.namespace)
        return json_answer(_one(target, found, usage))
    page = await ask.registry.list(objects, reading_of(ask.request.query_params, target.namespace).where)
    items = (_metrics(target.resource, found, usage) for found in page.items)
    return json_answer(_list(target.resource, (item for item in items if item)))


def _objects_of(target: Target) -> Resource[_Measured]:
    objects = NODES if target.resource is NODE_METRICS else PODS
    return objects.read_as(lambda text: msgspec.json.decode(text, type=_Measured))


def _one(target: Target, found: _Measured, usage: Consumption) -> Object:
    made = _metrics(target.resource, found, usage)
    if not made:
        raise NotFoundError(f'{target.resource.plural}.metrics.k8s.io "{target.name}" not found')
    return made


def _list(resource: Resource[Any], items: Iterable[Object]) -> Object:
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": {},
        "items": list(items),
    }


def _metrics(resource: Resource[Any], found: _Measured, usage: Consumption) -> Object:
    """What was measured of an object; nothing, if nothing was."""
    used = _used(resource, found.metadata, usage)
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": found.metadata}
    when = {"timestamp": as_text(usage.at), "window": f"{usage.window:.3f}s"}
    return {**head, **when, **used} if used else {}


def _used(resource: Resource[Any], metadata: _Metadata, usage: Consumption) -> Object:
    if resource is NODE_METRICS:
        load = usage.nodes.get(metadata.name)
        return {"usage": _usage(load)} if load else {}
    loads = usage.pods.get((metadata.namespace, metadata.name), {})
    containers = [{"name": name, "usage": _usage(load)} for name, load in sorted(loads.items())]
    return {"containers": containers} if containers else {}


def _usage(load: Load) -> dict[str, str]:
    return {"cpu": f"{round(load.cpu * 1e9)}n", "memory": f"{load.memory // 1024}Ki"}
