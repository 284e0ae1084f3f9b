"""What holds for a TrainingJob whatever happens, in whatever order, and whenever its controller is killed."""

from collections import Counter
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.controllers.changes import Changes
from shoal.controllers.jobs.ends import has_stopped, pod_end
from tests.kinds.trainingjob.cluster import TrainingJobCluster, trainers, trainingjob

FINAL: Final = ("Succeeded", "Failed")
PODS: Final = st.sampled_from(["j-master-0", "j-pserver-0", "j-pserver-1", *trainers(0, 1, 2, 3)])
STEPS: Final = st.one_of(
    st.tuples(st.just("end"), PODS, st.sampled_from([0, 1, 137, 143])),
    st.tuples(st.just("refuse"), PODS, st.just(1)),
    st.tuples(st.sampled_from(["run", "delete", "finish", "take away", "release", "lose"]), PODS, st.just(0)),
    st.tuples(st.sampled_from(["run all", "evict all"]), PODS, st.just(0)),
    st.tuples(st.sampled_from(["allocate", "want"]), PODS, st.integers(2, 4)),
    st.tuples(st.just("wait"), PODS, st.sampled_from([1, 5, 70])),
    st.tuples(st.sampled_from(["suspend", "resume"]), PODS, st.just(0)),
)
"""An act, its pod, and a number."""


class Observed(TrainingJobCluster):
    """A cluster that checks every step of the controller."""

    def __init__(self, *, fault_tolerant: bool) -> None:
        super().__init__(trainingjob(2, 4, pservers=2, master=True, fault_tolerant=fault_tolerant))
        self.failures = Counter[str]()
        """Ends of pods that were failures, by role."""
        self.counts = Counter[str]()
        """Those among them that count: their pods had nodes, and the controller saw it at once."""
        self.succeeded = set[str]()
        """Names of pods that have succeeded."""
        self.judged = set[str]()
        """Uids of pods whose end is known."""

    def create(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        is_trainer = name in trainers(0, 1, 2, 3)
        done = "trainer" in self.status.get("completed", {})
        assert name not in self.succeeded, "it has succeeded"
        assert self.status["phase"] not in FINAL, "the job has finished"
        assert not (is_trainer and done and self.job["spec"]["fault_tolerant"]), "no trainer is started again"
        super().create(body)

    def step(self, killed_after: int | None = None) -> Changes:
        """Reconcile, and check that nothing changes that the scheduler decides."""
        before = self.decided
        changes = super().step(killed_after)
        assert self.decided == before, "the scheduler decides that"
        return changes

    @property
    def decided(self) -> tuple[dict[str, str], dict[str, int]]:
        figures = self.status.get("replicas", {})
        sizes = {role: one["desired"] for role, one in figures.items() if one.get("desired")}
        return dict(self.allocations), sizes

    def judge(self, *, is_seen: bool) -> None:
        """Note how pods ended, before the controller sees it, or is killed before it can write."""
        for pod in self.view().pods:
            if has_stopped(pod) and pod.metadata.uid not in self.judged:
                self.judged.add(pod.metadata.uid)
                name, end = pod.metadata.name, pod_end(pod)
                role, has_failed = name.split("-")[1], end == "failed"
                self.failures[role] += has_failed
                self.counts[role] += has_failed and is_seen and name in self.allocations
                self.succeeded |= {name} if end == "succeeded" else set()

    def act(self, kind: str, pod: str, number: int) -> None:
        """Do something to the job, or to one of its pods, if it exists."""
        match kind:
            case "run all":
                self.run()
            case "allocate" | "want":
                act = self.allocate if kind == "allocate" else self.want
                act(master=1, pserver=2, trainer=max(number, len(self.allocations) - 3))
            case "evict all":
                self.take_away(*self.allocations)
                self.want(master=0, pserver=0, trainer=0)
            case "finish":
                self.finish()
            case "suspend" | "resume":
                self.edit(suspend=kind == "suspend")
            case "wait":
                self.now += number
            case "take away" | "release" if pod in self.allocations:
                act_on = self.take_away if kind == "take away" else self.release
                act_on(pod)
            case _ if pod in self.pods:
                self._act_on_pod(kind, pod, number)

    def _act_on_pod(self, kind: str, pod: str, number: int) -> None:
        runs = self.pods[pod]["status"].get("phase") not in FINAL
        match kind:
            case "end" | "refuse" if runs and self.pods[pod]["spec"].get("nodeName"):
                self.end(pod, number, "OutOfcpu" if kind == "refuse" else "")
            case "run" if runs:
                self.run(pod)
            case "delete" if "deletionTimestamp" not in self.pods[pod]["metadata"]:
                self.delete(pod)
            case "lose" if runs:
                self.lose(pod)

    @property
    def counted(self) -> Counter[str]:
        return Counter({role: one.get("failed", 0) for role, one in self.status.get("replicas", {}).items()})


@settings(max_examples=300)
@given(
    fault_tolerant=st.booleans(),
    steps=st.lists(st.tuples(STEPS, st.none() | st.integers(0, 4)), max_size=40),
)
def test_nothing_runs_twice_and_every_end_counts_once(
    *, fault_tolerant: bool, steps: list[tuple[tuple[str, str, int], int | None]]
) -> None:
    cluster = Observed(fault_tolerant=fault_tolerant)
    cluster.allocate()
    cluster.run_all()
    final = ""
    for act, killed_after in [*steps, (("wait", "", 70), None)]:
        cluster.act(*act)
        cluster.judge(is_seen=killed_after is None)
        cluster.step(killed_after)
        phase = cluster.status.get("phase", "")
        assert not final or phase == final, "a final phase is not left"
        final = phase if phase in FINAL else ""
        assert cluster.counted <= cluster.failures, "each failure counts once"
    cluster.settle()
    assert final or cluster.counts <= cluster.counted, "no end is lost"
