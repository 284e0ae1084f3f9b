"""The YAML examples of the seed documents, quoted verbatim, are read and planned."""

import yaml

from tests.builders import GPU, Case, Object, check, node, pod, priority_class
from tests.support import plan

TRAINING_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata:
  name: job-1
spec:
  trainer:
    entrypoint: "python train.py"
    workspace: "/home/job-1/"
    min-instance: 3
    max-instance: 6
    resources:
      limits:
        alpha.kubernetes.io/nvidia-gpu: 1
        cpu: "800m"
        memory: "1Gi"
      requests:
        cpu: "500m"
        memory: "600Mi"
  pserver:
    min-instance: 3
    max-instance: 3
    resources:
      limits:
        cpu: "800m"
        memory: "1Gi"
      requests:
        cpu: "500m"
        memory: "600Mi"
  master:
    resources:
      limits:
        cpu: "800m"
        memory: "1Gi"
      requests:
        cpu: "500m"
        memory: "600Mi"
"""

CONTROLLER = """\
apiVersion: extensions/v1beta1
kind: Deployment
metadata:
  name: training-job-controller
spec:
  replicas: 1
  template:
    metadata:
      labels:
        name: training-job-controller
    spec:
      containers:
      - name: training-job-controller
        image: paddlepaddle/training-job-controller
"""

TEST_JOB_CPU = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: test-job-cpu
spec:
  completions: 10
  parallelism: 10
  activeDeadlineSeconds: 600
  template:
    metadata:
      annotations:
        resource.aibee.cn/pool: cpu-pool
    spec:
      schedulerName: ai-scheduler
      containers:
        - name: pi
          image: perl
          command: ["perl"]
          args: ["-Mbignum=bpi", "-wle", "print bpi(2000)"]
          imagePullPolicy: IfNotPresent
          resources:
            limits:
              cpu: 1000m
              memory: 100M
            requests:
              cpu: 1000m
              memory: 100M
      restartPolicy: Never
  backoffLimit: 3
"""

DEMO_POOL = """\
apiVersion: resource.aibee.cn/v1alpha1
kind: Pool
metadata:
  name: demo
spec:
  nodeSelector:
    matchLabels:
      pool: "demo"
  disablePreemption: false
  disableBorrowing: false
  disableSharing: false
"""

MASTERS_POOL = """\
apiVersion: resource.aibee.cn/v1alpha1
kind: Pool
metadata:
  name: masters
spec:
  nodeSelector:
    matchLabels:
      kubernetes.io/role: "master"
  disablePreemption: true
  disableBorrowing: true
  disableSharing: true
"""

CPU_POOL = """\
apiVersion: resource.aibee.cn/v1alpha1
kind: Pool
metadata:
  name: cpu-pool
spec:
  nodeSelector:
    matchLabels:
      cpu: "true"
  disablePreemption: false
  disableBorrowing: false
  disableSharing: false
"""

TEST_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: test-job
spec:
  completions: 130
  parallelism: 130
  activeDeadlineSeconds: 600000
  template:
    metadata:
      name: test-job
      annotations:
        resource.aibee.cn/pool: cpu-pool
    spec:
      schedulerName: ai-scheduler
      containers:
        - name: pi
          image: perl
          command: ["perl"]
          args: ["-Mbignum=bpi", "-wle", "print bpi(200000)"]
          imagePullPolicy: IfNotPresent
          resources:
            limits:
              cpu: 1000m
              memory: 100M
            requests:
              cpu: 1000m
              memory: 100M
      restartPolicy: Never
      priorityClassName: high
  backoffLimit: 3
"""


TASKS = ("master-0", *(f"pserver-{i}" for i in range(3)), *(f"trainer-{i}" for i in range(3)))
CPUS, MASTER, DEMO = {"cpu": "true"}, {"kubernetes.io/role": "master"}, {"pool": "demo"}


def read(*texts: str) -> list[Object]:
    return [document for text in texts for document in yaml.safe_load_all(text)]


def plan_of(*objects: Object) -> Object:
    return plan(list(objects))


def test_a_training_job_starts_with_its_minimum() -> None:
    world = [*read(TRAINING_JOB), node("n1", cpu=4), node("n2", cpu=4, gpu=3)]
    status = {"state": "ScheduledSucceed", "min": 3, "max": 6, "target": 3, "reasons": []}
    case = Case(
        objects=world,
        placed={f"job-1-{task}": "n2" if task.startswith("trainer") else "n1" for task in TASKS},
        roles={"job-1-master-0": "master", "job-1-pserver-2": "pserver", "job-1-trainer-2": "trainer"},
        jobs={"TrainingJob/default/job-1": status},
    )
    check(case, plan_of(*world))


def test_a_training_job_without_gpus_for_its_minimum_waits() -> None:
    busy = pod("x", gpu=1, node="n1", scheduler="other")
    world = [*read(TRAINING_JOB), node("n1", gpu=3), busy]
    case = Case(
        objects=world,
        placed={},
        jobs={"TrainingJob/default/job-1": {"state": "Unscheduled", "target": 0, "reasons": ["NoRoom"]}},
        says={"TrainingJob/default/job-1": [GPU]},
    )
    check(case, plan_of(*world))


def test_an_unsupported_kind_is_skipped() -> None:
    assert plan_of(*read(CONTROLLER), node("n1"))["jobs"] == []


def test_the_pods_of_a_batch_job_fill_the_pool_they_name() -> None:
    world = [*read(CPU_POOL, TEST_JOB_CPU), node("n1", cpu=99), node("n2", cpu=8, labels=CPUS)]
    world.append(node("n3", cpu=4, labels=CPUS))
    indexes = {"n3": range(4), "n2": range(4, 10)}
    case = Case(
        objects=world,
        placed={f"test-job-cpu-{number}": name for name, numbers in indexes.items() for number in numbers},
        jobs={"Pod/default/test-job-cpu-9": {"pool": "cpu-pool", "state": "ScheduledSucceed"}},
        pools={"cpu-pool": ["n2", "n3"], "default": ["n1"]},
    )
    check(case, plan_of(*world))


def test_a_batch_job_with_a_priority_class_goes_first() -> None:
    """130 pods of high priority and 10 without a priority, in a pool with room for 132."""
    jobs = read(TEST_JOB, TEST_JOB_CPU)
    high = priority_class("high", 1000)
    answer = plan_of(*jobs, *read(CPU_POOL), high, node("n1", cpu=132, memory="64Gi", labels=CPUS))
    placed = [placement["pod"] for placement in answer["placements"]]
    assert sorted(placed[:130]) == sorted(f"default/test-job-{number}" for number in range(130))
    assert placed[130:] == ["default/test-job-cpu-0", "default/test-job-cpu-1"]
    waiting = [job for job in answer["jobs"] if job["position"]]
    assert [job["position"] for job in waiting] == list(range(1, 9))
    assert {job["priority"] for job in waiting} == {0}


def test_pools_have_the_nodes_that_they_select() -> None:
    nodes = [node("m1", labels=MASTER), node("d1", labels=DEMO), node("c1", labels=CPUS), node("x1")]
    both = node("y1", labels=DEMO | CPUS)
    answer = plan_of(*read(DEMO_POOL, MASTERS_POOL, CPU_POOL), *nodes, both)
    members = {"cpu-pool": ["c1"], "default": ["x1", "y1"], "demo": ["d1"], "masters": ["m1"]}
    assert {pool["pool"]: pool["nodes"] for pool in answer["pools"]} == members
    features = {
        pool["pool"]: (pool["preemption"], pool["borrowing"], pool["sharing"]) for pool in answer["pools"]
    }
    assert features == dict.fromkeys(members, (True, True, True)) | {"masters": (False, False, False)}


def test_a_pool_without_sharing_is_not_used_by_other_pools() -> None:
    world = [*read(MASTERS_POOL), node("m1", labels=MASTER), pod("p", cpu=1), pod("q", cpu=1, pool="masters")]
    case = Case(
        objects=world,
        placed={"q": "m1"},
        jobs={"Pod/default/p": {"pool": "default", "state": "Unscheduled", "reasons": ["NoRoom"]}},
    )
    check(case, plan_of(*world))
