"""What controllers read of objects, and how: in one step from text to view, thoroughly where that fails."""

from typing import Any, Final, TypeVar

import msgspec

from shoal.api.core import PodDisruptionBudgetSpec
from shoal.api.decode import decode
from shoal.api.meta import Condition, Int32, OwnerReference, Time, View
from shoal.cluster.events import Reference
from shoal.cluster.port import Deletion
from shoal.cluster.resources import BUDGETS, LEASES, NODES, PODS, Decode, Resource, Text

T = TypeVar("T")

FINISHED: Final = ("Succeeded", "Failed")
DISRUPTION: Final = "DisruptionTarget"


def reader(kind: type[T]) -> Decode[T]:
    """Reads objects as views. Most are read at once; one with nulls in it is read a second time, slowly."""
    decoder = msgspec.json.Decoder(kind)

    def read(text: Text) -> T:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError:
            return decode(kind, msgspec.json.decode(text))

    return read


class Meta(View, frozen=True, kw_only=True):
    """`metadata`, as far as controllers look at it."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """Who made the object and looks after it."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def this_one(self) -> Deletion:
        """Deletes this object and no other of its name."""
        return Deletion(uid=self.uid)


def reference(resource: Resource[Any], metadata: Meta) -> Reference:
    """An object as Events name it."""
    return Reference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
    )


# --- pods ---------------------------------------------------------------------------------------------------


class Terminated(View, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    finished_at: Time | None = None


class ContainerState(View, frozen=True, kw_only=True):
    """What a container does."""

    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    """What is known of a container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a pod, with all that it can have: who changes one has to write all of them again."""

    last_probe_time: Time | None = None
    observed_generation: int | None = None


class PodSpec(View, frozen=True, kw_only=True):
    """`spec` of a pod."""

    node_name: str = ""


class PodStatus(View, frozen=True, kw_only=True):
    """`status` of a pod."""

    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(View, frozen=True, kw_only=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in FINISHED

    @property
    def leaving(self) -> bool:
        """Whether somebody has deleted it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Whether it runs, or will."""
        return not self.finished and not self.leaving

    @property
    def ready(self) -> bool:
        """Whether it says that it serves."""
        return self.has("Ready")

    def has(self, condition: str) -> bool:
        """Whether a condition is true of it."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions)


POD: Final = PODS.read_as(reader(Pod))


# --- nodes --------------------------------------------------------------------------------------------------


class NodeCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of a Node, which is confirmed from time to time."""

    last_heartbeat_time: Time | None = None


class NodeTaint(View, frozen=True, kw_only=True, omit_defaults=True):
    """What keeps pods off a node, and since when."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(View, frozen=True, kw_only=True):
    """`spec` of a node."""

    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(View, frozen=True, kw_only=True):
    """`status` of a node."""

    conditions: tuple[NodeCondition, ...] = ()


class Node(View, frozen=True, kw_only=True):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(View, frozen=True, kw_only=True):
    """`spec` of a lease."""

    renew_time: Time | None = None


class Lease(View, frozen=True, kw_only=True):
    """A sign of life that is renewed from time to time."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()


NODE: Final = NODES.read_as(reader(Node))
LEASE: Final = LEASES.read_as(reader(Lease))


# --- budgets ------------------------------------------------------------------------------------------------


class BudgetCondition(Condition, frozen=True, kw_only=True, omit_defaults=True):
    """A condition that says which version of the spec it is about."""

    observed_generation: int = 0


class BudgetStatus(View, frozen=True, kw_only=True, omit_defaults=True):
    """`status` of a PodDisruptionBudget; what is 0 is written all the same."""

    observed_generation: int | None = None
    disrupted_pods: dict[str, Time] = {}
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None
    conditions: tuple[BudgetCondition, ...] = ()


class Budget(View, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: BudgetStatus = BudgetStatus()


BUDGET: Final = BUDGETS.read_as(reader(Budget))
