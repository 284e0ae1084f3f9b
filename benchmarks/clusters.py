"""Clusters to measure: the objects that a world is made of."""

from collections.abc import Iterable, Iterator
from typing import Any

Raw = dict[str, Any]
GANG = 64
POOL = "resource.aibee.cn/pool"


def machines(count: int, *, full: bool = False) -> Iterator[Raw]:
    """Nodes of three makes."""
    for i in range(count):
        cpus, memory, gpus = ((64, "256Gi", 8), (96, "384Gi", 0), (32, "128Gi", 4))[i % 3]
        have = {"cpu": str(0 if full else cpus), "memory": memory, "nvidia.com/gpu": str(gpus), "pods": "110"}
        labels = {"kubernetes.io/hostname": f"n{i:05}", "zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i:05}", "labels": labels},
            "status": {"capacity": have, "allocatable": have},
        }


def gangs(pods: int) -> Iterator[Raw]:
    """TYJobs with a leader and 63 workers each."""
    for i in range(pods // GANG):
        yield {
            "apiVersion": "tyrl.io/v1alpha1",
            "kind": "TYJob",
            "metadata": {"name": f"job-{i:05}", "namespace": "default"},
            "spec": {
                "schedulerPolicy": {"basicPolicy": "Gang"},
                "leader": {"name": "leader", "template": template("8", "32Gi", 1)},
                "workerSets": [{"name": "worker", "counts": GANG - 1, "template": template("4", "8Gi", 0)}],
            },
        }


def loose(pods: int) -> Iterator[Raw]:
    """Pods no two of which ask for the same."""
    for i in range(pods):
        spec = template(f"{1000 + i % 4000}m", f"{1024 + i}Mi", i % 2)["spec"]
        spec["schedulerName"] = "shoal"
        spec["nodeSelector"] = {"zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}", "namespace": "default"},
            "spec": spec,
        }


def sundry(count: int) -> Iterator[Raw]:
    """Nodes no two of which have the same memory, as real ones never do."""
    for i, made in enumerate(machines(count)):
        have = made["status"]["allocatable"] | {"memory": f"{2**37 + i}"}
        yield made | {"status": {"capacity": have, "allocatable": have}}


def idle(pods: int) -> Iterator[Raw]:
    """Pods that ask for nothing."""
    for i in range(pods):
        spec = {"schedulerName": "shoal", "containers": [{"name": "main", "image": "train"}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"i{i:06}"}, "spec": spec}


def classes() -> Iterator[Raw]:
    """A low class and a high one."""
    for name, value in (("low", 1), ("high", 2)):
        metadata = {"name": name}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        yield {**kind, "metadata": metadata, "value": value}


def crowd(nodes: int) -> Iterator[Raw]:
    """Nodes that are full of pods of a low class."""
    yield from classes()
    have = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(nodes):
        metadata = {"name": f"n{i:05}"}
        status = {"capacity": have, "allocatable": have}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    for i in range(nodes * 4):
        spec = template("8", "16Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}", "priorityClassName": "low"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}"},
            "spec": spec,
            "status": {"phase": "Running"},
        }


def gang(pods: int, gpus: int = 0) -> Raw:
    """A gang of a high class, all of its pods alike."""
    alike = template("8", "16Gi", gpus)
    alike["spec"]["priorityClassName"] = "high"
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "gang"},
        "spec": {"minReplicas": pods, "template": alike},
    }


def intruders(pods: int) -> Iterator[Raw]:
    """Pods of a high class, of four sizes."""
    for i in range(pods):
        spec = template(f"{4 + i % 4 * 4}", "16Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "priorityClassName": "high"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"i{i:06}"}, "spec": spec}


def motley_gang(pods: int) -> Raw:
    """A gang of a high class: a leader and two sets of workers, all different."""
    leader, *workers = (template(*asked, 0) for asked in (("16", "64Gi"), ("8", "16Gi"), ("4", "24Gi")))
    for one in (leader, *workers):
        one["spec"]["priorityClassName"] = "high"
    sets = [
        {"name": f"set-{i}", "counts": count, "template": workers[i]}
        for i, count in enumerate((pods // 2, pods - pods // 2 - 1))
    ]
    spec = {
        "schedulerPolicy": {"basicPolicy": "Gang"},
        "leader": {"name": "leader", "template": leader},
        "workerSets": sets,
    }
    return {"apiVersion": "tyrl.io/v1alpha1", "kind": "TYJob", "metadata": {"name": "gang"}, "spec": spec}


def running(pods: int, nodes: int) -> Iterator[Raw]:
    """Pods that have a node, as many on each."""
    for i in range(pods):
        spec = template("500m", "1Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}"}
        metadata = {"name": f"p{i:06}", "namespace": "default", "labels": {"app": f"a{i % 500}"}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Running"},
        }


def arriving(numbers: Iterable[int]) -> Iterator[Raw]:
    """Pods as a user submits them, no two of which have the same name or ask for the same."""
    for i in numbers:
        spec = template(f"{1000 + i % 4000}m", f"{1024 + i % 9000}Mi", 0)["spec"] | {"schedulerName": "shoal"}
        metadata = {"name": f"p{i:06}", "namespace": "default", "labels": {"app": f"a{i % 500}"}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def batch_jobs(pods: int, size: int = 100) -> Iterator[Raw]:
    """Jobs of so many pods each, which run side by side; no two Jobs ask for the same."""
    for i in range(pods // size):
        alike = template(f"{1000 + i % 40 * 100}m", f"{1024 + i * 8}Mi", 0)
        alike["spec"] |= {"schedulerName": "shoal", "restartPolicy": "Never"}
        spec = {"completions": size, "parallelism": size, "template": alike}
        metadata = {"name": f"job-{i:05}", "namespace": "default"}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def two_pools(crowd: int) -> Iterator[Raw]:
    """Two pools of a node each that lend nothing, and pods that are too large for the first."""
    for name, node in zip(("a", "b"), machines(2), strict=True):
        node["metadata"]["labels"] = labels = {"team": name}
        yield node
        spec = {"nodeSelector": {"matchLabels": labels}, "disableBorrowing": True, "disableSharing": True}
        kind = {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool"}
        yield {**kind, "metadata": {"name": name}, "spec": spec}
    for i in range(crowd):
        spec = template("200", "1Gi", 0)["spec"] | {"schedulerName": "shoal"}
        metadata = {"name": f"w{i:06}", "namespace": "default", "annotations": {POOL: "a"}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def gpu_hosts(count: int) -> Iterator[Raw]:
    """Nodes that are alike, with eight GPUs each."""
    have = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
    for i in range(count):
        status = {"capacity": have, "allocatable": have}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i:05}"}, "status": status}


def trainers(jobs: int) -> Iterator[Raw]:
    """Elastic jobs of one shape and one range, not started."""
    for i in range(jobs):
        yield elastic(f"job-{i:05}", (1, 50), "4", "16Gi", 1)


def motley_trainers(jobs: int) -> Iterator[Raw]:
    """Elastic jobs of nine shapes whose ranges make their scores interleave, not started."""
    for i in range(jobs):
        cpus, gpus = 2 + i % 3, (1, 2, 4)[i // 3 % 3]
        low = 1 + i % 2
        yield elastic(f"job-{i:05}", (low, low + 7 + i % 40), str(cpus), f"{8 + cpus}Gi", gpus)


def seated_trainers(jobs: int, sizes: list[int], nodes: int) -> Iterator[Raw]:
    """Elastic jobs that run at these sizes, and leave no GPU free."""
    seat = 0
    for i, size in enumerate(sizes[:jobs]):
        name = f"job-{i:05}"
        yield elastic(name, (1, 50), "4", "16Gi", 1)
        owner = {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "name": name, "controller": True}
        for k in range(size):
            spec = template("4", "16Gi", 1)["spec"] | {"nodeName": f"n{seat % nodes:05}"}
            metadata = {"name": f"{name}-trainer-{k}", "ownerReferences": [{**owner, "uid": name}]}
            status = {"phase": "Running"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
            seat += 1


def elastic(name: str, size: tuple[int, int], cpus: str, memory: str, gpus: int) -> Raw:
    """A TrainingJob whose trainers may vary."""
    trainer = {
        "entrypoint": "train",
        "workspace": "/work",
        "min-instance": size[0],
        "max-instance": size[1],
        "resources": {"requests": {"cpu": cpus, "memory": memory, "nvidia.com/gpu": str(gpus)}},
    }
    metadata = {"name": name, "namespace": "default"}
    spec = {"trainer": trainer}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def full_pools(count: int, nodes: int) -> Iterator[Raw]:
    """Pools that lend, borrow and preempt, of so many nodes each, all of them full of their own pods."""
    have = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(count):
        name = f"team-{i:03}"
        labels = {"team": name}
        pool = {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool", "metadata": {"name": name}}
        yield {**pool, "spec": {"nodeSelector": {"matchLabels": labels}}}
        for k in range(nodes):
            metadata = {"name": f"{name}-{k:03}", "labels": labels}
            status = {"capacity": have, "allocatable": have}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            for part in range(2):
                spec = template("15", "32Gi", 0)["spec"]
                spec |= {"schedulerName": "shoal", "nodeName": f"{name}-{k:03}"}
                resident = {"name": f"{name}-{k:03}-{part}", "annotations": {POOL: name}}
                phase = {"phase": "Running"}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": resident, "spec": spec, "status": phase}


def small_gangs(pools: int, jobs: int) -> Iterator[Raw]:
    """Jobs of a leader and three workers, so many in each pool, of ten sizes."""
    for i in range(pools * jobs):
        metadata = {"name": f"job-{i:05}", "annotations": {POOL: f"team-{i % pools:03}"}}
        workers = {"name": "worker", "counts": 3, "template": template(f"{4 + i // pools % 10}", "8Gi", 0)}
        spec = {"leader": {"name": "leader", "template": template("8", "16Gi", 0)}, "workerSets": [workers]}
        yield {"apiVersion": "tyrl.io/v1alpha1", "kind": "TYJob", "metadata": metadata, "spec": spec}


def template(cpus: str, memory: str, gpus: int) -> Raw:
    """A pod template."""
    requests = {"cpu": cpus, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"spec": {"containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}]}}
