"""Containers: which one a request about a pod means, in the words of Kubernetes where it means none."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from shoal.cluster.embedded.api.asking import Ask
from shoal.cluster.errors import BadRequestError

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
