"""Nodes: what they have, and the pods on them with what they ask for."""

import msgspec

from shoal.api.podspec import PodSpec, requests
from shoal.api.quantity import NANO, format_bytes, format_decimal
from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import NONE, DescriptionWriter, write_conditions
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object


def describe(paper: DescriptionWriter, session: Session, node: Object, now: float) -> None:
    """All that is worth telling of a node."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    taints = [
        f"{one['key']}{'=' + one['value'] if one.get('value') else ''}:{one['effect']}"
        for one in spec.get("taints") or ()
    ]
    paper.line("Taints", "\n".join(taints) or NONE)
    paper.line("Unschedulable", str(bool(spec.get("unschedulable"))).lower())
    write_conditions(paper, node, now)
    paper.pairs(
        "Addresses", {one["type"]: one["address"] for one in status.get("addresses") or ()}, sign=": "
    )
    there = status.get("allocatable") or {}
    rows = [
        [name, amount, there.get(name, "0")]
        for name, amount in sorted((status.get("capacity") or {}).items())
    ]
    paper.table("Resources", [["Resource", "Capacity", "Allocatable"], *rows])
    _pods(paper, session, node)


def _pods(paper: DescriptionWriter, session: Session, node: Object) -> None:
    where = Selector(fields=f"spec.nodeName={node['metadata']['name']}")
    pods = [pod for pod in session.client.list(PODS, where) if not _has_ended(pod)]
    rows = [
        [pod["metadata"]["namespace"], pod["metadata"]["name"], ", ".join(_asked(pod)) or NONE]
        for pod in pods
    ]
    paper.table("Pods", [["Namespace", "Name", "Requests"], *rows])


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _asked(pod: Object) -> list[str]:
    """What a pod asks for, as its author would write it."""
    amounts = requests(msgspec.convert(pod["spec"], PodSpec))
    return [
        f"{name} {format_decimal(nano * 1000 // NANO) if name == 'cpu' else format_bytes(nano // NANO)}"
        for name, nano in sorted(amounts.items())
    ]
