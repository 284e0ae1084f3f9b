"""TrainingJobs as workloads: master and parameter servers must be there, trainers may vary."""

from collections.abc import Iterable

from shoal.api.podspec import Container, ContainerPort, PodSpec, is_gpu
from shoal.api.trainingjob import Role, TrainingJob
from shoal.world.book import Blueprint, Book
from shoal.world.pods import PodRecord, created
from shoal.world.sketch import Sketch, Slot, timestamp, with_lowest


def sketch(job: TrainingJob, book: Book, pods: Iterable[PodRecord], now: float) -> Sketch | None:
    """What a TrainingJob wants; None when it has ended."""
    spec, status, trainer = job.spec, job.status, job.spec.trainer
    if status.phase in ("Succeeded", "Failed"):
        return None
    name = job.metadata.name
    fixed: list[Slot] = []
    if spec.master:
        fixed.append(_fixed(f"{name}-master-0", "master", _blueprint(job, spec.master, book)))
    if spec.pserver:
        blueprint = _blueprint(job, spec.pserver, book)
        fixed += [
            _fixed(f"{name}-pserver-{i}", "pserver", blueprint) for i in range(spec.pserver.min_instance)
        ]
    blueprint = _blueprint(job, trainer, book)
    trainers = [
        Slot(name=f"{name}-trainer-{i}", role="trainer", blueprint=blueprint) for i in _trainers(job, pods)
    ]
    return Sketch(
        kind="TrainingJob",
        metadata=job.metadata,
        created=created(job.metadata, now),
        slots=(*fixed, *trainers),
        minimum=trainer.min_instance,
        maximum=trainer.max_instance,
        elastic=True,
        optimistic=not any(is_gpu(resource) for resource in blueprint.shape.requests),
        priority_class=spec.priority_class_name,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _trainers(job: TrainingJob, pods: Iterable[PodRecord]) -> list[int]:
    """The indices of the trainers that have nodes, and the lowest others until the minimum is met."""
    prefix = f"{job.metadata.name}-trainer-"
    seated = (pod.name for pod in pods if pod.keeps_place)
    texts = (name.removeprefix(prefix) for name in seated if name.startswith(prefix))
    found = {int(text) for text in texts if text.isascii() and text.isdigit() and str(int(text)) == text}
    return with_lowest(found, job.spec.trainer.min_instance)


def _fixed(name: str, role: str, blueprint: Blueprint) -> Slot:
    return Slot(name=name, role=role, blueprint=blueprint, varying=False)


def _blueprint(job: TrainingJob, role: Role, book: Book) -> Blueprint:
    """Pods of a role; on the host's network every pod takes the job's ports of its node."""
    spec = job.spec
    ports = range(spec.port, spec.port + spec.ports_num + spec.ports_num_for_sparse)
    container = Container(
        resources=role.resources, ports=tuple(ContainerPort(container_port=p) for p in ports)
    )
    pod = PodSpec(
        containers=(container,),
        node_selector=spec.node_selector,
        host_network=spec.host_network,
        priority_class_name=spec.priority_class_name,
    )
    return book.blueprint(job.metadata.namespace, {}, {}, pod)
