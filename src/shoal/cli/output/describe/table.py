"""Which kind is described how."""

import time
from collections.abc import Callable
from typing import Any, Final

from shoal.cli.input.session import Session
from shoal.cli.output.describe import common, jobs, nodes, plain, pods, pools
from shoal.cli.output.describe.common import DescriptionWriter
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.port import Selector
from shoal.cluster.resources import (
    DIJOBS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    POOLS,
    SECRETS,
    TRAININGJOBS,
    TYJOBS,
    Object,
    Resource,
)

_KINDS: Final[dict[str, Callable[[DescriptionWriter, Session, Object, float], None]]] = {
    PODS.full_name: pods.describe,
    NODES.full_name: nodes.describe,
    POOLS.full_name: pools.describe,
    SECRETS.full_name: plain.describe_secret,
    **{kind.full_name: jobs.describe for kind in (JOBS, DIJOBS, TYJOBS, TRAININGJOBS)},
}


def describe_object(session: Session, resource: Resource[Any], thing: Object, *, events: bool) -> str:
    """All that is worth telling of an object."""
    paper, now = DescriptionWriter(), time.time()
    common.write_identity(paper, thing)
    if resource.full_name not in _KINDS:
        paper.line("API Version", resource.api_version)
        paper.line("Kind", resource.kind)
    _KINDS.get(resource.full_name, plain.describe)(paper, session, thing, now)
    if events:
        common.write_events(paper, _events(session, resource, thing), now)
    return str(paper)


def _events(session: Session, resource: Resource[Any], thing: Object) -> list[Object]:
    """What happened to an object; of one without a namespace it is told in any."""
    metadata = thing["metadata"]
    fields = [f"involvedObject.kind={resource.kind}", f"involvedObject.name={metadata['name']}"]
    # Nodes are told of by their names alone: who tells does not know their uids.
    fields += [f"involvedObject.uid={metadata['uid']}"] if resource.namespaced else []
    try:
        return session.client.list(EVENTS, Selector(metadata.get("namespace", ""), fields=",".join(fields)))
    except ForbiddenError:
        return []
