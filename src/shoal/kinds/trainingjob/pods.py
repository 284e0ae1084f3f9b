"""The pods of a TrainingJob: names, hosts, commands, and the environment that PaddlePaddle reads."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from shoal.api.managed import ManagedMeta
from shoal.api.podspec import Resources, Template, is_gpu, to_nano
from shoal.api.quantity import NANO, format_nano
from shoal.cluster.resources import Object, resource_of
from shoal.controllers.changes import Create
from shoal.controllers.jobs.frameworks import Member, ProcessGroup
from shoal.controllers.jobs.host_files import RoleHosts
from shoal.controllers.jobs.names import dns_label, label_value, qualified_host
from shoal.controllers.jobs.pods import NewPod, create_pod
from shoal.controllers.jobs.slots import JobSlots
from shoal.engine.config import SchedulerConfig
from shoal.kinds.trainingjob import SERVICE_PREFIX, TYPE
from shoal.kinds.trainingjob.slots import Instance
from shoal.kinds.trainingjob.types import ManagedTrainingJob, Role

_NAME_LABELS: Final = {
    "trainer": "paddle-job",
    "pserver": "paddle-job-pserver",
    "master": "paddle-job-master",
}
"""Labels with the job's name, by role: programs in the published images find their peers by these."""

_PROGRAM: Final = "paddle_k8s"
"""What the published images run without an entrypoint."""


def service_name(job: ManagedMeta) -> str:
    """Return the name of a job's headless service."""
    return dns_label(job.name, job.uid, prefix=SERVICE_PREFIX)


class PodBuilder:
    """Builds the pods of a job as it is now; what is the same for all of them is computed once."""

    def __init__(self, job: ManagedTrainingJob, slots: JobSlots[Instance], config: SchedulerConfig) -> None:
        self._job, self._slots, self._config = job, slots, config
        self._service: Final = service_name(job.metadata)

    def name(self, one: Instance) -> str:
        """Return the name of the pod of an instance."""
        return f"{self._job.metadata.name}{one.suffix}"

    def create(self, one: Instance, attempt: int) -> Create:
        """Return the creation of the pod of an instance."""
        job = self._job
        new = NewPod(
            name=self.name(one),
            host=self._host(one),
            service=self._service,
            template=self._template(one.role),
            labels={
                _NAME_LABELS[one.role]: label_value(job.metadata.name, job.metadata.uid),
                "paddlepaddle.org/role": one.role,
                "paddlepaddle.org/index": str(one.number),
            },
            annotations={},
            env=tuple(self._environment(one)),
            attempt=attempt,
            volumes=job.spec.volumes,
            member=self._member(one, attempt),
        )
        return create_pod(resource_of(TYPE.kind), job.metadata, new, self._config)

    def roles(self) -> dict[str, RoleHosts]:
        """Return the hosts of the wanted instances of each role."""
        hosts = defaultdict[str, list[str]](list)
        for one in self._slots.wanted:
            hosts[one.role].append(self._address(one))
        return {role: RoleHosts(found, self._template(role)["spec"]) for role, found in hosts.items()}

    def _member(self, one: Instance, attempt: int) -> Member:
        """Return the place of an instance; trainers are data-parallel."""
        group = self._trainers if one.is_trainer else None
        return Member(role=one.role, index=one.number, restart=attempt - 1, group=group)

    @cached_property
    def _trainers(self) -> ProcessGroup:
        trainer = self._job.spec.trainer
        return ProcessGroup(
            first_host=self._address(Instance("trainer", 0)),
            size=sum(one.is_trainer for one in self._slots.wanted),
            minimum=trainer.min_instance,
            maximum=trainer.max_instance,
        )

    def _host(self, one: Instance) -> str:
        return dns_label(self._job.metadata.name, self._job.metadata.uid, suffix=one.suffix)

    def _address(self, one: Instance) -> str:
        return qualified_host(self._host(one), self._service, self._job.metadata.namespace)

    # --- the pod spec -------------------------------------------------------------------------------------

    def _template(self, name: str) -> Template:
        spec, role = self._job.spec, self._job.spec.roles[name]
        container = {
            "name": name,
            "image": spec.image,
            "command": self._command(name, role),
            "ports": [{"name": f"jobport-{port}", "containerPort": port} for port in spec.ports],
            "env": list(_field_variables(name)),
            "resources": {
                "requests": _amounts(role.resources.requests),
                "limits": _amounts(role.resources.limits),
            },
            "volumeMounts": list(spec.volume_mounts),
        }
        pod: Object = {
            "containers": [container],
            "hostNetwork": spec.host_network,
            "nodeSelector": spec.node_selector,
            "imagePullSecrets": list(spec.image_pull_secrets),
            "priorityClassName": spec.priority_class_name,
        }
        return {"spec": _without_empty(pod)}

    def _command(self, name: str, role: Role) -> list[str]:
        """Return the entrypoint of a role in its workspace, or else the command of the published images."""
        if role.entrypoint:
            change = 'cd "$TRAINER_PACKAGE" && ' if role.workspace else ""
            return ["sh", "-c", f'{change}exec sh -c "$ENTRY"']
        is_new = "new_" if self._job.spec.fault_tolerant and name != "master" else ""
        version = ["v2"] if name == "trainer" and not is_new else []
        return [_PROGRAM, f"start_{is_new}{name}", *version]

    # --- environment --------------------------------------------------------------------------------------

    def _environment(self, one: Instance) -> Iterator[tuple[str, str]]:
        """Yield the variables that are known when the pod is created."""
        meta, spec = self._job.metadata, self._job.spec
        own = spec.roles[one.role]
        source = own if own.entrypoint else spec.trainer
        trainers, pservers = str(spec.trainer.min_instance), self._pserver_addresses
        yield "PADDLE_JOB_NAME", meta.name
        yield "PADDLE_ROLE", one.role
        yield "PADDLE_TRAINER_ID", str(one.number)
        yield "TRAINERS", trainers
        yield "PSERVERS", str(len(pservers))
        yield "ENTRY", _literal(source.entrypoint)
        yield "TOPOLOGY", _literal(source.entrypoint)
        yield "TRAINER_PACKAGE", _literal(source.workspace)
        yield "PADDLE_INIT_PORT", str(spec.port)
        yield "PADDLE_INIT_PORTS_NUM", str(spec.ports_num)
        yield "PADDLE_INIT_PORTS_NUM_FOR_SPARSE", str(spec.ports_num_for_sparse)
        yield "PADDLE_INIT_TRAINER_COUNT", str(self._gpus or self._cpus)
        yield "PADDLE_INIT_NUM_GRADIENT_SERVERS", trainers
        yield "PADDLE_INIT_NUM_PASSES", str(spec.passes)
        yield "PADDLE_INIT_USE_GPU", "1" if self._gpus else "0"
        yield "PADDLE_INIT_PSERVERS", ",".join(pservers)
        if spec.master:
            yield "MASTER_ADDRESS", self._address(_MASTER)
            if one != _MASTER:
                yield "MASTER_IP", self._master_ip

    @cached_property
    def _pserver_addresses(self) -> list[str]:
        pservers = (one for one in self._slots.wanted if one.role == "pserver")
        return [f"{self._address(one)}:{self._job.spec.port}" for one in pservers]

    @property
    def _master_ip(self) -> str:
        master = self._slots.pods.get(_MASTER)
        return master.status.pod_ip if master else ""

    @cached_property
    def _trainer_requests(self) -> dict[str, int]:
        """What a trainer requests, in nano-units; a missing request defaults to the limit."""
        resources = self._job.spec.trainer.resources
        return to_nano(resources.limits) | to_nano(resources.requests)

    @property
    def _gpus(self) -> int:
        return sum(nano for name, nano in self._trainer_requests.items() if is_gpu(name)) // NANO

    @property
    def _cpus(self) -> int:
        return max(-(-self._trainer_requests.get("cpu", 0) // NANO), 1)


_MASTER: Final = Instance("master", 0)


def _field_variables(role: str) -> Iterator[Object]:
    """Yield the variables that the kubelet takes from the pod. The master's address is its own."""
    fields = {"NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}
    if role == "master":
        fields["MASTER_IP"] = "status.podIP"
    for name, path in fields.items():
        yield {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _amounts(resources: Resources) -> dict[str, str]:
    """Return amounts as a pod has them, by the current names of resources."""
    return {name: format_nano(nano) for name, nano in to_nano(resources).items()}


def _literal(text: str) -> str:
    """Return a text of the user as the value of a variable: only a shell expands it."""
    return text.replace("$", "$$")


def _without_empty(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value}
