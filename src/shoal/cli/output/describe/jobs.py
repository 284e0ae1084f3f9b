"""Descriptions of jobs of all kinds: their state, why they wait, and their pods."""

from typing import TYPE_CHECKING, Any, Final

from shoal.cli.input.selection import is_owned_by
from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import (
    NONE,
    DescriptionWriter,
    field_title,
    scalar_text,
    write_conditions,
    write_fields,
)
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object
from shoal.cluster.times import format_age

if TYPE_CHECKING:
    from shoal.kinds.base import JobKind

_SHOWN_APART: Final = (
    "conditions",
    "allocation",
    "allocations",
    "nominations",
    "profilings",
    "workers",
    "scaleRecords",
)
"""Fields of a status that are shown in other ways, or are for programs."""


def describe(
    kind: "JobKind[Any]", writer: DescriptionWriter, session: Session, job: Object, now: float
) -> None:
    """Describe a job: its spec without the pod templates, its state, its pods and their nodes."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    writer.heading("Spec")
    write_fields(writer, {name: value for name, value in spec.items() if name not in kind.role_fields}, 1)
    roles = [list(role) for role in kind.roles(job)]
    if roles:
        writer.table("Roles", [["Role", "Pods"], *roles], 1)
    writer.heading("Status")
    write_fields(writer, {name: value for name, value in status.items() if name not in _SHOWN_APART}, 1)
    _write_scale_records(writer, status)
    write_conditions(writer, job, now)
    _write_pods(writer, session, job, now)


def _write_scale_records(writer: DescriptionWriter, status: Object) -> None:
    rows = [[scalar_text(value) for value in record.values()] for record in status.get("scaleRecords") or ()]
    if rows:
        titles = [field_title(name) for name in status["scaleRecords"][0]]
        writer.table("Scaled", [titles, *rows], 1)


def _write_pods(writer: DescriptionWriter, session: Session, job: Object, now: float) -> None:
    """The pods of the job, and the nodes that are allocated to or reserved for pods."""
    pods = [
        pod
        for pod in session.client.list(PODS, Selector(job["metadata"]["namespace"]))
        if is_owned_by(pod, job)
    ]
    rows = [
        [
            pod["metadata"]["name"],
            (pod.get("status") or {}).get("phase", NONE),
            (pod.get("spec") or {}).get("nodeName", NONE),
            (pod.get("status") or {}).get("podIP", NONE),
            sum(
                each.get("restartCount", 0)
                for each in (pod.get("status") or {}).get("containerStatuses") or ()
            ),
            format_age(pod["metadata"].get("creationTimestamp"), now),
        ]
        for pod in pods
    ]
    writer.table("Pods", [["Name", "Status", "Node", "IP", "Restarts", "Age"], *rows])
    status = job.get("status") or {}
    for title in ("allocations", "nominations"):
        if status.get(title):
            writer.pairs(field_title(title), status[title], sign=" on ")
