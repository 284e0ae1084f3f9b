"""Containers of pods: which there are, and which is meant where none is named."""

import click

from shoal.cluster.resources import Object

_DEFAULT = "kubectl.kubernetes.io/default-container"


def names(pod: Object) -> list[str]:
    """All containers of a pod, those that come first first."""
    spec = pod.get("spec") or {}
    return [
        str(container["name"])
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]


def usual(pod: Object, *, quiet: bool = False) -> str:
    """The container that is meant if none is named, said on standard error if there are others."""
    said = (pod["metadata"].get("annotations") or {}).get(_DEFAULT, "")
    there = [str(container["name"]) for container in (pod.get("spec") or {}).get("containers") or ()]
    chosen = said if said in there else there[0]
    if len(names(pod)) > 1 and not said and not quiet:
        others = [*there, *(f"{name} (init)" for name in names(pod) if name not in there)]
        click.echo(f'Defaulted container "{chosen}" out of: {", ".join(others)}', err=True)
    return chosen


def started(pod: Object, container: str) -> int | None:
    """How often a container was started again, if it runs or has run; None if it never did."""
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(part) or ():
            if one.get("name") == container and {"running", "terminated"} & set(one.get("state") or ()):
                return int(one.get("restartCount") or 0)
    return None
