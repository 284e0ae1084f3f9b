"""Descriptions of objects, by kind; those of jobs have their state, why they wait, and their pods."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shoal.cli.input.selection import is_owned_by
from shoal.cli.input.session import Session
from shoal.cli.output.describe import common, objects
from shoal.cli.output.describe.common import (
    NONE,
    DescriptionWriter,
    field_title,
    scalar_text,
    write_conditions,
    write_fields,
)
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, NODES, PODS, SECRETS, Object, Resource, resource_of
from shoal.cluster.times import format_age

if TYPE_CHECKING:
    from shoal.kinds.base import JobKind, PodSummary

_Describe = Callable[[DescriptionWriter, Session, Object, float], None]

_KINDS: Final[dict[str, _Describe]] = {
    PODS.full_name: objects.describe_pod,
    NODES.full_name: objects.describe_node,
    resource_of("Pool").full_name: objects.describe_pool,
    SECRETS.full_name: objects.describe_secret,
}
_SHOWN_APART: Final = (
    "conditions",
    "counted",
    "allocation",
    "allocations",
    "nominations",
    "profilings",
    "workers",
    "scaleRecords",
    "wholeMinimum",
)
"""Fields of a status that are shown in other ways, or are for programs."""
_POD_COLUMNS: Final = ("Rank", "Name", "Status", "Node", "IP", "Restarts", "Age", "Reason")
_OPTIONAL_COLUMNS: Final = ("Rank", "Reason")


def describe_object(session: Session, resource: Resource[Any], obj: Object, *, events: bool) -> str:
    """Describe an object: its fields, its conditions, and its events."""
    writer, now = DescriptionWriter(), time.time()
    common.write_identity(writer, obj)
    describe = _describer(resource)
    if describe is None:
        writer.line("API Version", resource.api_version)
        writer.line("Kind", resource.kind)
    (describe or objects.describe_fields)(writer, session, obj, now)
    if events:
        common.write_events(writer, _events(session, resource, obj), now)
    return str(writer)


def _describer(resource: Resource[Any]) -> _Describe | None:
    """The description of a kind; None if its objects are described field by field."""
    if resource.full_name in _KINDS or not resource.group:  # no job kind, and these are slow to import
        return _KINDS.get(resource.full_name)
    from shoal.kinds.base import job_kinds

    kind = job_kinds().get(resource.kind)
    return partial(_describe_job, kind) if kind and kind.group == resource.group else None


def _events(session: Session, resource: Resource[Any], obj: Object) -> list[Object]:
    """The events of an object; for a cluster-scoped object those of all namespaces."""
    metadata = obj["metadata"]
    fields = [f"involvedObject.kind={resource.kind}", f"involvedObject.name={metadata['name']}"]
    # Events of nodes have the node's name in place of its uid.
    fields += [f"involvedObject.uid={metadata['uid']}"] if resource.namespaced else []
    try:
        return session.client.list(EVENTS, Selector(metadata.get("namespace", ""), fields=",".join(fields)))
    except ForbiddenError:
        return []


# --- jobs ---------------------------------------------------------------------------------------------------


def _describe_job(
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
    _write_pods(writer, kind, session, job, now)


def _write_scale_records(writer: DescriptionWriter, status: Object) -> None:
    rows = [[scalar_text(value) for value in record.values()] for record in status.get("scaleRecords") or ()]
    if rows:
        titles = [field_title(name) for name in status["scaleRecords"][0]]
        writer.table("Scaled", [titles, *rows], 1)


def _write_pods(
    writer: DescriptionWriter, kind: "JobKind[Any]", session: Session, job: Object, now: float
) -> None:
    """The pods of the job, and the nodes that are allocated to or reserved for pods that have none yet."""
    pods = {
        pod["metadata"]["name"]: pod
        for pod in session.client.list(PODS, Selector(job["metadata"]["namespace"]))
        if is_owned_by(pod, job)
    }
    writer.table("Pods", pod_table(pods, kind.pod_summaries(job), now))
    status = job.get("status") or {}
    for title in ("allocations", "nominations"):
        awaited = {
            name: node for name, node in (status.get(title) or {}).items() if not _has_node(pods.get(name))
        }
        if awaited:
            writer.pairs(field_title(title), awaited, sign=" on ")


def _has_node(pod: Object | None) -> bool:
    return bool(((pod or {}).get("spec") or {}).get("nodeName"))


def pod_table(pods: dict[str, Object], summaries: Iterable["PodSummary"], now: float) -> list[list[object]]:
    """The pods of a job, by name, with what its status says about them; by rank, else by name.

    The columns Rank and Reason are shown if there is anything in them.
    """
    from shoal.kinds.base import PodSummary

    listed = list(summaries)
    unlisted = pods.keys() - {one.pod for one in listed}
    listed += (PodSummary(pod=name) for name in unlisted)
    listed.sort(key=lambda one: (one.rank is None, one.rank or 0, one.pod))
    rows = [_pod_row(one, pods.get(one.pod), now) for one in listed]
    kept = [
        i
        for i, title in enumerate(_POD_COLUMNS)
        if title not in _OPTIONAL_COLUMNS or any(row[i] != NONE for row in rows)
    ]
    return [[row[i] for i in kept] for row in (list[object](_POD_COLUMNS), *rows)]


def _pod_row(summary: "PodSummary", pod: Object | None, now: float) -> list[object]:
    """The row of a pod, or of a rank that has none now."""
    metadata, spec, status = ((pod or {}).get(part) or {} for part in ("metadata", "spec", "status"))
    phase = "Terminating" if metadata.get("deletionTimestamp") else status.get("phase")
    containers = status.get("containerStatuses") or ()
    return [
        NONE if summary.rank is None else summary.rank,
        summary.pod or NONE,
        phase or summary.phase or NONE,
        spec.get("nodeName") or NONE,
        status.get("podIP") or NONE,
        summary.restarts + sum(each.get("restartCount", 0) for each in containers),
        format_age(metadata["creationTimestamp"], now) if pod else NONE,
        summary.reason or (_failure(pod) if pod and phase == "Failed" else NONE),
    ]


def _failure(pod: Object) -> str:
    from shoal.api.managed import ManagedPod
    from shoal.controllers.jobs.ends import describe_end

    return describe_end(msgspec.convert(pod, ManagedPod))
