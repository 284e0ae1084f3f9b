"""Pods: where they run, and what goes on in their containers."""

from shoal.cli.input.session import Session
from shoal.cli.output.describe.common import NONE, DescriptionWriter, write_conditions
from shoal.cluster.resources import Object


def describe(paper: DescriptionWriter, _: Session, pod: Object, now: float) -> None:
    """All that is worth telling of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    paper.line("Node", spec.get("nodeName") or NONE)
    if status.get("nominatedNodeName"):
        paper.line("Nominated Node", status["nominatedNodeName"])
    paper.line("Priority", spec.get("priority", 0))
    paper.line("Scheduler", spec.get("schedulerName") or NONE)
    paper.line("Start Time", status.get("startTime") or NONE)
    paper.line("Status", status.get("phase") or NONE)
    for name in ("reason", "message"):
        if status.get(name):
            paper.line(name.capitalize(), status[name])
    paper.line("IP", status.get("podIP") or NONE)
    for title, part in (("Init Containers", "initContainers"), ("Containers", "containers")):
        if spec.get(part):
            paper.heading(title)
            statuses = {one["name"]: one for one in status.get(f"{part[:-1]}Statuses") or ()}
            for container in spec[part]:
                _container(paper, container, statuses.get(container["name"], {}))
    write_conditions(paper, pod, now)
    volumes = [
        [volume["name"], *(kind for kind in volume if kind != "name")] for volume in spec.get("volumes") or ()
    ]
    if volumes:
        paper.table("Volumes", [["Name", "Type"], *volumes])
    paper.pairs("Node-Selectors", spec.get("nodeSelector"))


def _container(paper: DescriptionWriter, container: Object, status: Object) -> None:
    paper.heading(container["name"], 1)
    paper.line("Image", container.get("image") or NONE, 2)
    for name in ("command", "args"):
        if container.get(name):
            paper.line(name.capitalize(), "\n".join(container[name]), 2)
    _state(paper, "State", status.get("state") or {"waiting": {}})
    if status.get("lastState"):
        _state(paper, "Last State", status["lastState"])
    paper.line("Ready", bool(status.get("ready")), 2)
    paper.line("Restart Count", status.get("restartCount", 0), 2)
    for name in ("limits", "requests"):
        if found := (container.get("resources") or {}).get(name):
            paper.pairs(name.capitalize(), found, sign=": ", depth=2)
    environment = [
        f"{one['name']}: {one.get('value', '<from elsewhere>')}" for one in container.get("env") or ()
    ]
    paper.line("Environment", "\n".join(environment) or NONE, 2)


def _state(paper: DescriptionWriter, title: str, state: Object) -> None:
    for name, about in state.items():
        said = ", ".join(f"{key} {value}" for key, value in (about or {}).items() if value not in (None, ""))
        paper.line(title, f"{name.capitalize()} ({said})" if said else name.capitalize(), 2)
