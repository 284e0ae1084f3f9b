"""What nodes and pods really use, from the metrics API (`metrics.k8s.io`)."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cli.session import Refused, Session
from shoal.client.errors import UnreachableError
from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.resources import Object

_ROOT: Final = "/apis/metrics.k8s.io/v1beta1"
_MI: Final = 2**20


class Usage(msgspec.Struct, frozen=True):
    """CPU in thousandths of a core, memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.cpu + other.cpu, self.memory + other.memory)

    def shown(self) -> tuple[str, str]:
        """Both as kubectl writes them: thousandths of cores, and Mi."""
        return f"{self.cpu}m", f"{self.memory // _MI}Mi"


def usage_of(amounts: Mapping[str, str]) -> Usage:
    """What quantities say; thousandths are rounded up, so that what is used is never nothing."""
    cpu, memory = (Quantity(amounts.get(name) or "0").nano for name in ("cpu", "memory"))
    return Usage(-(-cpu * 1000 // NANO), memory // NANO)


def percent(part: int, whole: int) -> str:
    """A part of a whole, for people."""
    return f"{part * 100 // whole}%" if whole else "<unknown>"


def node_usage(session: Session, labels: str = "") -> dict[str, Usage]:
    """What each node uses."""
    found = _ask(session, f"{_ROOT}/nodes", labels)
    return {item["metadata"]["name"]: usage_of(item["usage"]) for item in found["items"]}


def pod_usage(session: Session, namespace: str, labels: str = "") -> dict[tuple[str, str], dict[str, Usage]]:
    """What each container uses, by namespace and pod."""
    path = f"{_ROOT}/namespaces/{namespace}/pods" if namespace else f"{_ROOT}/pods"
    found = _ask(session, path, labels)
    return {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): {
            container["name"]: usage_of(container["usage"]) for container in item.get("containers") or ()
        }
        for item in found["items"]
    }


def _ask(session: Session, path: str, labels: str) -> Object:
    try:
        return session.client.ask(path, _query(labels))
    except UnreachableError:
        raise
    except (NotFoundError, UnavailableError):
        raise Refused("error: Metrics API not available") from None


def _query(labels: str) -> dict[str, Any]:
    return {"labelSelector": labels} if labels else {}
