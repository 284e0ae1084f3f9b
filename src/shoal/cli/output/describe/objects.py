"""Descriptions of pods, nodes, pools and secrets; and of all other kinds, field by field."""

import base64
import binascii
from typing import Final

import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.podspec import PodSpec, requests
from shoal.api.quantity import NANO, format_bytes, format_milli
from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import NONE, DescriptionWriter, write_conditions, write_fields
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object

_POOL_COLUMNS: Final = ("capacity", "allocatable", "used", "shared", "system", "borrowed", "pending", "free")


# --- pods ---------------------------------------------------------------------------------------------------


def describe_pod(writer: DescriptionWriter, _: Session, pod: Object, now: float) -> None:
    """Describe a pod: its node, status, containers and volumes."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    writer.line("Node", spec.get("nodeName") or NONE)
    if status.get("nominatedNodeName"):
        writer.line("Nominated Node", status["nominatedNodeName"])
    writer.line("Priority", spec.get("priority", 0))
    writer.line("Scheduler", spec.get("schedulerName") or NONE)
    writer.line("Start Time", status.get("startTime") or NONE)
    writer.line("Status", status.get("phase") or NONE)
    for name in ("reason", "message"):
        if status.get(name):
            writer.line(name.capitalize(), status[name])
    writer.line("IP", status.get("podIP") or NONE)
    for title, part in (("Init Containers", "initContainers"), ("Containers", "containers")):
        if spec.get(part):
            writer.heading(title)
            statuses = {each["name"]: each for each in status.get(f"{part[:-1]}Statuses") or ()}
            for container in spec[part]:
                _write_container(writer, container, statuses.get(container["name"], {}))
    write_conditions(writer, pod, now)
    volumes = [
        [volume["name"], *(kind for kind in volume if kind != "name")] for volume in spec.get("volumes") or ()
    ]
    if volumes:
        writer.table("Volumes", [["Name", "Type"], *volumes])
    writer.pairs("Node-Selectors", spec.get("nodeSelector"))


def _write_container(writer: DescriptionWriter, container: Object, status: Object) -> None:
    writer.heading(container["name"], 1)
    writer.line("Image", container.get("image") or NONE, 2)
    for name in ("command", "args"):
        if container.get(name):
            writer.line(name.capitalize(), "\n".join(container[name]), 2)
    _write_state(writer, "State", status.get("state") or {"waiting": {}})
    if status.get("lastState"):
        _write_state(writer, "Last State", status["lastState"])
    writer.line("Ready", bool(status.get("ready")), 2)
    writer.line("Restart Count", status.get("restartCount", 0), 2)
    for name in ("limits", "requests"):
        if amounts := (container.get("resources") or {}).get(name):
            writer.pairs(name.capitalize(), amounts, sign=": ", depth=2)
    environment = [
        f"{each['name']}: {each.get('value', '<from elsewhere>')}" for each in container.get("env") or ()
    ]
    writer.line("Environment", "\n".join(environment) or NONE, 2)


def _write_state(writer: DescriptionWriter, title: str, state: Object) -> None:
    for name, state_fields in state.items():
        details = ", ".join(
            f"{key} {value}" for key, value in (state_fields or {}).items() if value not in (None, "")
        )
        writer.line(title, f"{name.capitalize()} ({details})" if details else name.capitalize(), 2)


# --- nodes --------------------------------------------------------------------------------------------------


def describe_node(writer: DescriptionWriter, session: Session, node: Object, now: float) -> None:
    """Describe a node: its taints, resources, and the pods on it with their requests."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    taints = [
        f"{each['key']}{'=' + each['value'] if each.get('value') else ''}:{each['effect']}"
        for each in spec.get("taints") or ()
    ]
    writer.line("Taints", "\n".join(taints) or NONE)
    writer.line("Unschedulable", str(bool(spec.get("unschedulable"))).lower())
    write_conditions(writer, node, now)
    writer.pairs(
        "Addresses", {each["type"]: each["address"] for each in status.get("addresses") or ()}, sign=": "
    )
    allocatable = status.get("allocatable") or {}
    rows = [
        [name, amount, allocatable.get(name, "0")]
        for name, amount in sorted((status.get("capacity") or {}).items())
    ]
    writer.table("Resources", [["Resource", "Capacity", "Allocatable"], *rows])
    _write_pods(writer, session, node)


def _write_pods(writer: DescriptionWriter, session: Session, node: Object) -> None:
    selector = Selector(fields=f"spec.nodeName={node['metadata']['name']}")
    pods = [pod for pod in session.client.list(PODS, selector) if not _is_finished(pod)]
    rows = [
        [pod["metadata"]["namespace"], pod["metadata"]["name"], ", ".join(_request_texts(pod)) or NONE]
        for pod in pods
    ]
    writer.table("Pods", [["Namespace", "Name", "Requests"], *rows])


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED_PHASES


def _request_texts(pod: Object) -> list[str]:
    """The requests of a pod as quantities."""
    amounts = requests(msgspec.convert(pod["spec"], PodSpec))
    return [
        f"{name} {format_milli(nano * 1000 // NANO) if name == 'cpu' else format_bytes(nano // NANO)}"
        for name, nano in sorted(amounts.items())
    ]


# --- pools --------------------------------------------------------------------------------------------------


def describe_pool(writer: DescriptionWriter, _: Session, pool: Object, now: float) -> None:
    """Describe a pool: its features, nodes and resources."""
    status = pool.get("status") or {}
    if pool.get("spec"):
        writer.heading("Spec")
        write_fields(writer, pool["spec"], 1)
    features = ("preemption", "borrowing", "sharing")
    enabled = [name for name in features if status.get(name, True)]
    writer.line("Features", ", ".join(enabled) or "none")
    writer.line("Nodes", status.get("nodes", 0))
    writer.line("Pending Pods", status.get("pendingPods", 0))
    resources = sorted({name for column in _POOL_COLUMNS for name in status.get(column) or {}})
    rows = [
        [name, *((status.get(column) or {}).get(name, "0") for column in _POOL_COLUMNS)] for name in resources
    ]
    writer.table("Figures", [["Resource", *map(str.capitalize, _POOL_COLUMNS)], *rows])
    write_conditions(writer, pool, now)


# --- other kinds --------------------------------------------------------------------------------------------


def describe_fields(writer: DescriptionWriter, _: Session, obj: Object, now: float) -> None:
    """Describe an object of any kind, field by field."""
    written = ("apiVersion", "kind", "metadata", "status")
    write_fields(writer, {name: value for name, value in obj.items() if name not in written})
    status = {name: value for name, value in (obj.get("status") or {}).items() if name != "conditions"}
    if status:
        writer.heading("Status")
        write_fields(writer, status, 1)
    write_conditions(writer, obj, now)


def describe_secret(writer: DescriptionWriter, _: Session, secret: Object, __: float) -> None:
    """Describe a secret: the sizes of its values, not the values."""
    writer.line("Type", secret.get("type", ""))
    sizes = {name: f"{_size(text)} bytes" for name, text in (secret.get("data") or {}).items()}
    writer.pairs("Data", sizes, sign=": ")


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)
