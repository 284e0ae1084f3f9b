"""DIJob: replicas of one template, or tasks of several, in two shapes under one version."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec

from shoal.api.fields import FieldError, shown
from shoal.api.managed import ManagedMeta
from shoal.api.meta import (
    Conditions,
    Count,
    Deadline,
    Int32,
    Object,
    Positive,
    ScaleRecord,
    Seconds,
    Time,
    View,
    cel_rule,
    description,
    job_metadata_errors,
)
from shoal.api.names import LABEL_VALUE, OPTIONAL_DNS_LABEL, dns_label_errors, label_value_errors
from shoal.api.podspec import Template, template_errors

_TASKS_BACKOFF_LIMIT: Final = 3
PRIORITIES: Final = {"normal": 5, "high": 10}

MAX_RANKS: Final = 5000
"""Maximum number of ranks: the status has an entry for each, and must fit into one object."""

_MaybeRanks = Annotated[int, msgspec.Meta(ge=0, le=MAX_RANKS)]
_Ranks = Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)]


class EngineFields(View, frozen=True, kw_only=True):
    """Communication between the workers."""

    topology: Annotated[Literal["star", "alone", "mesh"], description("Which ranks are connected.")] = "star"
    parallel_workers: Annotated[Positive, description("Processes in each worker.")] = 1


class Task(View, frozen=True, kw_only=True):
    """Replicas that do one thing."""

    template: Annotated[Template, description("Pod template of the task.")]
    type: Annotated[
        Literal["learner", "collector", "evaluator", "none"], description("What the task does.")
    ] = "none"
    name: Annotated[
        str, description("Name of the task; a typed task without one takes its type.", OPTIONAL_DNS_LABEL)
    ] = ""
    replicas: Annotated[_Ranks, description("Number of pods.")] = 1

    @property
    def title(self) -> str:
        """The name, which a typed task may leave to its type."""
        return self.name or self.type


_NAMED: Final = cel_rule(
    "self.type != 'none' || (has(self.name) && self.name != '')", "a task of type none must have a name"
)


class DIJobSpec(View, frozen=True, kw_only=True):
    """`spec` of a DIJob."""

    template: Annotated[Template | None, description("Pod template of all replicas; or give tasks.")] = None
    tasks: Annotated[
        tuple[Annotated[Task, msgspec.Meta(extra_json_schema={"x-kubernetes-validations": [_NAMED]})], ...],
        description("Tasks with templates of their own; or give a template.", {"maxItems": MAX_RANKS}),
    ] = ()
    group: Annotated[str, description("Jobs of one group are shown and counted together.", LABEL_VALUE)] = ""
    priority: Annotated[
        Literal["normal", "high"], description("Place in the queue; causes no evictions.")
    ] = "normal"
    engine_fields: Annotated[EngineFields, description("Features of DI-engine.")] = EngineFields()
    clean_pod_policy: Annotated[
        Literal["Running", "All", "None"], description("Which pods are deleted when the job has finished.")
    ] = "Running"
    preemptible: Annotated[bool, description("May be resized, moved and evicted.")] = False
    min_replicas: Annotated[_MaybeRanks, description("Replicas needed to start.")] = 1
    max_replicas: Annotated[_Ranks | None, description("Replicas at the most; by default minReplicas.")] = (
        None
    )
    backoff_limit: Annotated[Count | None, description("Failures before the job fails; 0, with tasks 3.")] = (
        None
    )
    volumes: Annotated[tuple[dict[str, Any], ...], description("Volumes added to every pod.")] = ()
    starting_deadline_seconds: Annotated[
        Deadline | None, description("Seconds in which all workers must be ready.")
    ] = None
    active_deadline_seconds: Annotated[
        Deadline | None, description("Seconds in which the job must finish.")
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, description("Seconds until a finished job is deleted.")
    ] = None
    suspend: Annotated[bool, description("Stop all pods until set to false.")] = False

    @property
    def failure_limit(self) -> int:
        """`backoffLimit`, or what it is by default."""
        if self.backoff_limit is not None:
            return self.backoff_limit
        return _TASKS_BACKOFF_LIMIT if self.tasks else 0

    @property
    def maximum(self) -> int:
        """`maxReplicas`, or what it is by default."""
        return max(self.min_replicas, 1) if self.max_replicas is None else self.max_replicas


class Worker(View, frozen=True, kw_only=True):
    """One rank of a running job."""

    rank: Count
    pod: str = ""
    node: str = ""
    phase: str = ""
    ip: str = ""
    restarts: Annotated[Int32, description("How often the rank was recreated.")] = 0
    reason: Annotated[str, description("Why it is not running.")] = ""
    generation: Annotated[Count | None, description("Generation of its last pod.")] = None


class DIJobStatus(View, frozen=True, kw_only=True):
    """`status` of a DIJob."""

    phase: Annotated[
        Literal["Pending", "Starting", "Restarting", "Running", "Succeeded", "Failed", "Unknown"] | None,
        description("Phase of the job."),
    ] = None
    replicas: Annotated[_MaybeRanks | None, description("Size decided.")] = None
    ready_replicas: Annotated[Count | None, description("Workers that are ready.")] = None
    requested_replicas: Annotated[
        _MaybeRanks | None, description("Size requested by a worker through the server, or by `shoal scale`.")
    ] = None
    allocation: Annotated[tuple[str, ...], description("Node of each rank.")] = ()
    profilings: Annotated[dict[str, Any], description("What the workers reported.")] = {}
    generation: Annotated[Count | None, description("Number of restarts of ranks.")] = None
    failures: Annotated[Count | None, description("Failures of workers.")] = None
    counted: Annotated[
        tuple[str, ...], description("Uids of ended pods that are counted and not released yet.")
    ] = ()
    workers: Annotated[tuple[Worker, ...], description("The workers, by rank.")] = ()
    scale_records: Annotated[tuple[ScaleRecord, ...], description("The last changes of size.")] = ()
    nominations: Annotated[dict[str, str], description("Node on which room is reserved for each pod.")] = {}
    broken_since: Annotated[Time | None, description("When the job lost part of its minimum.")] = None
    whole_minimum: Annotated[
        Count | None, description("The minimum with which the job was whole the last time.")
    ] = None
    conditions: Conditions = ()
    observed_generation: Annotated[
        int | None, description("Generation of the spec that the controller has seen.")
    ] = None
    start_time: Annotated[Time | None, description("When the first worker was created.")] = None
    completion_timestamp: Annotated[Time | None, description("When the job ended.")] = None


_RULES: Final = [
    cel_rule(
        "has(self.template) != (has(self.tasks) && size(self.tasks) > 0)",
        "must have exactly one of template and tasks",
    ),
    cel_rule(
        "!has(self.maxReplicas) || !has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
        "maxReplicas must be at least minReplicas",
    ),
    cel_rule(
        "!has(self.tasks) || ['learner', 'collector', 'evaluator']"
        ".all(type, self.tasks.filter(task, task.type == type).size() <= 1)",
        "must have at most one learner, one collector and one evaluator",
    ),
    cel_rule(
        f"!has(self.tasks) || self.tasks.map(task, task.replicas).sum() <= {MAX_RANKS}",
        f"tasks must have at most {MAX_RANKS} replicas in all",
    ),
]


class DIJob(Object, frozen=True, kw_only=True):
    """A DI-engine job."""

    spec: Annotated[DIJobSpec, description("Desired state.", validations=_RULES)]
    status: Annotated[DIJobStatus, description("Observed state.")] = DIJobStatus()


class ManagedDIJob(View, frozen=True, kw_only=True):
    """A DIJob as its controller reads it."""

    metadata: ManagedMeta
    spec: DIJobSpec
    status: DIJobStatus = DIJobStatus()

    @property
    def phase(self) -> str | None:
        """The phase; None if the job is new."""
        return self.status.phase

    @property
    def clean_pod_policy(self) -> Literal["Running", "All", "None"]:
        """Which pods are deleted when the job has finished."""
        return self.spec.clean_pod_policy


def dijob_errors(job: DIJob) -> Iterator[FieldError]:
    """Everything that is wrong with a DIJob."""
    yield from job_metadata_errors(job.metadata)
    spec = job.spec
    if (spec.template is None) == (not spec.tasks):
        yield FieldError("spec", "must have exactly one of template and tasks", ("spec.tasks",))
    if spec.template is not None:
        yield from template_errors(spec.template, "spec.template")
    if spec.max_replicas is not None and spec.max_replicas < spec.min_replicas:
        needs = ("spec.maxReplicas", "spec.minReplicas")
        yield FieldError("spec.maxReplicas", f"must be at least minReplicas, {spec.min_replicas}", needs)
    yield from label_value_errors(spec.group, "spec.group")
    pods = sum(task.replicas for task in spec.tasks)
    if pods > MAX_RANKS:
        yield FieldError("spec.tasks", f"must have at most {MAX_RANKS} replicas in all, not {pods}")
    for i, task in enumerate(spec.tasks):
        yield from _task_errors(task, f"spec.tasks[{i}]")
    yield from _repetition_errors(spec.tasks)


def _task_errors(task: Task, path: str) -> Iterator[FieldError]:
    yield from template_errors(task.template, f"{path}.template")
    if task.name:
        yield from dns_label_errors(task.name, f"{path}.name")
    elif task.type == "none":
        needs = (f"{path}.name", f"{path}.type")
        yield FieldError(f"{path}.name", "is required for a task of type none", needs)


def _repetition_errors(tasks: tuple[Task, ...]) -> Iterator[FieldError]:
    """Refuse a second learner, collector or evaluator, and duplicate names."""
    types: dict[str, str] = {}
    titles: dict[str, str] = {}
    for i, task in enumerate(tasks):
        path = f"spec.tasks[{i}]"
        first = types.setdefault(task.type, path)
        if task.type != "none" and first != path:
            message = f"must be unique, and {first} is a {task.type} too"
            yield FieldError(f"{path}.type", message, (f"{path}.type", f"{first}.type"))
        if not task.name and task.type == "none":
            continue
        first = titles.setdefault(task.title, path)
        if first != path and (task.name or types[task.type] == path):
            needs = (f"{path}.name", f"{path}.type", f"{first}.name", f"{first}.type")
            yield FieldError(
                f"{path}.name", f"must be unique, and {first} is named '{shown(task.title)}' too", needs
            )
