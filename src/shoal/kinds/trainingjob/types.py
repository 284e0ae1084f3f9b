"""TrainingJob: trainers with parameter servers and a master, elastic between a minimum and a maximum."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from shoal.api.fields import FieldError
from shoal.api.indexes import IndexRanges
from shoal.api.managed import ManagedMeta
from shoal.api.meta import (
    Conditions,
    Count,
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
from shoal.api.names import labels_errors
from shoal.api.podspec import ResourceRequirements, resource_errors

OTHER_SPELLINGS: Final = {"VolumeMounts": "volumeMounts", "NodeSelector": "nodeSelector"}
_SIZES: Final = [
    cel_rule(
        "self.max__dash__instance >= self.min__dash__instance", "max-instance must be at least min-instance"
    )
]
_LAST_PORT: Final = 65535
_PORTS: Final = cel_rule(
    f"self.port + self.ports_num + self.ports_num_for_sparse - 1 <= {_LAST_PORT}",
    f"port must leave room for all ports, of which the last is {_LAST_PORT}",
)


class Snake(View, frozen=True, kw_only=True, rename=None):
    """Keys as they are spelt in the code: this kind mixes three spellings, and each is kept."""


class Role(Snake, frozen=True, kw_only=True):
    """What the pods of one role run and need."""

    entrypoint: Annotated[str, description("Command line, run by sh -c.")] = ""
    workspace: Annotated[str, description("Directory the command runs in.")] = ""
    resources: Annotated[ResourceRequirements, description("Requests and limits of one instance.")] = (
        ResourceRequirements()
    )


class Master(Role, frozen=True, kw_only=True):
    """The master, only where it is configured."""

    etcd_endpoint: Annotated[str, description("Where etcd is, for fault tolerance.")] = msgspec.field(
        default="", name="etcd-endpoint"
    )


class Trainer(Role, frozen=True, kw_only=True):
    """The trainers."""

    min_instance: Annotated[Positive, description("Trainers needed to start.")] = msgspec.field(
        name="min-instance"
    )
    max_instance: Annotated[Positive, description("Trainers at the most.")] = msgspec.field(
        name="max-instance"
    )
    etcd_endpoint: Annotated[str, description("Where etcd is, for fault tolerance.")] = msgspec.field(
        default="", name="etcd-endpoint"
    )


class Pserver(Role, frozen=True, kw_only=True):
    """The parameter servers."""

    min_instance: Annotated[Positive, description("Parameter servers of the smallest job.")] = msgspec.field(
        name="min-instance"
    )
    max_instance: Annotated[Positive, description("Parameter servers of the largest job.")] = msgspec.field(
        name="max-instance"
    )
    scale_with_trainers: Annotated[bool, description("Scale with the fulfilment of the trainers.")] = (
        msgspec.field(default=False, name="scaleWithTrainers")
    )


class TrainingJobSpec(Snake, frozen=True, kw_only=True):
    """`spec` of a TrainingJob."""

    trainer: Annotated[Trainer, description("The trainers.", validations=_SIZES)]
    pserver: Annotated[Pserver | None, description("The parameter servers.", validations=_SIZES)] = None
    master: Annotated[Master | None, description("The master; created only if configured.")] = None
    image: Annotated[str, description("Image of all pods.")] = "paddlepaddle/paddlecloud-job"
    host_network: Annotated[bool, description("Use the network of the nodes.")] = False
    port: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PORT), description("First port of the pods.")] = 7164
    ports_num: Annotated[int, msgspec.Meta(ge=1, le=1000), description("Ports for dense parameters.")] = 1
    ports_num_for_sparse: Annotated[
        int, msgspec.Meta(ge=0, le=1000), description("Ports for sparse parameters.")
    ] = 1
    fault_tolerant: Annotated[bool, description("Go on when a trainer fails.")] = False
    passes: Annotated[Positive, description("Passes over the data.")] = 1
    volumes: Annotated[tuple[dict[str, Any], ...], description("Volumes added to every pod.")] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...], description("Where every container has the volumes.")
    ] = msgspec.field(default=(), name="volumeMounts")
    node_selector: Annotated[dict[str, str], description("Labels that nodes must have.")] = msgspec.field(
        default={}, name="nodeSelector"
    )
    image_pull_secrets: Annotated[
        tuple[dict[str, Any], ...], description("Secrets to pull the image with.")
    ] = msgspec.field(default=(), name="imagePullSecrets")
    priority_class_name: Annotated[str, description("PriorityClass of all pods.")] = msgspec.field(
        default="", name="priorityClassName"
    )
    suspend: Annotated[bool, description("Stop all pods until set to false.")] = False
    ttl_seconds_after_finished: Annotated[
        Seconds | None, description("Seconds until a finished job is deleted.")
    ] = msgspec.field(default=None, name="ttlSecondsAfterFinished")

    @property
    def roles(self) -> dict[str, Role]:
        """The roles that the job has, in the order in which their pods are created."""
        roles = {"master": self.master, "pserver": self.pserver, "trainer": self.trainer}
        return {name: role for name, role in roles.items() if role is not None}

    @property
    def ports(self) -> range:
        """The ports of each pod."""
        return range(self.port, self.port + self.ports_num + self.ports_num_for_sparse)


class RoleStatus(View, frozen=True, kw_only=True):
    """How many instances of a role there are to be, and how they are."""

    desired: Annotated[Count, description("Instances decided.")] = 0
    ready: Annotated[Count, description("Instances that are ready.")] = 0
    succeeded: Annotated[Count, description("Instances that ended well.")] = 0
    failed: Annotated[Count, description("Instances that failed.")] = 0


class TrainingJobStatus(View, frozen=True, kw_only=True):
    """`status` of a TrainingJob."""

    phase: Annotated[
        Literal["Pending", "Creating", "Running", "Scaling", "Succeeded", "Failed"] | None,
        description("Phase of the job."),
    ] = None
    replicas: Annotated[dict[str, RoleStatus], description("Instances of trainer, pserver and master.")] = {}
    completed: Annotated[dict[str, IndexRanges], description("Indexes of pods that succeeded, by role.")] = {}
    failed: Annotated[
        dict[str, IndexRanges], description("Indexes of pods that are not started again, by role.")
    ] = {}
    counted: Annotated[
        tuple[str, ...], description("Uids of ended pods that are counted and not released yet.")
    ] = ()
    score: Annotated[float | None, description("Fulfilment: 0 at the minimum, 1 at the maximum.")] = None
    scale_records: Annotated[tuple[ScaleRecord, ...], description("The last changes of size.")] = ()
    allocations: Annotated[dict[str, str], description("Node of each pod, by the pod's name.")] = {}
    nominations: Annotated[dict[str, str], description("Node on which room is reserved for each pod.")] = {}
    broken_since: Annotated[Time | None, description("When the job lost part of its minimum.")] = None
    whole_minimum: Annotated[
        Count | None, description("The minimum with which the job was whole the last time.")
    ] = None
    profilings: Annotated[dict[str, Any], description("What the workers reported.")] = {}
    conditions: Conditions = ()
    observed_generation: Annotated[
        int | None, description("Generation of the spec that the controller has seen.")
    ] = None
    start_time: Annotated[Time | None, description("When the first pod was created.")] = None
    completion_timestamp: Annotated[Time | None, description("When the job ended.")] = None


class TrainingJob(Object, frozen=True, kw_only=True):
    """A job of trainers, parameter servers and a master."""

    spec: Annotated[TrainingJobSpec, description("Desired state.", validations=[_PORTS])]
    status: Annotated[TrainingJobStatus, description("Observed state.")] = TrainingJobStatus()


class ManagedTrainingJob(View, frozen=True, kw_only=True):
    """A TrainingJob as its controller reads it."""

    metadata: ManagedMeta
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

    @property
    def phase(self) -> str | None:
        """The phase; None if the job is new."""
        return self.status.phase

    @property
    def clean_pod_policy(self) -> Literal["Running"]:
        """Which pods are deleted when the job has finished: all that have not finished themselves."""
        return "Running"


def normalise(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rewrite the capitalised spellings of some keys, which are accepted too."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping):
        return raw
    found = {key: plain for key, plain in OTHER_SPELLINGS.items() if key in spec and plain not in spec}
    return {**raw, "spec": {found.get(key, key): value for key, value in spec.items()}} if found else raw


def trainingjob_errors(job: TrainingJob) -> Iterator[FieldError]:
    """Everything that is wrong with a TrainingJob."""
    yield from job_metadata_errors(job.metadata)
    spec = job.spec
    yield from labels_errors(spec.node_selector, "spec.nodeSelector")
    for name, role in (("trainer", spec.trainer), ("pserver", spec.pserver), ("master", spec.master)):
        if role is not None:
            yield from resource_errors(role.resources, f"spec.{name}.resources")
        if isinstance(role, Trainer | Pserver) and role.max_instance < role.min_instance:
            where = f"spec.{name}.max-instance"
            message = f"must be at least min-instance, {role.min_instance}"
            yield FieldError(where, message, (where, f"spec.{name}.min-instance"))
    yield from _port_errors(spec)


def _port_errors(spec: TrainingJobSpec) -> Iterator[FieldError]:
    last = spec.port + spec.ports_num + spec.ports_num_for_sparse - 1
    if last > _LAST_PORT:
        needs = ("spec.port", "spec.ports_num", "spec.ports_num_for_sparse")
        yield FieldError("spec.port", f"must leave room for all ports, and the last would be {last}", needs)
