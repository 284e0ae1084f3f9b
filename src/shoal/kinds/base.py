"""JobKind: the interface of a job kind, and all that Shoal needs to know of one.

A new kind of job is one package: the types of its objects, and one JobKind. Cache, scheduler, explain,
commands, the API server and the controllers reach it through the registry (`shoal.api.registry`); none of
them names a kind.

Methods whose argument is a `job` get the decoded object (the kind's `view`); those whose argument is a
`manifest` get the whole object as JSON has it, since commands and admission do not decode objects.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from shoal.api import registry
from shoal.api.kinds import Kind
from shoal.api.managed import ManagedPod
from shoal.api.podspec import Template
from shoal.engine.config import SchedulerConfig
from shoal.engine.plan import Eviction, Resize, Verdict
from shoal.engine.workload import Task, Workload
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import Slot, WorkloadSpec

if TYPE_CHECKING:
    from shoal.controllers.runtime import Controller
    from shoal.controllers.stores import Stores

J = TypeVar("J")

Manifest = dict[str, Any]
"""A whole object, as JSON has it."""

FieldValues = dict[str, int]
"""Numbers to write, by field path."""

_CORE_JOB_KINDS: Final = ("shoal.kinds.batchjob.kind",)
"""Job kinds that Kubernetes defines and Shoal runs where Kubernetes' own controllers do not."""


class CannotScaleError(ValueError):
    """Raised when a job cannot be given that size; the message says what to do instead."""


class CannotStopError(ValueError):
    """Raised when a job cannot be ended early; the message says what to do instead."""


class ScalePatch(msgspec.Struct, frozen=True):
    """A merge patch that changes the size of a job, and the subresource that it is sent to."""

    patch: Manifest
    subresource: str = ""


class PodSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the status of a job tells of one of its pods.

    `pod` is "" before the first pod of a rank is created; `phase` is the one in which a pod ended.
    """

    pod: str
    rank: int | None = None
    phase: str = ""
    restarts: int = 0
    reason: str = ""


class Relaxation(msgspec.Struct, Generic[J], frozen=True, eq=False):
    """One way to ask for fewer pods of a role: from `size` of them down to `least`.

    `fields` returns the fields to edit for a number of pods, `job` the job with these edits.
    """

    role: str
    size: int
    least: int
    fields: Callable[[int], FieldValues]
    job: Callable[[int], J]


class PolicyInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What an elastic policy is told of a job beyond what its workload says."""

    requested: int | None = None
    profilings: dict[str, Any] = {}


class Outcome(msgspec.Struct, eq=False):
    """What a plan does for one workload; nodes by name. Of what is placed, `unmade` has no pod yet."""

    placed: dict[Task, str] = {}
    unmade: set[Task] = set()
    nominated: dict[Task, str] = {}
    evictions: list[Eviction] = []
    resize: Resize | None = None


class PlannedJob(msgspec.Struct, Generic[J], frozen=True, eq=False, kw_only=True):
    """A job, its workload, and what a plan decided about it at the time `now`.

    `nodes` has the node of each task after the plan, `completed` the slots that have succeeded.
    """

    job: J
    workload: Workload
    outcome: Outcome
    verdict: Verdict
    nodes: Mapping[Task, str]
    completed: tuple[Slot, ...]
    now: float

    @property
    def allocations(self) -> dict[str, str]:
        """The node of each pod after the plan, by the pod's name."""
        return {task.name: node for task, node in self.nodes.items()}


class ReplicaApi(msgspec.Struct, Generic[J], frozen=True, eq=False, kw_only=True):
    """What the server tells and grants the workers of a job: addresses, and another size.

    `view` is what its functions get: an object with `metadata` of `ManagedMeta`, and `status.profilings`.
    `addresses` returns `ip:port` of each replica in order, "" where there is none. `requested_size` returns
    the size to request when replicas are added (or with a negative number removed); it raises
    CannotScaleError if the job must not have that size.
    """

    view: type[J]
    addresses: Callable[[J, Sequence[ManagedPod], SchedulerConfig], tuple[str, ...]]
    requested_size: Callable[[J, int, SchedulerConfig], int]


class JobKind(Kind, Generic[J], frozen=True, eq=False, kw_only=True):
    """A kind of job.

    `role_fields` are the fields of its spec that describe its pods. `reports`: its status has `profilings`,
    to which the workers of a job report through the server. Its `view` has the name of the kind, and
    the status of a kind that is planned as a workload has at least `conditions`, `nominations` (pod name to
    node), `broken_since` and `whole_minimum`; the scheduler writes them.
    """

    role_fields: tuple[str, ...] = ("template",)
    reports: bool = False

    @property
    def is_workload(self) -> bool:
        """Whether a job is planned as one workload; else its pods are planned like loose pods."""
        return True

    @property
    def is_own(self) -> bool:
        """Whether the kind is ours; a Kubernetes cluster runs its own kinds itself."""
        return True

    def workload_spec(
        self, job: J, classes: PodClassCache, pods: Sequence[PodRecord], now: float
    ) -> WorkloadSpec | None:
        """What a job wants, given the pods that it has; None when it is finished."""
        raise NotImplementedError

    def missing_pods(
        self,
        job: J,
        classes: PodClassCache,
        pods: list[PodRecord],
        is_free: Callable[[str], bool],
        now: float,
    ) -> Iterable[PodRecord]:
        """Pods that a job is still to create, under free names; for kinds that are no workloads."""
        raise NotImplementedError

    def status_after(self, planned: PlannedJob[J]) -> msgspec.Struct:
        """The status of a job after a plan. It changes only the fields that the scheduler owns."""
        raise NotImplementedError

    def without_allocations(self, job: J) -> J:
        """The job once all its allocated pods run: from then on the pods say where they are."""
        return job

    def policy_inputs(self, job: J) -> PolicyInputs:  # noqa: ARG002 - most kinds have none
        """What an elastic policy is told of a job."""
        return PolicyInputs()

    def with_priority_class(self, job: J, name: str, edit: Callable[[Template], Template]) -> J:
        """The job with another PriorityClass; `edit` sets it in a pod template."""
        raise NotImplementedError

    def relaxations(self, job: J) -> Iterator[Relaxation[J]]:  # noqa: ARG002 - a kind may have none
        """Ways to ask for fewer pods, for `explain` to try."""
        yield from ()

    def pod_specs(self, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
        """Pod specs that the manifest contains, each with its field path: the kubelet checks them."""
        raise NotImplementedError

    def scale(self, manifest: Manifest, replicas: int, role: str) -> ScalePatch:  # noqa: ARG002
        """The patch that gives a job another size; `role` names a task or worker set, or is empty."""
        raise CannotScaleError("has no size that can be changed")

    def scale_automatically(self, manifest: Manifest) -> ScalePatch:  # noqa: ARG002 - most kinds have no such size
        """The patch that drops the size requested by `scale`: the elastic policy sizes the job again."""
        raise CannotScaleError("is not sized automatically: give --replicas a number")

    def stop(self, manifest: Manifest) -> Manifest:  # noqa: ARG002 - most kinds cannot be ended early
        """The patch that ends a job now, as succeeded."""
        raise CannotStopError("cannot be stopped: set spec.suspend to pause it, or delete it")

    def roles(self, manifest: Manifest) -> Iterator[tuple[str, int | str]]:  # noqa: ARG002 - a kind may have one role only
        """The roles of a job and the number of pods of each, for people."""
        yield from ()

    def pod_summaries(self, manifest: Manifest) -> Iterator[PodSummary]:  # noqa: ARG002 - a status may tell nothing of pods
        """What the status tells of the pods of a job, in the order in which people read it."""
        yield from ()

    def host_names(self, manifest: Manifest) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - a kind may have none
        """(host, subdomain) of the pods that a job has or is going to have; none once it has finished.

        In the embedded home these names resolve before there are pods.
        """
        yield from ()

    @property
    def replica_api(self) -> ReplicaApi[Any] | None:
        """What the server offers to the workers of a job; None if they cannot ask for another size."""
        return None

    def controller(self, stores: "Stores", config: SchedulerConfig) -> "Controller[Any] | None":  # noqa: ARG002 - until a kind has one
        """The controller that creates the pods of these jobs; None if there is none."""
        return None


@registry.cached_by_kinds
def _job_kinds() -> dict[str, JobKind[Any]]:
    core = [importlib.import_module(module).KIND for module in _CORE_JOB_KINDS]
    own = [kind for kind in registry.kinds() if isinstance(kind, JobKind)]
    return {kind.kind: kind for kind in (*own, *core)}


def job_kinds() -> dict[str, JobKind[Any]]:
    """All job kinds by name: our own in the order of the registry, then those of Kubernetes."""
    registry.kinds()  # the first call adds the kinds of entry points
    return _job_kinds()


def workload_kinds() -> tuple[str, ...]:
    """Names of the kinds whose jobs are planned as one workload each."""
    return tuple(name for name, kind in job_kinds().items() if kind.is_workload)
