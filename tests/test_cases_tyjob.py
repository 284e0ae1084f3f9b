"""The scheduling cases of spec/tyjob.md: each row is a sentence, a world, and its expected plan."""

import pytest

from tests.builders import (
    GPU,
    Case,
    Object,
    check,
    node,
    owner,
    pod,
    pod_of,
    priority_class,
    template,
    tyjob,
)
from tests.support import plan

ONE = template(cpu=1, memory="1Gi")
EARLY, LATE = "2024-05-01T00:00:00Z", "2024-05-01T00:01:00Z"


def foreign_pod(name: str, on: str, cpu: int, memory: str) -> Object:
    """A pod of another scheduler."""
    return pod(name, cpu=cpu, memory=memory, node=on, scheduler="default-scheduler")


def job(name: str, workers: int = 1, *, shape: Object = ONE, **more: object) -> Object:
    """A TYJob of equal pods."""
    return tyjob(name, leader=shape, workers={"worker": (workers, shape)}, **more)  # type: ignore[arg-type]


def running_pod(of: str, task: str, on: str, shape: Object = ONE) -> Object:
    return pod_of(f"{of}-{task}", shape, node=on, of=owner("TYJob", of))


def two_and_one(policy: str) -> list[Object]:
    """A job with two of its pods on a, one on b, and one to place."""
    running_pods = [
        running_pod("j", "leader", "a"),
        running_pod("j", "worker-0", "a"),
        running_pod("j", "worker-1", "b"),
    ]
    return [job("j", 3, policy=policy), *running_pods]


HALF_AND_EMPTY = [node("half"), node("idle"), foreign_pod("x", "half", 5, "5Gi")]
FRAGMENTS = [
    node("a", cpu=10, memory="10G"),
    node("b", cpu=10, memory="10G"),
    foreign_pod("xa", "a", 4, "4G"),
    foreign_pod("xb", "b", 6, "2G"),
]
DRF_EXAMPLE = [
    tyjob(
        "job1",
        leader=template(cpu=1, memory="4G"),
        workers={"w": (1, template(cpu=1, memory="4G"))},
        queue="DRF",
    ),
    tyjob(
        "job2",
        leader=template(cpu=2, memory="2G"),
        workers={"w": (1, template(cpu=3, memory="2G"))},
        queue="DRF",
    ),
]
LARGE_LAST = tyjob(
    "j",
    leader=ONE,
    workers={"small": (1, ONE), "large": (1, template(cpu=4, memory="1Gi"))},
    min_workers=2,
    policy="JobAntiAffinity",
)
LEADER_AND_TWO = {"j-leader": "n1", "j-worker-0": "n1", "j-worker-1": "n1"}
SIXTY = {
    f"a-{task}": node
    for task, node in zip(("leader", *(f"worker-{i}" for i in range(5))), ("n1",) * 5 + ("n2",), strict=True)
}

QUEUE = {
    "priority 8 precedes 5, though it is newer": Case(
        objects=[
            node("n1", cpu=2),
            job("five", priority=5, created=EARLY),
            job("eight", priority=8, created=LATE),
        ],
        placed={"eight-leader": "n1", "eight-worker-0": "n1"},
        jobs={
            "TYJob/default/eight": {
                "state": "ScheduledSucceed",
                "jobPriority": 8,
                "position": None,
                "reasons": [],
            },
            "TYJob/default/five": {
                "state": "Unscheduled",
                "jobPriority": 5,
                "position": 1,
                "allocation": {},
                "reasons": ["NoRoom"],
            },
        },
        says={"TYJob/default/five": ["cpu"]},
    ),
    "a PriorityClass precedes the job's own priority": Case(
        objects=[
            node("n1", cpu=2),
            priority_class("high", 100),
            job("ten", priority=10, created=EARLY),
            job("one", priority=1, created=LATE, shape=template(cpu=1, priority="high")),
        ],
        placed={"one-leader": "n1", "one-worker-0": "n1"},
        jobs={"TYJob/default/one": {"priority": 100}, "TYJob/default/ten": {"priority": 0, "position": 1}},
    ),
    "the older of two equals goes first": Case(
        objects=[node("n1", cpu=2), job("a", created=LATE), job("b", created=EARLY)],
        placed={"b-leader": "n1", "b-worker-0": "n1"},
    ),
    "the first by name of two equal jobs goes first": Case(
        objects=[node("n1", cpu=2), job("b", created=EARLY), job("a", created=EARLY)],
        placed={"a-leader": "n1", "a-worker-0": "n1"},
    ),
    "a partly scheduled job precedes an older one of the same priority": Case(
        objects=[
            node("n1", cpu=4),
            job("old", created=EARLY),
            job("young", 3, created=LATE),
            running_pod("young", "leader", "n1"),
            running_pod("young", "worker-0", "n1"),
        ],
        placed={"young-worker-1": "n1", "young-worker-2": "n1"},
        jobs={"TYJob/default/young": {"state": "ScheduledSucceed", "current": 1, "target": 3}},
    ),
    "the DRF example: shares 0.4 and 0.5, job1 first": Case(
        objects=[node("n1", cpu=10, memory="20G"), *reversed(DRF_EXAMPLE)],
        placed={"job1-leader": "n1", "job1-w-0": "n1", "job2-leader": "n1", "job2-w-0": "n1"},
        jobs={"TYJob/default/job1": {"share": 0.4}, "TYJob/default/job2": {"share": 0.5}},
        order=["TYJob/default/job1", "TYJob/default/job2"],
    ),
    "the DRF example with room for one": Case(
        objects=[node("n1", cpu=10, memory="20G"), *DRF_EXAMPLE, foreign_pod("x", "n1", 5, "1G")],
        placed={"job1-leader": "n1", "job1-w-0": "n1"},
        jobs={"TYJob/default/job2": {"share": 0.5, "position": 1, "reasons": ["NoRoom"]}},
    ),
    "jobs by priority precede jobs by share": Case(
        objects=[
            node("n1", cpu=2),
            job("drf", queue="DRF", priority=10, created=EARLY),
            job("prio", priority=1, created=LATE),
        ],
        placed={"prio-leader": "n1", "prio-worker-0": "n1"},
    ),
    "the scheduler's queue policy overrides the jobs' own": Case(
        objects=[
            node("n1", cpu=3, memory="3Gi"),
            job("large", 2, min_workers=2, priority=10, created=EARLY),
            job("small", 1, priority=1, created=LATE),
        ],
        placed={"small-leader": "n1", "small-worker-0": "n1"},
        config={"queuePolicy": "DRF"},
    ),
}

POLICIES = {
    "BinPack: nodes at 50 % and 0 % → the 50 % node": Case(
        objects=[*HALF_AND_EMPTY, job("j", policy="BinPack")],
        placed={"j-leader": "half", "j-worker-0": "half"},
        roles={"j-leader": "leader", "j-worker-0": "worker"},
    ),
    "BinPack is the policy of a job that names none": Case(
        objects=[*HALF_AND_EMPTY, job("j")], placed={"j-leader": "half", "j-worker-0": "half"}
    ),
    "LeaderFirst on the same nodes: leader → 0 %, workers → 50 %": Case(
        objects=[*HALF_AND_EMPTY, job("j", 2, policy="LeaderFirst")],
        placed={"j-leader": "idle", "j-worker-0": "half", "j-worker-1": "half"},
    ),
    "LeaderFirst: a GPU weighs four times for the leader": Case(
        objects=[
            node("a", cpu=10, memory="10Gi", gpu=4),
            node("b", cpu=10, memory="10Gi", gpu=4),
            pod("xa", cpu=2, gpu=1, node="a", scheduler="other"),
            pod("xb", cpu=5, memory="3Gi", node="b", scheduler="other"),
            tyjob(
                "j", leader=template(cpu=1, gpu=1), workers={"w": (1, template(cpu=1))}, policy="LeaderFirst"
            ),
        ],
        placed={"j-leader": "b", "j-w-0": "b"},
    ),
    "MinFragment: A 100, B 60 → A": Case(
        objects=[*FRAGMENTS, job("j", shape=template(cpu=1, memory="1G"), policy="MinFragment")],
        placed={"j-leader": "a", "j-worker-0": "a"},
    ),
    "JobAffinity with 2 of the job's pods on A and 1 on B → A": Case(
        objects=[
            node("a"),
            node("b"),
            node("c"),
            foreign_pod("x", "c", 5, "5Gi"),
            *two_and_one("JobAffinity"),
        ],
        placed={"j-worker-2": "a"},
    ),
    "JobAntiAffinity → the third node": Case(
        objects=[node("a"), node("b"), node("c"), *two_and_one("JobAntiAffinity")],
        placed={"j-worker-2": "c"},
    ),
    "JobAntiAffinity → B when there are two": Case(
        objects=[node("a"), node("b"), *two_and_one("JobAntiAffinity")], placed={"j-worker-2": "b"}
    ),
    "JobAntiAffinity: of two empty nodes the less used": Case(
        objects=[node("a"), node("b"), foreign_pod("x", "a", 1, "1Gi"), job("j", policy="JobAntiAffinity")],
        placed={"j-leader": "b", "j-worker-0": "a"},
    ),
    "where scattering would leave a large task without a node, the job is still placed": Case(
        objects=[node("a", cpu=4), node("b", cpu=4), LARGE_LAST],
        placed={"j-large-0": "a", "j-leader": "b", "j-small-0": "b"},
        jobs={"TYJob/default/j": {"state": "ScheduledSucceed", "reasons": []}},
    ),
}

GANGS = {
    "Gang of 5 with room for 4 → nothing is placed, and the reason names the shortage": Case(
        objects=[
            node("n1", cpu=5),
            foreign_pod("x", "n1", 1, "1Gi"),
            job("j", 4, policy="Gang", min_workers=1),
        ],
        placed={},
        jobs={
            "TYJob/default/j": {
                "state": "Unscheduled",
                "min": 4,
                "max": 4,
                "current": 0,
                "target": 0,
                "allocation": {},
                "nominated": {},
                "position": 1,
                "reasons": ["NoRoom"],
            }
        },
        says={"TYJob/default/j": ["cpu"]},
    ),
    "minWorkersNum 2 of 5 and room for the leader and 2 → ScheduledPartly": Case(
        objects=[node("n1", cpu=3), job("j", 5, min_workers=2)],
        placed=LEADER_AND_TWO,
        jobs={
            "TYJob/default/j": {
                "state": "ScheduledPartly",
                "min": 2,
                "max": 5,
                "current": 0,
                "target": 2,
                "allocation": LEADER_AND_TWO,
                "reasons": ["NoRoom"],
            }
        },
        says={"TYJob/default/j": ["cpu"]},
    ),
    "room appears → the other 3 are placed": Case(
        objects=[
            node("n1", cpu=3),
            node("n2", cpu=3),
            job(
                "j",
                5,
                min_workers=2,
                status={"scheduleState": "ScheduledPartly", "allocations": LEADER_AND_TWO},
            ),
        ],
        placed={"j-worker-2": "n2", "j-worker-3": "n2", "j-worker-4": "n2"},
        jobs={"TYJob/default/j": {"state": "ScheduledSucceed", "current": 2, "target": 5, "reasons": []}},
    ),
    "room appears in a later cycle → the other 3 are placed then": Case(
        objects=[
            node("n1", cpu=6),
            job("j", 5, min_workers=2),
            pod("x", cpu=3, node="n1", scheduler="other", terminating=True),
        ],
        placed=LEADER_AND_TWO | {"j-worker-2": "n1", "j-worker-3": "n1", "j-worker-4": "n1"},
        jobs={"TYJob/default/j": {"state": "ScheduledSucceed", "reasons": []}},
        cycles=5,
    ),
    "a job below its minimum holds nothing, so another can run": Case(
        objects=[
            node("n1", cpu=3),
            job("big", 4, min_workers=3, priority=9, shape=template(cpu=1)),
            job("tiny", priority=1),
        ],
        placed={"tiny-leader": "n1", "tiny-worker-0": "n1"},
        jobs={"TYJob/default/big": {"state": "ScheduledFailed", "reasons": ["NeverFits"], "position": None}},
    ),
    "a worker that does not fit does not stop a later one that does": Case(
        objects=[
            node("n1", cpu=3),
            tyjob("j", leader=ONE, workers={"large": (1, template(cpu=3)), "small": (2, ONE)}, min_workers=1),
        ],
        placed={"j-leader": "n1", "j-small-0": "n1", "j-small-1": "n1"},
        jobs={"TYJob/default/j": {"state": "ScheduledPartly", "current": 0, "target": 2, "min": 1, "max": 3}},
    ),
    "of two gangs that each need 60 % exactly one runs": Case(
        objects=[
            node("n1", cpu=5),
            node("n2", cpu=5),
            job("b", 5, policy="Gang"),
            job("a", 5, policy="Gang"),
        ],
        placed=SIXTY,
        jobs={
            "TYJob/default/a": {"state": "ScheduledSucceed", "position": None},
            "TYJob/default/b": {
                "state": "Unscheduled",
                "allocation": {},
                "position": 1,
                "reasons": ["NoRoom"],
            },
        },
    ),
    "when the first gang ends the other runs": Case(
        objects=[
            node("n1", cpu=5),
            node("n2", cpu=5),
            job("z", 5, policy="Gang", status={"stage": "Succeeded", "allocations": {"z-leader": "n1"}}),
            pod_of("z-leader", ONE, node="n1", of=owner("TYJob", "z"), phase="Succeeded"),
            job("a", 5, policy="Gang"),
        ],
        placed=SIXTY,
        absent=["TYJob/default/z"],
    ),
    "while the first gang terminates the other is nominated, and runs when it is gone": Case(
        objects=[
            node("n1", cpu=3),
            *(pod_of(f"z-worker-{i}", ONE, node="n1", terminating=True) for i in range(3)),
            job("a", 2, policy="Gang"),
        ],
        placed={},
        jobs={
            "TYJob/default/a": {
                "state": "Unscheduled",
                "nominated": {"a-leader": "n1", "a-worker-0": "n1", "a-worker-1": "n1"},
                "current": 0,
                "target": 2,
                "position": 1,
                "reasons": ["WaitingForRoom"],
            }
        },
    ),
    "the nominated gang runs in the next cycle": Case(
        objects=[
            node("n1", cpu=3),
            *(pod_of(f"z-worker-{i}", ONE, node="n1", terminating=True) for i in range(3)),
            job("a", 2, policy="Gang"),
            job("y", 1, created=LATE),
        ],
        placed={"a-leader": "n1", "a-worker-0": "n1", "a-worker-1": "n1"},
        jobs={"TYJob/default/a": {"state": "ScheduledSucceed", "nominated": {}}},
        cycles=3,
    ),
}

FAILURES = {
    "a leader that asks for more than any node has → ScheduledFailed, naming node and resource": Case(
        objects=[
            node("n1", cpu=4, gpu=2),
            tyjob("j", leader=template(cpu=1, gpu=8), workers={"worker": (1, ONE)}),
        ],
        placed={},
        jobs={
            "TYJob/default/j": {
                "state": "ScheduledFailed",
                "position": None,
                "target": 0,
                "reasons": ["NeverFits"],
            }
        },
        says={"TYJob/default/j": ["n1", GPU]},
    ),
    "a minimum that the placer cannot arrange, although it fits, has no room; it is not failed": Case(
        objects=[
            node("n1", cpu=4, gpu=2),
            node("n2", cpu=2, gpu=4),
            tyjob("j", leader=ONE, workers={"w": (4, template(cpu=1, gpu=1))}, min_workers=4),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "Unscheduled", "position": None, "reasons": ["NoRoom"]}},
    ),
    "tasks that request more together than the only nodes for them have never fit": Case(
        objects=[
            *(node("n1", cpu=4, gpu=1), node("n2", cpu=8)),
            tyjob(
                "j",
                leader=template(cpu=3, spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}}),
                workers={"w": (1, template(cpu=2, gpu=1))},
            ),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "more large tasks than the nodes take one by one never fit": Case(
        objects=[
            *(node("n1", cpu=5), node("n2", cpu=5)),
            tyjob("j", leader=template(cpu=4), workers={"w": (2, template(cpu=3))}, min_workers=2),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "more tasks with one host port than nodes never fit": Case(
        objects=[
            *(node("n1"), node("n2")),
            tyjob("j", leader=ONE, workers={"w": (3, template(cpu=1, host_port=80))}, min_workers=3),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "ScheduledFailed", "reasons": ["NeverFits"]}},
    ),
    "never-fits is evaluated as if all nodes were ready and schedulable": Case(
        objects=[node("n1", cpu=1), node("n2", cpu=2, ready="False"), job("j")],
        placed={},
        jobs={"TYJob/default/j": {"state": "Unscheduled", "position": 1, "reasons": ["NoRoom"]}},
    ),
    "a larger node is added → the failed job runs": Case(
        objects=[node("n1", cpu=2), job("j", status={"scheduleState": "ScheduledFailed"})],
        placed={"j-leader": "n1", "j-worker-0": "n1"},
    ),
    "without any node no job is reported as never fitting": Case(
        objects=[job("j")],
        placed={},
        jobs={"TYJob/default/j": {"state": "Unscheduled", "position": None, "reasons": ["NoRoom"]}},
    ),
    "the node of a worker is gone → that worker is placed again elsewhere": Case(
        objects=[
            node("n1"),
            node("n2"),
            job("j", 2, min_workers=2, status={"stage": "Rescheduling"}),
            running_pod("j", "leader", "n1"),
            running_pod("j", "worker-0", "n1"),
            running_pod("j", "worker-1", "dead"),
        ],
        placed={"j-worker-1": "n1"},
        jobs={"TYJob/default/j": {"state": "ScheduledSucceed", "current": 1, "target": 2, "reasons": []}},
    ),
    "an allocation on a node that is gone is replaced": Case(
        objects=[
            node("n1"),
            job("j", 1, status={"allocations": {"j-leader": "dead", "j-worker-0": "n1"}}),
        ],
        placed={"j-leader": "n1"},
    ),
    "the survivors of a gang keep their room until gangRecoverySeconds": Case(
        objects=[
            node("n1", cpu=2),
            node("n2", cpu=2, unschedulable=True),
            job("j", 2, policy="Gang", status={"brokenSince": EARLY}),
            running_pod("j", "leader", "n1"),
            running_pod("j", "worker-0", "n1"),
            pod("later", cpu=1),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "Unscheduled", "current": 1, "target": 1, "reasons": ["NoRoom"]}},
        now="2024-05-01T00:04:59Z",
    ),
    "after gangRecoverySeconds the rest of the gang is evicted": Case(
        objects=[
            node("n1", cpu=2),
            node("n2", cpu=2, unschedulable=True),
            job("j", 2, policy="Gang", status={"brokenSince": EARLY}),
            running_pod("j", "leader", "n1"),
            running_pod("j", "worker-0", "n1"),
        ],
        placed={},
        evicted={"j-leader": "GangLost", "j-worker-0": "GangLost"},
        jobs={"TYJob/default/j": {"state": "Unscheduled", "current": 1, "target": 0, "allocation": {}}},
        now="2024-05-01T00:05:00Z",
    ),
    "a terminating job gets nothing": Case(
        objects=[node("n1"), job("j", terminating=True)], placed={}, absent=["TYJob/default/j"]
    ),
    "a worker that succeeded needs no node again": Case(
        objects=[
            node("n1", cpu=3),
            job("j", 2, policy="Gang"),
            running_pod("j", "leader", "n1"),
            running_pod("j", "worker-0", "n1"),
            pod_of("j-worker-1", ONE, node="n1", of=owner("TYJob", "j"), phase="Succeeded"),
        ],
        placed={},
        jobs={"TYJob/default/j": {"state": "ScheduledSucceed", "reasons": []}},
    ),
    "a worker that failed is placed again": Case(
        objects=[
            node("n1", cpu=3),
            job("j", 2),
            running_pod("j", "leader", "n1"),
            running_pod("j", "worker-0", "n1"),
            pod_of("j-worker-1", ONE, node="n1", of=owner("TYJob", "j"), phase="Failed"),
        ],
        placed={"j-worker-1": "n1"},
    ),
}

CASES = QUEUE | POLICIES | GANGS | FAILURES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Case) -> None:
    answer = plan(list(case.objects), config=case.config, cycles=case.cycles, now=case.now)
    check(case, answer)
