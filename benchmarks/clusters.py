"""Objects of the clusters that are measured."""

from collections.abc import Iterable, Iterator
from typing import Any

Raw = dict[str, Any]
GANG = 64
SMALL_JOB = 4
POOL = "resource.aibee.cn/pool"


def mixed_nodes(count: int, *, full: bool = False) -> Iterator[Raw]:
    """Yield nodes of three sizes; with `full`, without any CPU to allocate."""
    for i in range(count):
        cpus, memory, gpus = ((64, "256Gi", 8), (96, "384Gi", 0), (32, "128Gi", 4))[i % 3]
        resources = {
            "cpu": str(0 if full else cpus),
            "memory": memory,
            "nvidia.com/gpu": str(gpus),
            "pods": "110",
        }
        labels = {"kubernetes.io/hostname": f"n{i:05}", "zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i:05}", "labels": labels},
            "status": {"capacity": resources, "allocatable": resources},
        }


def tyjob_gangs(pods: int) -> Iterator[Raw]:
    """Yield TYJobs with a leader and 63 workers each."""
    for i in range(pods // GANG):
        yield {
            "apiVersion": "tyrl.io/v1alpha1",
            "kind": "TYJob",
            "metadata": {"name": f"job-{i:05}", "namespace": "default"},
            "spec": {
                "schedulerPolicy": {"basicPolicy": "Gang"},
                "leader": {"name": "leader", "template": pod_template("8", "32Gi", 1)},
                "workerSets": [
                    {"name": "worker", "counts": GANG - 1, "template": pod_template("4", "8Gi", 0)}
                ],
            },
        }


def distinct_pods(pods: int) -> Iterator[Raw]:
    """Yield pods with different requests."""
    for i in range(pods):
        spec = pod_template(f"{1000 + i % 4000}m", f"{1024 + i}Mi", i % 2)["spec"]
        spec["schedulerName"] = "shoal"
        spec["nodeSelector"] = {"zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}", "namespace": "default"},
            "spec": spec,
        }


def small_tyjobs(jobs: int) -> Iterator[Raw]:
    """Yield TYJobs with a leader and 3 workers each."""
    for i in range(jobs):
        yield {
            "apiVersion": "tyrl.io/v1alpha1",
            "kind": "TYJob",
            "metadata": {"name": f"ty-{i:05}", "namespace": "default"},
            "spec": {
                "minWorkersNum": SMALL_JOB - 1,
                "leader": {"name": "leader", "template": pod_template("1", "1Gi", 0)},
                "workerSets": [
                    {"name": "worker", "counts": SMALL_JOB - 1, "template": pod_template("1", "1Gi", 0)}
                ],
            },
        }


def small_batch_jobs(jobs: int) -> Iterator[Raw]:
    """Yield batch Jobs of as many pods as those of `small_tyjobs`, with the same requests."""
    for i in range(jobs):
        template = pod_template("1", "1Gi", 0)
        template["spec"] |= {"restartPolicy": "Never", "schedulerName": "shoal"}
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"batch-{i:05}", "namespace": "default"},
            "spec": {"parallelism": SMALL_JOB, "completions": SMALL_JOB, "template": template},
        }


def distinct_nodes(count: int) -> Iterator[Raw]:
    """Yield nodes with different amounts of memory, as real nodes have."""
    for i, node in enumerate(mixed_nodes(count)):
        resources = node["status"]["allocatable"] | {"memory": f"{2**37 + i}"}
        yield node | {"status": {"capacity": resources, "allocatable": resources}}


def pods_without_requests(pods: int) -> Iterator[Raw]:
    """Yield pods without requests."""
    for i in range(pods):
        spec = {"schedulerName": "shoal", "containers": [{"name": "main", "image": "train"}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"i{i:06}"}, "spec": spec}


def priority_classes() -> Iterator[Raw]:
    """Yield a low and a high priority class."""
    for name, value in (("low", 1), ("high", 2)):
        metadata = {"name": name}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        yield {**kind, "metadata": metadata, "value": value}


def full_nodes(nodes: int) -> Iterator[Raw]:
    """Yield nodes that are full of low-priority pods."""
    yield from priority_classes()
    resources = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(nodes):
        metadata = {"name": f"n{i:05}"}
        status = {"capacity": resources, "allocatable": resources}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    for i in range(nodes * 4):
        spec = pod_template("8", "16Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}", "priorityClassName": "low"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}"},
            "spec": spec,
            "status": {"phase": "Running"},
        }


def uniform_gang(pods: int, gpus: int = 0) -> Raw:
    """Return a high-priority gang of equal pods."""
    worker = pod_template("8", "16Gi", gpus)
    worker["spec"]["priorityClassName"] = "high"
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "gang"},
        "spec": {"minReplicas": pods, "template": worker},
    }


def high_priority_pods(pods: int) -> Iterator[Raw]:
    """Yield high-priority pods of four sizes."""
    for i in range(pods):
        spec = pod_template(f"{4 + i % 4 * 4}", "16Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "priorityClassName": "high"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"i{i:06}"}, "spec": spec}


def mixed_gang(pods: int) -> Raw:
    """Return a high-priority gang: a leader and two worker sets, all different."""
    leader, *workers = (
        pod_template(*requests, 0) for requests in (("16", "64Gi"), ("8", "16Gi"), ("4", "24Gi"))
    )
    for role in (leader, *workers):
        role["spec"]["priorityClassName"] = "high"
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


def running_pods(pods: int, nodes: int) -> Iterator[Raw]:
    """Yield running pods, equally many on each node."""
    for i in range(pods):
        spec = pod_template("500m", "1Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}"}
        metadata = {"name": f"p{i:06}", "namespace": "default", "labels": {"app": f"a{i % 500}"}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Running"},
        }


def new_pods(numbers: Iterable[int]) -> Iterator[Raw]:
    """Yield pods as users submit them, with different names and requests."""
    for i in numbers:
        spec = pod_template(f"{1000 + i % 4000}m", f"{1024 + i % 9000}Mi", 0)["spec"] | {
            "schedulerName": "shoal"
        }
        metadata = {"name": f"p{i:06}", "namespace": "default", "labels": {"app": f"a{i % 500}"}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def batch_jobs(pods: int, size: int = 100) -> Iterator[Raw]:
    """Yield Jobs of `size` parallel pods each; each Job has other requests."""
    for i in range(pods // size):
        job_template = pod_template(f"{1000 + i % 40 * 100}m", f"{1024 + i * 8}Mi", 0)
        job_template["spec"] |= {"schedulerName": "shoal", "restartPolicy": "Never"}
        spec = {"completions": size, "parallelism": size, "template": job_template}
        metadata = {"name": f"job-{i:05}", "namespace": "default"}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def two_pools(waiting: int) -> Iterator[Raw]:
    """Yield two pools of one node each that lend nothing, and pods that are too large for the first."""
    for name, node in zip(("a", "b"), mixed_nodes(2), strict=True):
        node["metadata"]["labels"] = labels = {"team": name}
        yield node
        spec = {"nodeSelector": {"matchLabels": labels}, "disableBorrowing": True, "disableSharing": True}
        kind = {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool"}
        yield {**kind, "metadata": {"name": name}, "spec": spec}
    for i in range(waiting):
        spec = pod_template("200", "1Gi", 0)["spec"] | {"schedulerName": "shoal"}
        metadata = {"name": f"w{i:06}", "namespace": "default", "annotations": {POOL: "a"}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def gpu_nodes(count: int) -> Iterator[Raw]:
    """Yield equal nodes with eight GPUs each."""
    resources = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
    for i in range(count):
        status = {"capacity": resources, "allocatable": resources}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i:05}"}, "status": status}


def elastic_jobs(jobs: int) -> Iterator[Raw]:
    """Yield equal elastic jobs, not started."""
    for i in range(jobs):
        yield elastic(f"job-{i:05}", (1, 50), "4", "16Gi", 1)


def mixed_elastic_jobs(jobs: int) -> Iterator[Raw]:
    """Yield elastic jobs of nine sizes, not started; their ranges make their scores interleave."""
    for i in range(jobs):
        cpus, gpus = 2 + i % 3, (1, 2, 4)[i // 3 % 3]
        low = 1 + i % 2
        yield elastic(f"job-{i:05}", (low, low + 7 + i % 40), str(cpus), f"{8 + cpus}Gi", gpus)


def running_elastic_jobs(jobs: int, sizes: list[int], nodes: int) -> Iterator[Raw]:
    """Yield elastic jobs that run at these sizes, and leave no GPU free."""
    slot = 0
    for i, size in enumerate(sizes[:jobs]):
        name = f"job-{i:05}"
        yield elastic(name, (1, 50), "4", "16Gi", 1)
        owner = {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "name": name, "controller": True}
        for k in range(size):
            spec = pod_template("4", "16Gi", 1)["spec"] | {"nodeName": f"n{slot % nodes:05}"}
            metadata = {"name": f"{name}-trainer-{k}", "ownerReferences": [{**owner, "uid": name}]}
            status = {"phase": "Running"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
            slot += 1


def elastic(name: str, size: tuple[int, int], cpus: str, memory: str, gpus: int) -> Raw:
    """Return an elastic TrainingJob."""
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
    """Yield pools that lend, borrow and preempt; their nodes are full of their own pods."""
    resources = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(count):
        name = f"team-{i:03}"
        labels = {"team": name}
        pool = {"apiVersion": "resource.aibee.cn/v1alpha1", "kind": "Pool", "metadata": {"name": name}}
        yield {**pool, "spec": {"nodeSelector": {"matchLabels": labels}}}
        for k in range(nodes):
            metadata = {"name": f"{name}-{k:03}", "labels": labels}
            status = {"capacity": resources, "allocatable": resources}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            for part in range(2):
                spec = pod_template("15", "32Gi", 0)["spec"]
                spec |= {"schedulerName": "shoal", "nodeName": f"{name}-{k:03}"}
                resident = {"name": f"{name}-{k:03}-{part}", "annotations": {POOL: name}}
                phase = {"phase": "Running"}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": resident, "spec": spec, "status": phase}


def small_gangs(pools: int, jobs: int) -> Iterator[Raw]:
    """Yield TYJobs of a leader and three workers, of ten sizes, `jobs` in each pool."""
    for i in range(pools * jobs):
        metadata = {"name": f"job-{i:05}", "annotations": {POOL: f"team-{i % pools:03}"}}
        workers = {
            "name": "worker",
            "counts": 3,
            "template": pod_template(f"{4 + i // pools % 10}", "8Gi", 0),
        }
        spec = {
            "leader": {"name": "leader", "template": pod_template("8", "16Gi", 0)},
            "workerSets": [workers],
        }
        yield {"apiVersion": "tyrl.io/v1alpha1", "kind": "TYJob", "metadata": metadata, "spec": spec}


def pod_template(cpus: str, memory: str, gpus: int) -> Raw:
    """Return a pod template."""
    requests = {"cpu": cpus, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"spec": {"containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}]}}
