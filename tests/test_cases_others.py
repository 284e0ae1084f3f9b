"""The placement cases of the other specifications, and the rules of spec/plan.md for all kinds."""

import pytest

from tests.builders import (
    GPU,
    INDEX,
    NO_PREEMPTION,
    POOL,
    Case,
    Object,
    batch_job,
    check,
    container,
    di_task,
    dijob,
    dijob_tasks,
    namespace,
    node,
    owner,
    pod,
    pod_of,
    pool,
    priority_class,
    resources,
    taint,
    template,
    trainingjob,
    tyjob,
)
from tests.support import plan

EARLY, LATE = "2024-05-01T00:00:00Z", "2024-05-01T00:01:00Z"
ONE = template(cpu=1)
P1, P2 = pool("p1", selector={"pool1": "true"}), pool("p2", selector={"pool2": "true"})
CLOSED = pool("default")
IN_1, IN_2 = {"pool1": "true"}, {"pool2": "true"}


def gated_pod(name: str) -> Object:
    return pod(name, cpu=1, spec={"schedulingGates": [{"name": "wait"}]})


def pod_affinity(label: str, *, kind: str = "podAntiAffinity", key: str = "kubernetes.io/hostname") -> Object:
    """A required affinity or anti-affinity to pods labelled app=…"""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def node_affinity(*terms: Object) -> Object:
    """A required node affinity."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def label_matches(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


MEMBERSHIP = {
    "pools 1: nodes go to the pool that selects them": Case(
        objects=[P1, P2, node("n1", labels=IN_1), node("n2", labels=IN_1), node("n3", labels=IN_2)],
        placed={},
        pools={"default": [], "p1": ["n1", "n2"], "p2": ["n3"]},
    ),
    "pools 2: a node that two pools select is in the default pool": Case(
        objects=[P1, P2, node("n1", labels=IN_1), node("n2", labels=IN_1 | IN_2), node("n3", labels=IN_2)],
        placed={},
        pools={"default": ["n2"], "p1": ["n1"], "p2": ["n3"]},
    ),
    "pools 3: without p2 its node is in the default pool and the shared one is p1's": Case(
        objects=[P1, node("n1", labels=IN_1), node("n2", labels=IN_1 | IN_2), node("n3", labels=IN_2)],
        placed={},
        pools={"default": ["n3"], "p1": ["n1", "n2"]},
    ),
    "pools 4: a node with another label is in another pool": Case(
        objects=[P1, P2, node("n1", labels=IN_2), node("n2", labels={"pool1": "false"}), node("n3")],
        placed={},
        pools={"default": ["n2", "n3"], "p1": [], "p2": ["n1"]},
    ),
    "pools 4: a selector may have expressions": Case(
        objects=[
            pool("p1", expressions=[{"key": "zone", "operator": "In", "values": ["a", "b"]}]),
            node("n1", labels={"zone": "a"}),
            node("n2", labels={"zone": "c"}),
            node("n3"),
        ],
        placed={},
        pools={"default": ["n2", "n3"], "p1": ["n1"]},
    ),
    "a pool without a selector has no node": Case(
        objects=[pool("p1"), node("n1")], placed={}, pools={"default": ["n1"], "p1": []}
    ),
    "pools 5: the queue of a pool goes by PriorityClass": Case(
        objects=[
            *(P1, CLOSED, priority_class("ten", 10), node("n1", cpu=1, labels=IN_1)),
            pod("low", cpu=1, pool="p1", created=EARLY),
            pod("high", cpu=1, pool="p1", created=LATE, priority="ten"),
        ],
        placed={"high": "n1"},
        jobs={
            "Pod/default/high": {"pool": "p1", "priority": 10, "jobPriority": None},
            "Pod/default/low": {"pool": "p1", "priority": 0, "position": 1},
        },
    ),
    "pools 9: pods of another scheduler are never victims": Case(
        objects=[
            priority_class("ten", 10),
            node("n1", cpu=1),
            pod("theirs", cpu=1, node="n1", scheduler="default-scheduler"),
            pod("ours", cpu=1, priority="ten"),
        ],
        placed={},
        jobs={"Pod/default/ours": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
        absent=["Pod/default/theirs"],
    ),
    "pools 10: with disablePreemption nothing is evicted": Case(
        objects=[
            *(priority_class("ten", 10), node("n1", cpu=1)),
            pod("there", cpu=1, node="n1"),
            pod("new", cpu=1, priority="ten"),
        ],
        placed={},
        jobs={
            "Pod/default/there": {"state": "ScheduledSucceed", "current": 1, "reasons": []},
            "Pod/default/new": {"position": 1, "reasons": ["NoRoom"]},
        },
        config=NO_PREEMPTION,
    ),
    "pools 23: nodes by the resources they have": Case(
        objects=[pool("gpus", node_resources=[GPU]), CLOSED, node("n1", gpu=8), node("n2")],
        placed={},
        pools={"default": ["n2"], "gpus": ["n1"]},
    ),
    "pools 23: resources and a selector must both hold": Case(
        objects=[
            pool("gpus", node_resources=[GPU], selector=IN_1),
            *(node("n1", gpu=8), node("n2", gpu=8, labels=IN_1), node("n3", labels=IN_1)),
        ],
        placed={},
        pools={"default": ["n1", "n3"], "gpus": ["n2"]},
    ),
}

AT_HOME = {
    "a pod is placed in its own pool only": Case(
        objects=[
            P1,
            CLOSED,
            node("n1", cpu=1, labels=IN_1),
            node("n2"),
            pod("a", cpu=1, pool="p1"),
            pod("b", cpu=2),
        ],
        placed={"a": "n1", "b": "n2"},
        jobs={"Pod/default/a": {"pool": "p1"}, "Pod/default/b": {"pool": "default"}},
    ),
    "a pool that is full keeps its pods waiting though another has room": Case(
        objects=[
            *(P1, CLOSED, node("n1", cpu=1, labels=IN_1), node("n2")),
            pod("a", cpu=1, pool="p1", node="n1"),
            pod("b", cpu=1, pool="p1"),
        ],
        placed={},
        jobs={"Pod/default/b": {"pool": "p1", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "a pod whose pool does not exist is planned in the default pool, with a reason": Case(
        objects=[node("n1", cpu=1), pod("a", cpu=1, pool="nowhere"), pod("b", cpu=1, pool="nowhere")],
        placed={"a": "n1"},
        jobs={
            "Pod/default/b": {
                "pool": "default",
                "state": "Unscheduled",
                "reasons": ["WaitingForPool", "NoRoom"],
            }
        },
    ),
    "a namespace that may not use the pool is planned in the default pool, with a reason": Case(
        objects=[
            *(pool("p1", selector=IN_1, namespaces={"team": "a"}), CLOSED),
            *(namespace("a", labels={"team": "a"}), namespace("b", labels={"team": "b"})),
            *(node("n1", labels=IN_1), node("n2", cpu=1)),
            pod("p", cpu=1, namespace="a", pool="p1"),
            pod("p", cpu=2, namespace="b", pool="p1"),
        ],
        placed={"a/p": "n1"},
        jobs={
            "Pod/a/p": {"pool": "p1", "reasons": []},
            "Pod/b/p": {
                "pool": "default",
                "state": "ScheduledFailed",
                "reasons": ["WaitingForPool", "NeverFits"],
            },
        },
    ),
    "the annotation of the namespace counts where the pod has none": Case(
        objects=[
            *(P1, P2, CLOSED, namespace("a", pool="p1")),
            *(node("n1", labels=IN_1), node("n2", labels=IN_2)),
            *(pod("p", cpu=1, namespace="a"), pod("q", cpu=1, namespace="a", pool="p2")),
        ],
        placed={"a/p": "n1", "a/q": "n2"},
    ),
    "a job joins by the annotation on itself or on its template": Case(
        objects=[
            *(P1, P2, CLOSED, node("n1", labels=IN_1), node("n2", labels=IN_2)),
            dijob("a", ONE, pool="p1"),
            dijob("b", template(cpu=1, annotations={POOL: "p2"})),
        ],
        placed={"a-0-0": "n1", "b-0-0": "n2"},
    ),
    "a pool's queue policy goes before the scheduler's": Case(
        objects=[
            *(pool("p1", selector=IN_1, queue="DRF"), CLOSED, node("n1", cpu=2, labels=IN_1)),
            pod("old", cpu=2, pool="p1", created=EARLY),
            pod("small", cpu=1, pool="p1", created=LATE),
        ],
        placed={"small": "n1"},
        config={"queuePolicy": "Priority"},
    ),
    "a waiting pod in a pool without nodes waits without a position": Case(
        objects=[P1, CLOSED, node("n1"), pod("a", cpu=1, pool="p1")],
        placed={},
        jobs={"Pod/default/a": {"state": "Unscheduled", "position": None, "reasons": ["NoRoom"]}},
    ),
}

NAMES = {
    "a DIJob in template form: <job>-<generation>-<rank>": Case(
        objects=[node("n1"), dijob("d", ONE, replicas=(2, 2), status={"generation": 3})],
        placed={"d-3-0": "n1", "d-3-1": "n1"},
        roles={"d-3-0": "replica"},
        jobs={"DIJob/default/d": {"min": 2, "max": 2, "target": 2, "jobPriority": 5}},
    ),
    "a preemptible DIJob has the same names": Case(
        objects=[node("n1"), dijob("d", ONE, replicas=(2, 2), preemptible=True, priority="high")],
        placed={"d-0-0": "n1", "d-0-1": "n1"},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "jobPriority": 10}},
    ),
    "a DIJob in tasks form: <job>-<task>-<i>, a task without a name by its type": Case(
        objects=[
            node("n1"),
            dijob_tasks("d", [di_task("learner", ONE), di_task("collector", ONE, replicas=2, name="c")]),
        ],
        placed={"d-learner-0": "n1", "d-c-0": "n1", "d-c-1": "n1"},
        roles={"d-learner-0": "learner", "d-c-1": "c"},
        jobs={"DIJob/default/d": {"min": 3, "max": 3, "target": 3}},
    ),
    "a TYJob: <job>-<leader> and <job>-<worker set>-<i>": Case(
        objects=[node("n1"), tyjob("t", leader=ONE, workers={"a": (1, ONE), "b": (2, ONE)})],
        placed={"t-leader": "n1", "t-a-0": "n1", "t-b-0": "n1", "t-b-1": "n1"},
        roles={"t-leader": "leader", "t-b-1": "worker"},
    ),
    "a TrainingJob: <job>-master-0, <job>-pserver-<i>, <job>-trainer-<i>": Case(
        objects=[
            node("n1"),
            trainingjob(
                "p",
                trainer=resources(1),
                trainers=(2, 2),
                pserver=resources(1),
                pservers=2,
                master=resources(1),
            ),
        ],
        placed={
            f"p-{task}": "n1" for task in ("master-0", "pserver-0", "pserver-1", "trainer-0", "trainer-1")
        },
        roles={"p-master-0": "master", "p-pserver-1": "pserver", "p-trainer-0": "trainer"},
        jobs={"TrainingJob/default/p": {"min": 2, "max": 2, "current": 0, "target": 2, "jobPriority": None}},
    ),
    "a batch Job: <job>-<k>, counted on from the pods it has": Case(
        objects=[
            node("n1"),
            batch_job("b", ONE, parallelism=4, completions=4),
            pod_of("b-x7k2p", ONE, node="n1", of=owner("Job", "b")),
            pod_of("b-q9v4d", ONE, node="n1", of=owner("Job", "b"), phase="Succeeded"),
        ],
        placed={"b-2": "n1", "b-3": "n1"},
        roles={"b-2": "pod"},
        jobs={"Pod/default/b-2": {"min": 1, "max": 1, "target": 1}, "Pod/default/b-x7k2p": {"current": 1}},
        absent=["Pod/default/b-q9v4d"],
    ),
    "a batch Job has at most `parallelism` pods at once": Case(
        objects=[
            node("n1"),
            batch_job("b", ONE, parallelism=2, completions=9),
            pod_of("b-x7k2p", ONE, node="n1", of=owner("Job", "b")),
        ],
        placed={"b-1": "n1"},
    ),
    "an Indexed Job: the lowest missing indices": Case(
        objects=[
            node("n1"),
            batch_job("b", ONE, parallelism=3, completions=5, indexed=True, status={"completedIndexes": "0"}),
            pod_of("b-2-x7k2p", template(cpu=1, annotations={INDEX: "2"}), node="n1", of=owner("Job", "b")),
        ],
        placed={"b-1": "n1", "b-3": "n1"},
    ),
    "a batch Job that is complete has no more pods": Case(
        objects=[
            node("n1"),
            batch_job("b", ONE, status={"conditions": [{"type": "Complete", "status": "True"}]}),
        ],
        placed={},
    ),
    "a batch Job of another scheduler is left to it": Case(
        objects=[node("n1"), batch_job("b", template(cpu=1, scheduler="volcano"))], placed={}
    ),
    "a job's template that names another scheduler is left to it": Case(
        objects=[node("n1"), dijob("d", template(cpu=1, scheduler="volcano"))], placed={}
    ),
}

JOBS = {
    "dijob 8: limits replace missing requests": Case(
        objects=[
            node("n1", cpu=3),
            dijob(
                "d",
                {"spec": {"containers": [container(limits=resources(2))]}},
                replicas=(1, 2),
                status={"replicas": 2},
            ),
        ],
        placed={"d-0-0": "n1"},
        jobs={"DIJob/default/d": {"state": "ScheduledPartly", "target": 1, "reasons": ["NoRoom"]}},
    ),
    "dijob 8: a sidecar is counted": Case(
        objects=[
            node("n1", cpu=3),
            dijob("d", {"spec": {"containers": [container(resources(2)), container(resources(2))]}}),
        ],
        placed={},
        jobs={"DIJob/default/d": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "dijob 8: a name with dots": Case(
        objects=[node("n1"), dijob("d.v1.x", ONE)], placed={"d.v1.x-0-0": "n1"}
    ),
    "dijob 11: a preemptible job with no room waits with a reason": Case(
        objects=[
            node("n1", cpu=3),
            pod("x", cpu=2, node="n1", scheduler="other"),
            dijob("d", ONE, replicas=(2, 2), preemptible=True),
        ],
        placed={},
        jobs={
            "DIJob/default/d": {
                "state": "Unscheduled",
                "current": 0,
                "target": 0,
                "position": 1,
                "reasons": ["NoRoom"],
            }
        },
        says={"DIJob/default/d": ["cpu"]},
    ),
    "dijob 11: room appears and it runs": Case(
        objects=[
            node("n1", cpu=3),
            pod("x", cpu=2, node="n1", scheduler="other", terminating=True),
            dijob("d", ONE, replicas=(2, 2), preemptible=True),
        ],
        placed={"d-0-0": "n1", "d-0-1": "n1"},
        jobs={"DIJob/default/d": {"state": "ScheduledSucceed", "position": None, "reasons": []}},
        cycles=4,
    ),
    "a DIJob's allocation holds room before its pods exist": Case(
        objects=[
            node("n1", cpu=2),
            dijob("d", ONE, replicas=(2, 2), preemptible=True, status={"allocation": ["n1", "n1"]}),
            pod("p", cpu=1),
        ],
        placed={},
        jobs={
            "DIJob/default/d": {
                "state": "ScheduledSucceed",
                "current": 2,
                "allocation": {"d-0-0": "n1", "d-0-1": "n1"},
            },
            "Pod/default/p": {"reasons": ["NoRoom"]},
        },
    ),
    "a DIJob high goes before an older normal one": Case(
        objects=[
            node("n1", cpu=1),
            dijob("a", ONE, created=EARLY),
            dijob("b", ONE, priority="high", created=LATE),
        ],
        placed={"b-0-0": "n1"},
    ),
    "a DIJob in tasks form starts whole or not at all": Case(
        objects=[
            *(node("n1", cpu=3), pod("x", cpu=1, node="n1", scheduler="other")),
            dijob_tasks("d", [di_task("learner", ONE), di_task("collector", ONE, replicas=2)]),
        ],
        placed={},
        jobs={"DIJob/default/d": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "a suspended DIJob is held": Case(
        objects=[node("n1"), dijob("d", ONE, suspend=True)],
        placed={},
        jobs={"DIJob/default/d": {"state": "Unscheduled", "reasons": ["Held"]}},
    ),
    "a TrainingJob starts with its master, its pservers and the minimum of trainers": Case(
        objects=[
            node("n1", cpu=2),
            node("n2", cpu=2),
            trainingjob(
                "p", trainer=resources(1), trainers=(2, 2), pserver=resources(1), master=resources(1)
            ),
        ],
        placed={"p-master-0": "n1", "p-pserver-0": "n1", "p-trainer-0": "n2", "p-trainer-1": "n2"},
        jobs={"TrainingJob/default/p": {"state": "ScheduledSucceed", "target": 2}},
    ),
    "without room for a pserver a TrainingJob starts nothing; without GPUs its pods are created anyway": Case(
        objects=[
            *(node("n1", cpu=4), pod("x", cpu=1, node="n1", scheduler="other")),
            trainingjob("p", trainer=resources(1), trainers=(2, 2), pserver=resources(1), pservers=2),
        ],
        placed={},
        jobs={
            "TrainingJob/default/p": {
                "state": "Unscheduled",
                "current": 0,
                "target": 2,
                "reasons": ["NoRoom"],
            }
        },
    ),
    "trainingjob 8: a GPU job without room waits": Case(
        objects=[
            *(node("n1", gpu=2), pod("x", gpu=1, node="n1", scheduler="other")),
            trainingjob("p", trainer=resources(1, gpu=1), trainers=(2, 2)),
        ],
        placed={},
        jobs={"TrainingJob/default/p": {"state": "Unscheduled", "target": 0, "reasons": ["NoRoom"]}},
        says={"TrainingJob/default/p": [GPU]},
    ),
    "a TrainingJob has a PriorityClass and a node selector": Case(
        objects=[
            *(priority_class("ten", 10), node("n1"), node("n2", cpu=1, labels={"disk": "ssd"})),
            trainingjob("a", trainer=resources(1), selector={"disk": "ssd"}, created=EARLY),
            trainingjob("b", trainer=resources(1), selector={"disk": "ssd"}, priority="ten", created=LATE),
        ],
        placed={"b-trainer-0": "n2"},
        jobs={"TrainingJob/default/b": {"priority": 10}},
    ),
    "alpha.kubernetes.io/nvidia-gpu means nvidia.com/gpu": Case(
        objects=[
            *(node("n1"), node("n2", gpu=1)),
            trainingjob("p", trainer=resources(1, **{"alpha.kubernetes.io/nvidia-gpu": 1})),
        ],
        placed={"p-trainer-0": "n2"},
    ),
    "the old GPU name works on a node too": Case(
        objects=[node("n1", more={"alpha.kubernetes.io/nvidia-gpu": 1}), pod("p", gpu=1)], placed={"p": "n1"}
    ),
}

GANGS = {
    "a gang of pods by annotation starts whole": Case(
        objects=[node("n1", cpu=2), node("n2", cpu=1), *(pod(f"g{i}", cpu=1, gang="g") for i in range(3))],
        placed={"g0": "n2", "g1": "n1", "g2": "n1"},
        jobs={
            "Gang/default/g": {
                "state": "ScheduledSucceed",
                "min": 3,
                "max": 3,
                "target": 3,
                "jobPriority": None,
            }
        },
    ),
    "a gang of pods by annotation starts whole or not at all": Case(
        objects=[
            *(node("n1", cpu=3), pod("x", cpu=1, node="n1", scheduler="other")),
            *(pod(f"g{i}", cpu=1, gang="g") for i in range(3)),
        ],
        placed={},
        jobs={"Gang/default/g": {"state": "Unscheduled", "allocation": {}, "reasons": ["NoRoom"]}},
    ),
    "gang-min: so many start, the largest number written counts": Case(
        objects=[
            node("n1", cpu=2),
            pod("g0", cpu=1, gang="g", gang_min=1),
            pod("g1", cpu=1, gang="g", gang_min=2),
            pod("g2", cpu=1, gang="g"),
        ],
        placed={"g0": "n1", "g1": "n1"},
        jobs={"Gang/default/g": {"state": "ScheduledPartly", "min": 2, "max": 3, "reasons": ["NoRoom"]}},
    ),
    "gangs of one name in two namespaces are two": Case(
        objects=[
            node("n1", cpu=2),
            *(pod(f"g{i}", cpu=1, gang="g") for i in range(2)),
            *(pod(f"g{i}", cpu=1, gang="g", namespace="other") for i in range(2)),
        ],
        placed={"g0": "n1", "g1": "n1"},
        jobs={"Gang/other/g": {"position": 1}},
    ),
    "the tasks of a gang are ordered by creation, then name": Case(
        objects=[
            node("n1", cpu=2),
            pod("g0", cpu=1, gang="g", gang_min=2, created=LATE),
            pod("g1", cpu=1, gang="g", created=EARLY),
            pod("g2", cpu=1, gang="g", created=EARLY),
        ],
        placed={"g1": "n1", "g2": "n1"},
    ),
    "the pool of a gang is that of the first pod that names one": Case(
        objects=[
            *(P1, CLOSED, node("n1"), node("n2", labels=IN_1)),
            *(pod("g0", cpu=1, gang="g"), pod("g1", cpu=1, gang="g", pool="p1")),
        ],
        placed={"g0": "n2", "g1": "n2"},
    ),
    "the pods of a batch Job can be a gang": Case(
        objects=[
            *(node("n1", cpu=3), pod("x", cpu=1, node="n1", scheduler="other")),
            batch_job(
                "b",
                template(cpu=1, annotations={"shoal.io/gang": "g", "shoal.io/gang-min": "3"}),
                parallelism=3,
            ),
        ],
        placed={},
        jobs={"Gang/default/g": {"state": "Unscheduled", "min": 3, "max": 3}},
    ),
}

WAITING = {
    "no room now is Unscheduled and says what is short": Case(
        objects=[node("n1", cpu=2), pod("x", cpu=1, node="n1", scheduler="other"), pod("p", cpu=2)],
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
        says={"Pod/default/p": ["cpu"]},
    ),
    "never fits is ScheduledFailed": Case(
        objects=[node("n1", cpu=2), pod("p", cpu=3)],
        placed={},
        jobs={"Pod/default/p": {"state": "ScheduledFailed", "position": None, "reasons": ["NeverFits"]}},
        says={"Pod/default/p": ["cpu"]},
    ),
    "a cordoned node and one that is not ready may return": Case(
        objects=[
            node("n1", unschedulable=True),
            node("n2", labels={"zone": "b"}, ready="False", taints=[taint("node.kubernetes.io/not-ready")]),
            pod("p", cpu=1),
            pod("q", cpu=1, spec={"nodeSelector": {"zone": "b"}}),
        ],
        placed={},
        jobs={
            "Pod/default/p": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]},
            "Pod/default/q": {"state": "Unscheduled", "position": 2, "reasons": ["NoRoom"]},
        },
    ),
    "a taint that is not transient means never": Case(
        objects=[node("n1", taints=[taint("team", "a")]), pod("p", cpu=1)],
        placed={},
        jobs={"Pod/default/p": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "resource claims are not supported: such a pod waits with a reason": Case(
        objects=[node("n1"), pod("p", cpu=1, spec={"resourceClaims": [{"name": "gpu"}]})],
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "reasons": ["Held"]}},
        says={"Pod/default/p": ["claim"]},
    ),
    "a pod with scheduling gates is held": Case(
        objects=[node("n1"), gated_pod("p")],
        placed={},
        jobs={"Pod/default/p": {"state": "Unscheduled", "reasons": ["Held"]}},
        says={"Pod/default/p": ["gate"]},
    ),
    "a pod is nominated to the room of terminating pods": Case(
        objects=[node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)],
        placed={},
        jobs={
            "Pod/default/p": {
                "state": "Unscheduled",
                "nominated": {"p": "n1"},
                "target": 1,
                "reasons": ["WaitingForRoom"],
            }
        },
        absent=["Pod/default/x"],
    ),
    "a nominated pod is placed in the cycle in which the room is free": Case(
        objects=[node("n1", cpu=1), pod("x", cpu=1, node="n1", terminating=True), pod("p", cpu=1)],
        placed={"p": "n1"},
        jobs={"Pod/default/p": {"state": "ScheduledSucceed", "nominated": {}, "reasons": []}},
        cycles=3,
    ),
    "room reserved for an earlier job is not given away": Case(
        objects=[
            node("n1", cpu=3),
            pod("x", cpu=2, node="n1", terminating=True),
            pod("large", cpu=3, created=EARLY),
            pod("small", cpu=1, created=LATE),
        ],
        placed={},
        jobs={
            "Pod/default/large": {"nominated": {"large": "n1"}, "position": 1, "reasons": ["WaitingForRoom"]},
            "Pod/default/small": {"position": 2, "reasons": ["Behind"]},
        },
    ),
    "a reservation of an earlier cycle holds against workloads earlier in the queue": Case(
        objects=[
            node("n1", cpu=2),
            pod("x", cpu=1, node="n1", terminating=True),
            pod("first", cpu=1, created=EARLY),
            pod("promised", cpu=2, created=LATE, nominated="n1"),
        ],
        placed={},
        jobs={
            "Pod/default/first": {"position": 1, "reasons": ["Behind"]},
            "Pod/default/promised": {"nominated": {"promised": "n1"}, "reasons": ["WaitingForRoom"]},
        },
    ),
    "a nominated pod takes its own node when it is free, though another is fuller": Case(
        objects=[
            *(node("n1"), node("n2"), pod("x", cpu=5, node="n1")),
            pod("promised", cpu=2, nominated="n2"),
        ],
        placed={"promised": "n2"},
    ),
    "a nomination that cannot be fulfilled is dropped": Case(
        objects=[
            *(node("n1"), node("n2", cpu=2), pod("x", cpu=1, node="n2")),
            pod("promised", cpu=1, nominated="n9"),
        ],
        placed={"promised": "n2"},
    ),
    "finished pods take no room and are not listed": Case(
        objects=[node("n1", cpu=1), pod("x", cpu=1, node="n1", phase="Succeeded"), pod("p", cpu=1)],
        placed={"p": "n1"},
        absent=["Pod/default/x"],
    ),
}

SPREAD: Object = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}
ZONES = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]

FILTERS = {
    "a node without a Ready condition counts as ready": Case(
        objects=[node("n1"), pod("p")], placed={"p": "n1"}
    ),
    "a node that is not ready takes nothing": Case(
        objects=[node("n1", ready="False"), node("n2", ready="True"), pod("p")], placed={"p": "n2"}
    ),
    "a cordoned node takes nothing": Case(
        objects=[node("n1", unschedulable=True), node("n2"), pod("p")], placed={"p": "n2"}
    ),
    "taints and tolerations": Case(
        objects=[
            node("n1", taints=[taint("team", "a")]),
            node("n2", taints=[taint("team", "b", "NoExecute")]),
            node("n3", cpu=1, taints=[taint("team", "c", "PreferNoSchedule")]),
            pod(
                "a",
                spec={
                    "tolerations": [{"key": "team", "value": "a"}],
                    "nodeSelector": {"kubernetes.io/hostname": "n1"},
                },
            ),
            pod(
                "b",
                spec={
                    "tolerations": [{"key": "team", "operator": "Exists", "effect": "NoExecute"}],
                    "nodeSelector": {"kubernetes.io/hostname": "n2"},
                },
            ),
            pod("c"),
        ],
        placed={"a": "n1", "b": "n2", "c": "n3"},
    ),
    "a node selector": Case(
        objects=[*ZONES, pod("p", spec={"nodeSelector": {"zone": "b"}})], placed={"p": "n2"}
    ),
    "required node affinity: one term of several, by labels, numbers and name": Case(
        objects=[
            node("n1", labels={"gen": "3"}),
            node("n2", labels={"gen": "7"}),
            node("n3"),
            pod("gt", cpu=1, spec=node_affinity(label_matches("gen", "Gt", "5"))),
            pod("lt", cpu=1, spec=node_affinity(label_matches("gen", "Lt", "5"))),
            pod("none", cpu=1, spec=node_affinity(label_matches("gen", "DoesNotExist"))),
            pod(
                "or",
                cpu=1,
                spec=node_affinity(label_matches("gen", "In", "9"), label_matches("gen", "In", "7")),
            ),
            pod(
                "name",
                cpu=1,
                spec=node_affinity(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
                ),
            ),
        ],
        placed={"gt": "n2", "lt": "n1", "none": "n3", "or": "n2", "name": "n3"},
    ),
    "required pod anti-affinity": Case(
        objects=[
            *(node("n1"), node("n2"), pod("x", cpu=5, node="n1", labels={"app": "a"})),
            pod("p", cpu=1, spec=pod_affinity("a")),
        ],
        placed={"p": "n2"},
    ),
    "anti-affinity of a running pod applies to new pods": Case(
        objects=[
            *(node("n1"), node("n2"), pod("x", cpu=5, node="n1", spec=pod_affinity("a"))),
            pod("p", cpu=1, labels={"app": "a"}),
        ],
        placed={"p": "n2"},
    ),
    "anti-affinity of a terminating pod ends with it, also in another pool": Case(
        objects=[
            pool("b", selector={"pool": "b"}),
            node("n1", labels={"zone": "z"}),
            node("n2", labels={"zone": "z", "pool": "b"}),
            pod("old", node="n2", terminating=True, spec=pod_affinity("a", key="zone")),
            pod("new", cpu=1, labels={"app": "a"}),
        ],
        placed={},
        jobs={"Pod/default/new": {"nominated": {"new": "n1"}, "reasons": ["WaitingForRoom"]}},
    ),
    "anti-affinity holds among the tasks of a job": Case(
        objects=[
            node("n1"),
            node("n2"),
            dijob("d", template(cpu=1, labels={"app": "a"}, spec=pod_affinity("a")), replicas=(2, 2)),
        ],
        placed={"d-0-0": "n1", "d-0-1": "n2"},
    ),
    "required pod affinity": Case(
        objects=[
            *(*ZONES, pod("y", cpu=5, node="n1"), pod("x", node="n2", labels={"app": "a"})),
            pod("p", cpu=1, spec=pod_affinity("a", kind="podAffinity", key="zone")),
        ],
        placed={"p": "n2"},
    ),
    "the first pod of a group with affinity to itself may go anywhere": Case(
        objects=[
            *ZONES,
            *(
                pod(
                    f"p{i}",
                    cpu=6,
                    labels={"app": "a"},
                    spec=pod_affinity("a", kind="podAffinity", key="zone"),
                )
                for i in range(2)
            ),
        ],
        placed={"p0": "n1"},
        jobs={"Pod/default/p1": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "topology spread": Case(
        objects=[*ZONES, *(pod(f"p{i}", cpu=1, labels={"app": "a"}, spec=SPREAD) for i in range(3))],
        placed={"p0": "n1", "p1": "n2", "p2": "n1"},
    ),
    "topology spread does not count terminating pods": Case(
        objects=[
            *(*ZONES, pod("x", cpu=1, labels={"app": "a"}, node="n1", terminating=True)),
            pod("p", cpu=1, labels={"app": "a"}, spec=SPREAD),
        ],
        placed={"p": "n1"},
    ),
    "host ports": Case(
        objects=[node("n1"), node("n2"), *(pod(f"p{i}", cpu=1, host_port=80) for i in range(3))],
        placed={"p0": "n1", "p1": "n2"},
        jobs={"Pod/default/p2": {"state": "Unscheduled", "reasons": ["NoRoom"]}},
    ),
    "the number of pods on a node": Case(
        objects=[node("n1", pods=2), pod("x", node="n1", scheduler="other"), pod("p"), pod("q")],
        placed={"p": "n1"},
        jobs={"Pod/default/q": {"reasons": ["NoRoom"]}},
    ),
    "a resource that the node does not have": Case(
        objects=[
            node("n1"),
            node("n2", cpu=1, more={"example.com/fpga": 1}),
            pod("p", spec={"containers": [container(resources(**{"example.com/fpga": 1}))]}),
        ],
        placed={"p": "n2"},
    ),
    "quantities are exact": Case(
        objects=[
            node("n1", cpu="0.3", memory="1.5Gi"),
            pod("a", cpu="0.1", memory="1e9"),
            pod("b", cpu="200m", memory="610612736"),
        ],
        placed={"a": "n1", "b": "n1"},
    ),
    "one byte too much": Case(
        objects=[
            node("n1", cpu="0.3", memory="1.5Gi"),
            pod("a", cpu="0.1", memory="1e9", created=EARLY),
            pod("b", cpu="200m", memory="610612737", created=LATE),
        ],
        placed={"a": "n1"},
    ),
    "a request is the larger of the containers and the largest init container, plus overhead": Case(
        objects=[
            node("n1", cpu=4),
            node("n2", cpu=5),
            pod(
                "p",
                spec={
                    "initContainers": [container(resources(4))],
                    "containers": [container(resources(1)), container(resources(1))],
                    "overhead": {"cpu": "500m"},
                },
            ),
        ],
        placed={"p": "n2"},
    ),
    "restartable init containers run beside the containers": Case(
        objects=[
            node("n1", cpu=3),
            node("n2", cpu=4),
            pod(
                "p",
                spec={
                    "initContainers": [container(resources(2), restart="Always"), container(resources(1))],
                    "containers": [container(resources(2))],
                },
            ),
        ],
        placed={"p": "n2"},
    ),
    "loose pods use BinPack": Case(
        objects=[node("n1"), node("n2"), pod("x", cpu=1, node="n2", scheduler="other"), pod("p", cpu=1)],
        placed={"p": "n2"},
    ),
}

CASES = MEMBERSHIP | AT_HOME | NAMES | JOBS | GANGS | WAITING | FILTERS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    answer = plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now)
    check(case, answer)
