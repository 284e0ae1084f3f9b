"""Builders of Kubernetes objects, and test cases as data.

A test should read like its sentence: `pod("p", cpu=1, node="n1")`. Every builder returns the plain dictionary
that a YAML file would contain; nothing here depends on the engine. A `Case` is a world and its expected plan,
and `check` compares a plan with it; the tables of cases are in the `test_cases_*` modules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Amount = int | str

GPU = "nvidia.com/gpu"
POOL = "resource.aibee.cn/pool"
INDEX = "batch.kubernetes.io/job-completion-index"
START = "2024-05-01T00:00:00Z"

NO_PREEMPTION: Object = {"disablePreemption": True}


def resources(cpu: Amount = 0, memory: Amount = 0, gpu: Amount = 0, **more: Amount) -> Object:
    """Amounts by resource name, without those that are 0; `more` takes any other name."""
    amounts = {"cpu": cpu, "memory": memory, GPU: gpu, **more}
    return {name: str(amount) for name, amount in amounts.items() if amount != 0}


# --- the cluster -------------------------------------------------------------------------------------------


def node(
    name: str,
    *,
    cpu: Amount = 10,
    memory: Amount = "10Gi",
    gpu: Amount = 0,
    pods: int | None = None,
    more: Mapping[str, Amount] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    ready: str | None = None,
    unschedulable: bool = False,
) -> Object:
    """A node; `ready` is the status of its Ready condition, which is absent by default."""
    allocatable = resources(cpu, memory, gpu, **(more or {}))
    if pods is not None:
        allocatable["pods"] = str(pods)
    status: Object = {"capacity": dict(allocatable), "allocatable": allocatable}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": ready}]
    spec: Object = {}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels},
        "spec": spec,
        "status": status,
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


def pool(
    name: str,
    *,
    selector: Mapping[str, str] | None = None,
    expressions: Sequence[Object] = (),
    node_resources: Sequence[str] = (),
    namespaces: Mapping[str, str] | None = None,
    queue: str | None = None,
    closed: bool = True,
) -> Object:
    """A pool; unless `closed` is False it neither lends, borrows nor preempts."""
    spec: Object = {}
    if selector is not None:
        spec["nodeSelector"] = {"matchLabels": dict(selector)}
    if expressions:
        spec.setdefault("nodeSelector", {})["matchExpressions"] = list(expressions)
    if node_resources:
        spec["nodeResources"] = list(node_resources)
    if namespaces is not None:
        spec["namespaceSelector"] = {"matchLabels": dict(namespaces)}
    if queue:
        spec["queuePolicy"] = queue
    if closed:
        spec |= {"disablePreemption": True, "disableBorrowing": True, "disableSharing": True}
    return {
        "apiVersion": "resource.aibee.cn/v1alpha1",
        "kind": "Pool",
        "metadata": {"name": name},
        "spec": spec,
    }


def open_pool(
    name: str,
    *,
    selector: Mapping[str, str] | None = None,
    node_resources: Sequence[str] = (),
    queue: str | None = None,
    preempts: bool = True,
    borrows: bool = True,
    shares: bool = True,
    borrows_from: Sequence[str] = (),
    order: str | None = None,
) -> Object:
    """A pool with all features except those that are disabled; it selects nodes labelled pool=<name>."""
    if selector is None and not node_resources:
        selector = {"pool": name}
    built = pool(name, selector=selector, node_resources=node_resources, queue=queue, closed=False)
    off = {"disablePreemption": not preempts, "disableBorrowing": not borrows, "disableSharing": not shares}
    built["spec"] |= {key: True for key, value in off.items() if value}
    if borrows_from:
        built["spec"]["borrowingPools"] = list(borrows_from)
    if order:
        built["spec"]["order"] = order
    return built


def namespace(name: str, *, labels: Mapping[str, str] | None = None, pool: str | None = None) -> Object:
    metadata: Object = {"name": name, "labels": dict(labels or {})}
    if pool:
        metadata["annotations"] = {POOL: pool}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def priority_class(name: str, value: int, *, default: bool = False, never: bool = False) -> Object:
    built: Object = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }
    return built | ({"preemptionPolicy": "Never"} if never else {})


def budget(
    name: str,
    *,
    selector: Mapping[str, str],
    namespace: str = "default",
    min_available: Amount | None = None,
    max_unavailable: Amount | None = None,
    allowed: int | None = None,
) -> Object:
    """A PodDisruptionBudget; `allowed` is the disruptionsAllowed of its status, absent by default."""
    numbers = {"minAvailable": min_available, "maxUnavailable": max_unavailable}
    spec: Object = {key: value for key, value in numbers.items() if value is not None}
    built: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | {"selector": {"matchLabels": dict(selector)}},
    }
    return built | ({} if allowed is None else {"status": {"disruptionsAllowed": allowed}})


# --- pods --------------------------------------------------------------------------------------------------


def container(
    requests: Object | None = None,
    limits: Object | None = None,
    *,
    host_port: int | None = None,
    restart: str | None = None,
) -> Object:
    built: Object = {"name": "main", "image": "busybox", "resources": {}}
    if requests:
        built["resources"]["requests"] = requests
    if limits:
        built["resources"]["limits"] = limits
    if host_port:
        built["ports"] = [{"containerPort": host_port, "hostPort": host_port}]
    if restart:
        built["restartPolicy"] = restart
    return built


def template(
    *,
    cpu: Amount = 0,
    memory: Amount = 0,
    gpu: Amount = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str | None = None,
    priority: str | None = None,
    host_port: int | None = None,
    spec: Object | None = None,
) -> Object:
    """A pod template of one container; `priority` names a PriorityClass, `spec` adds or replaces fields."""
    built: Object = {"containers": [container(resources(cpu, memory, gpu), host_port=host_port)]}
    if scheduler:
        built["schedulerName"] = scheduler
    if priority:
        built["priorityClassName"] = priority
    metadata: Object = {}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": built | (spec or {})}


def _metadata(name: str, namespace: str, created: str | None, pool: str | None) -> Object:
    built: Object = {"name": name, "namespace": namespace}
    if created:
        built["creationTimestamp"] = created
    if pool:
        built["annotations"] = {POOL: pool}
    return built


def owner(kind: str, name: str) -> Object:
    versions = {
        "TYJob": "tyrl.io/v1alpha1",
        "DIJob": "diengine.opendilab.org/v2alpha1",
        "TrainingJob": "paddlepaddle.org/v1",
        "Job": "batch/v1",
        "ReplicaSet": "apps/v1",
    }
    return {
        "apiVersion": versions[kind],
        "kind": kind,
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }


def pod_of(
    name: str,
    shape: Object,
    *,
    namespace: str = "default",
    node: str | None = None,
    of: Object | None = None,
    terminating: bool = False,
    nominated: str | None = None,
    phase: str | None = None,
    created: str | None = None,
) -> Object:
    """A pod of a template, on a node or pending; `of` is its owner reference."""
    template_metadata = shape.get("metadata", {})
    metadata = _metadata(name, namespace, created, None)
    metadata |= {
        key: dict(template_metadata[key]) for key in ("labels", "annotations") if key in template_metadata
    }
    if of:
        metadata["ownerReferences"] = [of]
    if terminating:
        metadata |= {"deletionTimestamp": created or START, "deletionGracePeriodSeconds": 30}
    status: Object = {"phase": phase or ("Running" if node else "Pending")}
    if nominated:
        status["nominatedNodeName"] = nominated
    spec = {"schedulerName": "shoal", **shape["spec"]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def pod(
    name: str,
    *,
    cpu: Amount = 0,
    memory: Amount = 0,
    gpu: Amount = 0,
    namespace: str = "default",
    node: str | None = None,
    scheduler: str = "shoal",
    priority: str | None = None,
    pool: str | None = None,
    gang: str | None = None,
    gang_min: int | None = None,
    labels: Mapping[str, str] | None = None,
    host_port: int | None = None,
    owner: Object | None = None,
    terminating: bool = False,
    nominated: str | None = None,
    phase: str | None = None,
    created: str | None = None,
    spec: Object | None = None,
) -> Object:
    """A pod of one container, running if it has a node."""
    annotations = {POOL: pool, "shoal.io/gang": gang, "shoal.io/gang-min": gang_min}
    shape = template(
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        labels=labels,
        annotations={key: str(value) for key, value in annotations.items() if value is not None},
        scheduler=scheduler,
        priority=priority,
        host_port=host_port,
        spec=spec,
    )
    return pod_of(
        name,
        shape,
        namespace=namespace,
        node=node,
        of=owner,
        terminating=terminating,
        nominated=nominated,
        phase=phase,
        created=created,
    )


# --- jobs --------------------------------------------------------------------------------------------------


def tyjob(
    name: str,
    *,
    leader: Object,
    workers: Mapping[str, tuple[int, Object]],
    namespace: str = "default",
    min_workers: int | None = None,
    policy: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    pool: str | None = None,
    created: str | None = None,
    terminating: bool = False,
    status: Object | None = None,
) -> Object:
    """A TYJob; `workers` maps a set's name to its count and template."""
    spec: Object = {
        "leader": {"name": "leader", "template": leader},
        "workerSets": [{"name": n, "counts": c, "template": t} for n, (c, t) in workers.items()],
    }
    if min_workers is not None:
        spec["minWorkersNum"] = min_workers
    if priority is not None:
        spec["priority"] = priority
    if terminating:
        spec["terminating"] = True
    policies = {"basicPolicy": policy, "jobQueuePolicy": queue}
    spec["schedulerPolicy"] = {key: value for key, value in policies.items() if value}
    return _job("tyrl.io/v1alpha1", "TYJob", _metadata(name, namespace, created, pool), spec, status)


def dijob(
    name: str,
    shape: Object,
    *,
    namespace: str = "default",
    replicas: tuple[int, int] = (1, 1),
    preemptible: bool = False,
    priority: str | None = None,
    suspend: bool = False,
    pool: str | None = None,
    created: str | None = None,
    status: Object | None = None,
) -> Object:
    """A DIJob in template form; `replicas` is (min, max)."""
    spec: Object = {"minReplicas": replicas[0], "maxReplicas": replicas[1], "template": shape}
    spec |= {"preemptible": preemptible, "suspend": suspend}
    if priority:
        spec["priority"] = priority
    metadata = _metadata(name, namespace, created, pool)
    return _job("diengine.opendilab.org/v2alpha1", "DIJob", metadata, spec, status)


def dijob_tasks(
    name: str,
    tasks: Sequence[Object],
    *,
    namespace: str = "default",
    priority: str | None = None,
    pool: str | None = None,
    created: str | None = None,
    status: Object | None = None,
) -> Object:
    """A DIJob in tasks form, with tasks of `di_task`."""
    spec: Object = {"tasks": list(tasks)}
    if priority:
        spec["priority"] = priority
    metadata = _metadata(name, namespace, created, pool)
    return _job("diengine.opendilab.org/v2alpha1", "DIJob", metadata, spec, status)


def di_task(type_: str, shape: Object, *, replicas: int = 1, name: str | None = None) -> Object:
    built: Object = {"type": type_, "replicas": replicas, "template": shape}
    return built | ({"name": name} if name else {})


def trainingjob(
    name: str,
    *,
    trainer: Object,
    trainers: tuple[int, int] = (1, 1),
    limits: Object | None = None,
    pserver: Object | None = None,
    pservers: int = 1,
    scaled_to: int | None = None,
    master: Object | None = None,
    namespace: str = "default",
    selector: Mapping[str, str] | None = None,
    priority: str | None = None,
    pool: str | None = None,
    created: str | None = None,
    status: Object | None = None,
) -> Object:
    """A TrainingJob; `trainer`, `pserver` and `master` are resource requests, `trainers` is (min, max).

    `limits` are those of a trainer; `scaled_to` is the number of pservers at the maximum of trainers.
    """
    low, high = trainers
    spec: Object = {
        "trainer": {
            "entrypoint": "python train.py",
            "workspace": "/work",
            "min-instance": low,
            "max-instance": high,
            "resources": {"requests": trainer} | ({"limits": limits} if limits else {}),
        }
    }
    if pserver is not None:
        spec["pserver"] = {
            "min-instance": pservers,
            "max-instance": pservers,
            "resources": {"requests": pserver},
        }
        if scaled_to is not None:
            spec["pserver"] |= {"max-instance": scaled_to, "scaleWithTrainers": True}
    if master is not None:
        spec["master"] = {"resources": {"requests": master}}
    if selector:
        spec["nodeSelector"] = dict(selector)
    if priority:
        spec["priorityClassName"] = priority
    return _job("paddlepaddle.org/v1", "TrainingJob", _metadata(name, namespace, created, pool), spec, status)


def batch_job(
    name: str,
    shape: Object,
    *,
    namespace: str = "default",
    parallelism: int = 1,
    completions: int | None = None,
    indexed: bool = False,
    created: str | None = None,
    status: Object | None = None,
) -> Object:
    """A batch/v1 Job; its pods use this scheduler unless the template names another."""
    with_scheduler = shape | {"spec": {"schedulerName": "shoal", "restartPolicy": "Never", **shape["spec"]}}
    spec: Object = {"parallelism": parallelism, "template": with_scheduler}
    if completions is not None:
        spec["completions"] = completions
    if indexed:
        spec["completionMode"] = "Indexed"
    return _job("batch/v1", "Job", _metadata(name, namespace, created, None), spec, status)


def _job(version: str, kind: str, metadata: Object, spec: Object, status: Object | None) -> Object:
    built: Object = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    built["metadata"]["uid"] = f"uid-{metadata['name']}"
    return built | ({"status": status} if status else {})


# --- cases -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Case:
    """A world and its expected plan. Pods without a namespace are in `default`."""

    objects: Sequence[Object]
    placed: Mapping[str, str]
    """All placements: pod → node."""
    jobs: Mapping[str, Object] = field(default_factory=dict)
    """Some of the jobs, with some of their fields; `reasons` are codes."""
    says: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words in the messages of a job's reasons."""
    roles: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Sequence[str]] | None = None
    """All pools with their nodes."""
    order: Sequence[str] = ()
    """Jobs in the order in which their first pod was placed."""
    evicted: Mapping[str, str] = field(default_factory=dict)
    """All evictions: pod → reason."""
    evicted_for: Mapping[str, str | None] = field(default_factory=dict)
    """The beneficiaries of some evictions: pod → job, None if there is none."""
    borrowed: Sequence[str] | None = None
    """All pods placed outside their home pool."""
    absent: Sequence[str] = ()
    """Jobs that must not be listed."""
    config: Object | None = None
    cycles: int = 1
    now: str | None = None


def check(case: Case, answer: Object, *, messages: bool = True) -> None:
    """Assert that a plan meets the case; plans of the reference have no messages and no pools."""
    placed = {p["pod"]: p["node"] for p in answer["placements"]}
    assert len(placed) == len(answer["placements"]), "a pod was placed twice"
    assert placed == {_pod_key(pod): node for pod, node in case.placed.items()}
    evicted = {e["pod"]: e["reason"] for e in answer["evictions"]}
    assert len(answer["evictions"]) == len(case.evicted)
    assert evicted == {_pod_key(pod): reason for pod, reason in case.evicted.items()}
    beneficiaries = {e["pod"]: e.get("for") for e in answer["evictions"]}
    assert {_pod_key(pod): job for pod, job in case.evicted_for.items()}.items() <= beneficiaries.items()
    if case.borrowed is not None:
        borrowed = sorted(p["pod"] for p in answer["placements"] if p["borrowed"])
        assert borrowed == sorted(_pod_key(pod) for pod in case.borrowed)
    roles = {p["pod"]: p["role"] for p in answer["placements"]}
    assert {_pod_key(pod): role for pod, role in case.roles.items()}.items() <= roles.items()
    _check_jobs(case, answer)
    if messages:
        _check_messages(case, answer)
    if case.order:
        assert list(dict.fromkeys(p["job"] for p in answer["placements"])) == list(case.order)
    if case.pools is not None and "pools" in answer:
        assert {p["pool"]: p["nodes"] for p in answer["pools"]} == {k: list(v) for k, v in case.pools.items()}


def _check_jobs(case: Case, answer: Object) -> None:
    jobs = {job["job"]: job for job in answer["jobs"]}
    for name, expected in case.jobs.items():
        entry = jobs[name] | {"reasons": codes(jobs[name])}
        assert {key: entry[key] for key in expected} == expected, name
    assert not set(case.absent) & set(jobs)


def _check_messages(case: Case, answer: Object) -> None:
    for job in answer["jobs"]:
        text = " ".join(reason["message"] for reason in job["reasons"])
        assert all(word in text for word in case.says.get(job["job"], ())), text


def codes(job: Object) -> list[str]:
    return [reason["code"] for reason in job["reasons"]]


def _pod_key(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"
