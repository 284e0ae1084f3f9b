"""Descriptions of objects, by kind."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from shoal.cli.input.session import Session
from shoal.cli.output.describe import common, jobs, objects
from shoal.cli.output.describe.common import DescriptionWriter
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, NODES, PODS, SECRETS, Object, Resource, resource_of

_Describe = Callable[[DescriptionWriter, Session, Object, float], None]

_KINDS: Final[dict[str, _Describe]] = {
    PODS.full_name: objects.describe_pod,
    NODES.full_name: objects.describe_node,
    resource_of("Pool").full_name: objects.describe_pool,
    SECRETS.full_name: objects.describe_secret,
}


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
    return partial(jobs.describe, kind) if kind and kind.group == resource.group else None


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
