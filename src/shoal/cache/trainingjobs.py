"""TrainingJobs as workloads: master and parameter servers must be there, trainers may vary."""

from collections.abc import Iterable, Sequence

from shoal.api.podspec import Container, ContainerPort, PodSpec, is_gpu
from shoal.api.trainingjob import Role, TrainingJob
from shoal.cache.pod_classes import Blueprint, Book
from shoal.cache.pods import PodRecord, created
from shoal.cache.workload_spec import Elastic, Followers, Row, Sketch, Slot, numbered, seats, timestamp


def sketch(job: TrainingJob, book: Book, pods: Sequence[PodRecord], now: float) -> Sketch | None:
    """What a TrainingJob wants; None when it has ended."""
    spec, status, trainer = job.spec, job.status, job.spec.trainer
    if status.phase in ("Succeeded", "Failed"):
        return None
    trainers, fixed = _row(job, "trainer", trainer, book), _fixed(job, book)
    pserver = spec.pserver
    followers = None
    if pserver and pserver.scale_with_trainers:
        row = _row(job, "pserver", pserver, book)
        followers = Followers(row=row, least=pserver.min_instance, most=pserver.max_instance)
        fixed += [
            row.slot(number, varying=False, follows=True)
            for number in sorted(_seated(row, pods))
            if number >= pserver.min_instance
        ]
    return Sketch(
        kind="TrainingJob",
        metadata=job.metadata,
        created=created(job.metadata, now),
        slots=(*fixed, *seats(trainers, _seated(trainers, pods), trainer.min_instance, status.nominations)),
        minimum=trainer.min_instance,
        maximum=trainer.max_instance,
        elastic=Elastic(
            row=trainers,
            ceiling=trainer.max_instance,
            records=status.scale_records,
            followers=followers,
        ),
        optimistic=not any(is_gpu(resource) for resource in trainers.blueprint.shape.requests),
        priority_class=spec.priority_class_name,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _fixed(job: TrainingJob, book: Book) -> list[Slot]:
    """The master and the parameter servers that must be there."""
    spec = job.spec
    slots = [_row(job, "master", spec.master, book).slot(0, varying=False)] if spec.master else []
    if spec.pserver:
        row = _row(job, "pserver", spec.pserver, book)
        slots += [row.slot(number, varying=False) for number in range(spec.pserver.min_instance)]
    return slots


def _row(job: TrainingJob, role: str, said: Role, book: Book) -> Row:
    return Row(prefix=f"{job.metadata.name}-{role}-", role=role, blueprint=_blueprint(job, said, book))


def _seated(row: Row, pods: Iterable[PodRecord]) -> set[int]:
    """The numbers of a row whose pods have nodes, or need not run again."""
    found = (numbered(pod.name, row.prefix) for pod in pods if pod.keeps_place)
    return {number for number in found if number is not None}


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
