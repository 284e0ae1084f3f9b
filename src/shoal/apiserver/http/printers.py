"""Printers of all kinds except pods: the columns that `kubectl get` shows."""

import functools
from collections.abc import Callable
from typing import Any, Final

from shoal.api import kinds
from shoal.api.crds import crd
from shoal.api.kinds import Kind
from shoal.apiserver.http.pod_printer import POD_PRINTER
from shoal.apiserver.http.tables import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    condition_status,
    format_labels,
    object_age,
    object_name,
    objects_at,
    value_at,
)
from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
)
from shoal.cluster.times import UNKNOWN_AGE, format_age, format_duration, parse_time


def _simple_printer(
    *columns: tuple[Column, Callable[[Object], Cell]], after: tuple[Column, ...] = ()
) -> Printer:
    """Return a printer with the name, some columns and the age; columns in `after` follow the age."""
    leading = [(column, cell) for column, cell in columns if column not in after]
    trailing = [(column, cell) for column, cell in columns if column in after]

    def cells(obj: Object, now: float) -> list[Cell]:
        return [
            object_name(obj),
            *(cell(obj) for _, cell in leading),
            object_age(obj, now),
            *(cell(obj) for _, cell in trailing),
        ]

    return Printer((NAME, *(column for column, _ in leading), AGE, *after), cells)


def _text_cell(*path: str) -> Callable[[Object], Cell]:
    return lambda obj: value_at(obj, *path) or ""


def _count_cell(*names: str) -> Callable[[Object], Cell]:
    return lambda obj: sum(len(value_at(obj, name) or ()) for name in names)


def _amount_cell(*path: str) -> Callable[[Object], Cell]:
    """Return a cell with a number or percentage that may be absent."""

    def cell(obj: Object) -> Cell:
        found = value_at(obj, *path)
        return "N/A" if found is None else str(found)

    return cell


_PREEMPTION_COLUMN: Final = Column(
    "PreemptionPolicy", description="Whether pods of this class may preempt others."
)

_NAMESPACE_PRINTER: Final = _simple_printer(
    (Column("Status", description="Active or Terminating."), _text_cell("status", "phase"))
)
_CONFIG_MAP_PRINTER: Final = _simple_printer(
    (Column("Data", description="How many entries."), _count_cell("data", "binaryData"))
)
_SECRET_PRINTER: Final = _simple_printer(
    (Column("Type", description="Type of the secret."), _text_cell("type")),
    (Column("Data", description="How many entries."), _count_cell("data")),
)
_LEASE_PRINTER: Final = _simple_printer(
    (Column("Holder", description="Identity of the lease holder."), _text_cell("spec", "holderIdentity"))
)
_PRIORITY_CLASS_PRINTER: Final = _simple_printer(
    (
        Column("Value", "integer", description="Priority of pods of this class."),
        lambda obj: value_at(obj, "value") or 0,
    ),
    (
        Column(
            "Global-Default",
            "boolean",
            description="Whether this is the class of pods without priorityClassName.",
        ),
        lambda obj: bool(value_at(obj, "globalDefault")),
    ),
    (_PREEMPTION_COLUMN, _text_cell("preemptionPolicy")),
    after=(_PREEMPTION_COLUMN,),
)
_BUDGET_PRINTER: Final = _simple_printer(
    (
        Column("Min Available", description="Minimum number of available pods."),
        _amount_cell("spec", "minAvailable"),
    ),
    (
        Column("Max Unavailable", description="Maximum number of unavailable pods."),
        _amount_cell("spec", "maxUnavailable"),
    ),
    (
        Column("Allowed Disruptions", "integer", description="Number of pods that may be evicted now."),
        lambda obj: value_at(obj, "status", "disruptionsAllowed") or 0,
    ),
)


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_LEGACY_ROLE_LABEL: Final = "kubernetes.io/role"


def _node_cells(node: Object, now: float) -> list[Cell]:
    info = value_at(node, "status", "nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN_AGE
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        object_name(node),
        _node_status(node),
        ",".join(sorted(_node_roles(node))) or NONE,
        object_age(node, now),
        info.get("kubeletVersion") or "",
        _node_address(node, "InternalIP"),
        _node_address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN_AGE,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN_AGE,
    ]


def _node_status(node: Object) -> str:
    ready = condition_status(node, "Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if value_at(node, "spec", "unschedulable") else status


def _node_roles(node: Object) -> set[str]:
    found = value_at(node, "metadata", "labels") or {}
    roles = {name.removeprefix(_ROLE_PREFIX) for name in found if name.startswith(_ROLE_PREFIX)}
    return {role for role in (*roles, found.get(_LEGACY_ROLE_LABEL)) if role}


def _node_address(node: Object, kind: str) -> str:
    found = (entry for entry in objects_at(node, "status", "addresses") if entry.get("type") == kind)
    return str(next(found, {}).get("address", NONE))


_NODE_PRINTER: Final = Printer(
    (
        NAME,
        Column("Status", description="Whether the node is ready and schedulable."),
        Column("Roles", description="Roles of the node."),
        AGE,
        Column("Version", description="Kubelet version."),
        Column("Internal-IP", wide=True, description="Internal address of the node."),
        Column("External-IP", wide=True, description="External address of the node."),
        Column("OS-Image", wide=True, description="The operating system."),
        Column("Kernel-Version", wide=True, description="Kernel version and architecture."),
        Column("Container-Runtime", wide=True, description="Container runtime and its version."),
    ),
    _node_cells,
)


def _service_cells(service: Object, now: float) -> list[Cell]:
    spec = value_at(service, "spec") or {}
    return [
        object_name(service),
        spec.get("type") or "",
        (spec.get("clusterIPs") or [NONE])[0],
        _external_addresses(service),
        ",".join(map(_format_port, objects_at(service, "spec", "ports"))) or NONE,
        object_age(service, now),
        format_labels(spec.get("selector")),
    ]


def _external_addresses(service: Object) -> str:
    spec = value_at(service, "spec") or {}
    given = list(spec.get("externalIPs") or [])
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balanced = objects_at(service, "status", "loadBalancer", "ingress")
            found = [str(entry.get("ip") or entry.get("hostname") or "") for entry in balanced]
            return ",".join([*filter(None, found), *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return UNKNOWN_AGE


def _format_port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


_SERVICE_PRINTER: Final = Printer(
    (
        NAME,
        Column("Type", description="Type of the service."),
        Column("Cluster-IP", description="Cluster IP of the service."),
        Column("External-IP", description="External addresses of the service."),
        Column("Port(s)", description="Ports of the service."),
        AGE,
        Column("Selector", wide=True, description="Label selector of the service's pods."),
    ),
    _service_cells,
)


def _event_cells(event: Object, now: float) -> list[Cell]:
    description = value_at(event, "involvedObject") or {}
    kind = str(description.get("kind") or "").lower()
    first, last, count = _event_times(event, now)
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{description['name']}" if description.get("name") else kind,
        description.get("fieldPath") or "",
        _event_source(event),
        str(event.get("message") or "").strip(),
        first,
        count,
        object_name(event),
    ]


def _event_times(event: Object, now: float) -> tuple[str, str, int]:
    """Return the ages of the first and last occurrence, and the count."""
    first = format_age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = format_age(event.get("lastTimestamp"), now)
    series = value_at(event, "series")
    if series is not None:
        return first, format_age(series.get("lastObservedTime"), now), series.get("count") or 0
    return first, first if last == UNKNOWN_AGE else last, event.get("count") or 1


def _event_source(event: Object) -> str:
    source = value_at(event, "source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


_EVENT_PRINTER: Final = Printer(
    (
        Column("Last Seen", description="Time since the last occurrence."),
        Column("Type", description="Normal or Warning."),
        Column("Reason", description="Reason in CamelCase."),
        Column("Object", description="The involved object."),
        Column("Subobject", wide=True, description="Field of the involved object."),
        Column("Source", wide=True, description="Component that reported the event."),
        Column("Message", description="Human-readable message."),
        Column("First Seen", wide=True, description="Time since the first occurrence."),
        Column("Count", wide=True, description="Number of occurrences."),
        Column("Name", wide=True, format="name", description=NAME.description),
    ),
    _event_cells,
)


_FINISHED_CONDITIONS: Final = {"Complete": "Complete", "Failed": "Failed"}
_UNFINISHED_CONDITIONS: Final = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_cells(job: Object, now: float) -> list[Cell]:
    containers = objects_at(job, "spec", "template", "spec", "containers")
    return [
        object_name(job),
        _job_status(job),
        _job_completions(job),
        _job_duration(job, now),
        object_age(job, now),
        ",".join(str(container.get("name")) for container in containers),
        ",".join(str(container.get("image") or "") for container in containers),
        _format_selector(value_at(job, "spec", "selector")),
    ]


def _job_status(job: Object) -> str:
    for kind in _FINISHED_CONDITIONS:
        if condition_status(job, kind) == "True":
            return kind
    if value_at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in _UNFINISHED_CONDITIONS if condition_status(job, kind) == "True"), "Running")


def _job_completions(job: Object) -> str:
    succeeded = value_at(job, "status", "succeeded") or 0
    wanted, parallel = value_at(job, "spec", "completions"), value_at(job, "spec", "parallelism") or 0
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: float) -> str:
    start = parse_time(value_at(job, "status", "startTime"))
    end = parse_time(value_at(job, "status", "completionTime"))
    return "" if start is None else format_duration((now if end is None else end) - start)


def _format_selector(selector: Object | None) -> str:
    """Format a label selector as kubectl accepts it."""
    if selector is None:
        return NONE
    parts = [f"{name}={value}" for name, value in sorted((selector.get("matchLabels") or {}).items())]
    parts += [_format_expression(entry) for entry in objects_at(selector, "matchExpressions")]
    return ",".join(parts) or NONE


def _format_expression(entry: Object) -> str:
    key, values = entry.get("key"), ",".join(sorted(entry.get("values") or []))
    match entry.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
    return str(key)


_JOB_PRINTER: Final = Printer(
    (
        NAME,
        Column("Status", description="Running, or the condition that ended the job."),
        Column("Completions", description="Succeeded pods and required completions."),
        Column("Duration", description="Run time of the job so far, or until its completion."),
        AGE,
        Column("Containers", wide=True, description="Containers of the pod template."),
        Column("Images", wide=True, description="Images of the pod template."),
        Column("Selector", wide=True, description="Label selector of the job's pods."),
    ),
    _job_cells,
)


_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "string": (str, int, float, bool),
}


def custom_resource_printer(kind: Kind) -> Printer:
    """Return the printer of one of our kinds, from the printer columns of its CRD."""
    columns = crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
    paths = [(column["type"], column["jsonPath"].strip(".").split(".")) for column in columns]

    def cells(obj: Object, now: float) -> list[Cell]:
        return [object_name(obj), *(_cell(type_name, value_at(obj, *path), now) for type_name, path in paths)]

    return Printer((NAME, *map(_column, columns)), cells)


def _column(column: dict[str, Any]) -> Column:
    return Column(
        column["name"],
        column["type"],
        wide=bool(column.get("priority")),
        description=f"{column['jsonPath']} of the object.",
    )


def _cell(type_name: str, value: Any, now: float) -> Cell:  # noqa: ANN401 - any JSON value
    """Convert a value to the type of its column; None if it has another type."""
    if value is not None and type_name == "date":
        return format_age(value, now)
    cell: Cell = value
    if not isinstance(value, _TYPES[type_name]):
        return None
    return str(cell) if type_name == "string" else cell


_PRINTERS: Final = {
    PODS.full_name: POD_PRINTER,
    NODES.full_name: _NODE_PRINTER,
    NAMESPACES.full_name: _NAMESPACE_PRINTER,
    SERVICES.full_name: _SERVICE_PRINTER,
    CONFIG_MAPS.full_name: _CONFIG_MAP_PRINTER,
    SECRETS.full_name: _SECRET_PRINTER,
    EVENTS.full_name: _EVENT_PRINTER,
    LEASES.full_name: _LEASE_PRINTER,
    PRIORITY_CLASSES.full_name: _PRIORITY_CLASS_PRINTER,
    BUDGETS.full_name: _BUDGET_PRINTER,
    JOBS.full_name: _JOB_PRINTER,
}


def printer_of(resource: Resource[Any]) -> Printer:
    """Return the printer of a resource."""
    found = _PRINTERS.get(resource.full_name)
    return found or _custom_resource_printer(resource.api_version, resource.kind)


@functools.cache
def _custom_resource_printer(api_version: str, kind: str) -> Printer:
    return custom_resource_printer(kinds.by_name()[api_version, kind])
