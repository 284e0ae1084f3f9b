"""What holds for a TYJob whatever happens, in whatever order, and whenever its controller is killed."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.controllers.jobs.ends import has_stopped, pod_end
from tests.kinds.tyjob.cluster import LEADER, TYJobCluster, actors, tyjob

FINAL = ("Succeeded", "Failed")
PODS = st.sampled_from([LEADER, *actors(0, 1, 2)])
STEPS = st.one_of(
    st.tuples(st.just("end"), PODS, st.sampled_from([0, 1, 137, 143])),
    st.tuples(st.just("refuse"), PODS, st.just(1)),
    st.tuples(st.sampled_from(["run", "delete", "finish", "allocate", "release", "lose"]), PODS, st.just(0)),
    st.tuples(st.sampled_from(["run all", "allocate all"]), PODS, st.just(0)),
    st.tuples(st.just("wait"), PODS, st.sampled_from([1, 5, 70])),
    st.tuples(st.sampled_from(["suspend", "resume"]), PODS, st.just(0)),
    st.tuples(st.just("resize"), PODS, st.integers(1, 3)),
)
"""An act, its pod, and a number."""


class Observed(TYJobCluster):
    """A cluster that checks every step of the controller."""

    def __init__(self, limit: int, least: int) -> None:
        super().__init__(tyjob(3, least=least, restartLimit=limit))
        self.failures = Counter[str]()
        """Ends of pods that were failures, by slot."""
        self.succeeded = set[str]()
        """Names of pods that have succeeded."""
        self.was_resized = False
        """The failures of workers that are not wanted are not counted."""
        self.judged = set[str]()
        """Uids of pods whose end is known."""

    def create(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        assert name not in self.succeeded, "it has succeeded"
        assert self.status["stage"] not in FINAL, "the job has finished"
        assert name in self.status["allocations"], "it has no node"
        assert name not in self.abandoned, "it failed too often"
        super().create(body)

    @property
    def abandoned(self) -> list[str]:
        ranges = self.status.get("failed", {}).get("actor", "")
        return [name for name in actors(0, 1, 2) if name[-1] in ranges.replace("0-2", "0,1,2")]

    def judge(self) -> None:
        """Note how pods ended, by the time at which the controller can see it first."""
        for pod in self.view().pods:
            if has_stopped(pod) and pod.metadata.uid not in self.judged:
                self.judged.add(pod.metadata.uid)
                name = pod.metadata.name
                self.failures[name.removeprefix("j-")] += pod_end(pod) == "failed"
                self.succeeded |= {name} if pod_end(pod) == "succeeded" else set()

    def act(self, kind: str, pod: str, number: int) -> None:
        """Do something to the job, or to one of its pods, if it exists."""
        match kind:
            case "run all":
                self.run()
            case "allocate all":
                self.allocate()
            case "allocate":
                self.allocate(pod)
            case "finish":
                self.finish()
            case "suspend" | "resume":
                self.edit(suspend=kind == "suspend")
            case "resize":
                self.was_resized = True
                self.job["spec"]["workerSets"][0]["counts"] = max(number, self.job["spec"]["minWorkersNum"])
                self.edit()
            case "wait":
                self.now += number
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
            case "lose" if runs and pod in self.status["allocations"]:
                self.lose(pod)
            case "release":
                self.status["allocations"].pop(pod, None)


@settings(max_examples=300)
@given(
    limit=st.integers(0, 2),
    least=st.integers(1, 3),
    steps=st.lists(st.tuples(STEPS, st.none() | st.integers(0, 4)), max_size=40),
)
def test_nothing_runs_twice_and_every_end_counts_once(
    limit: int, least: int, steps: list[tuple[tuple[str, str, int], int | None]]
) -> None:
    cluster = Observed(limit, least)
    cluster.run_all()
    final = ""
    for act, killed_after in [*steps, (("wait", "", 70), None)]:
        cluster.act(*act)
        cluster.judge()
        cluster.step(killed_after)
        stage = cluster.status.get("stage", "")
        assert not final or stage == final, "a final stage is not left"
        final = stage if stage in FINAL else ""
        restarts = cluster.status.get("restarts", {})
        assert all(restarts[slot] <= cluster.failures[slot] for slot in restarts), "each failure counts once"
    cluster.settle()
    cluster.judge()
    cluster.settle()
    if not final and cluster.status["stage"] not in FINAL:
        restarts = cluster.status.get("restarts", {})
        assert cluster.was_resized or Counter(restarts) == +cluster.failures, "no end is lost"
        assert all(count <= limit for slot, count in restarts.items() if f"j-{slot}" not in cluster.abandoned)
