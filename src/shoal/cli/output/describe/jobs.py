"""Jobs of all kinds: how far they are, why they wait, and their pods."""

from typing import Final

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

_LONG: Final = ("template", "tasks", "leader", "workerSets", "trainer", "pserver", "master", "volumes")
"""Parts of a spec that would drown the rest: pods are told of by themselves."""
_TOLD: Final = (
    "conditions",
    "allocation",
    "allocations",
    "nominations",
    "profilings",
    "workers",
    "scaleRecords",
)
"""Parts of a status that are told of in other ways, or are for programs."""


def describe(paper: DescriptionWriter, session: Session, job: Object, now: float) -> None:
    """All that is worth telling of a job."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    paper.heading("Spec")
    write_fields(paper, {name: value for name, value in spec.items() if name not in _LONG}, 1)
    _roles(paper, spec)
    paper.heading("Status")
    write_fields(paper, {name: value for name, value in status.items() if name not in _TOLD}, 1)
    _scaled(paper, status)
    write_conditions(paper, job, now)
    _pods(paper, session, job, now)


def _roles(paper: DescriptionWriter, spec: Object) -> None:
    """What the job is made of, and how many of each."""
    rows = [
        *([[spec["leader"]["name"], 1]] if "leader" in spec else []),
        *([workers["name"], workers.get("counts", 1)] for workers in spec.get("workerSets") or ()),
        *(
            [task.get("name") or task.get("type"), task.get("replicas", 1)]
            for task in spec.get("tasks") or ()
        ),
        *(
            [role, f"{spec[role].get('min-instance', 1)}…{spec[role].get('max-instance', 1)}"]
            for role in ("master", "pserver", "trainer")
            if role in spec
        ),
    ]
    if rows:
        paper.table("Roles", [["Role", "Pods"], *rows], 1)


def _scaled(paper: DescriptionWriter, status: Object) -> None:
    rows = [[scalar_text(value) for value in record.values()] for record in status.get("scaleRecords") or ()]
    if rows:
        titles = [field_title(name) for name in status["scaleRecords"][0]]
        paper.table("Scaled", [titles, *rows], 1)


def _pods(paper: DescriptionWriter, session: Session, job: Object, now: float) -> None:
    """The job's pods, with the nodes they are on or were given."""
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
                one.get("restartCount", 0) for one in (pod.get("status") or {}).get("containerStatuses") or ()
            ),
            format_age(pod["metadata"].get("creationTimestamp"), now),
        ]
        for pod in pods
    ]
    paper.table("Pods", [["Name", "Status", "Node", "IP", "Restarts", "Age"], *rows])
    status = job.get("status") or {}
    for title in ("allocations", "nominations"):
        if status.get(title):
            paper.pairs(field_title(title), status[title], sign=" on ")
