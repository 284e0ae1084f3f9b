"""What always holds for a DIJob, whatever happens in whatever order, and whenever it is killed."""

from collections import defaultdict
from typing import Any, Final

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.api.managed import ManagedPod
from shoal.controllers.jobs.ends import has_stopped, pod_end
from tests.kinds.dijob.cases import DIJobCluster, make_job, task
from tests.kinds.job_cluster import FINALIZER

FORMS: Final[dict[str, dict[str, Any]]] = {
    "star": {"minReplicas": 2, "maxReplicas": 4},
    "alone": {"minReplicas": 3, "maxReplicas": 4, "engineFields": {"topology": "alone"}},
    "mesh": {"minReplicas": 3, "maxReplicas": 4, "engineFields": {"topology": "mesh"}},
    "preemptible": {
        "preemptible": True,
        "minReplicas": 1,
        "maxReplicas": 4,
        "engineFields": {"topology": "alone"},
    },
    "tasks": {"tasks": [task("learner"), task("collector", 2)]},
}


class DIJobMachine(RuleBasedStateMachine):
    """A DIJob, its users, its scheduler and its nodes, in a random order."""

    cluster: DIJobCluster

    @initialize(form=st.sampled_from(sorted(FORMS)), limit=st.integers(0, 9))
    def create(self, form: str, limit: int) -> None:
        self.form = form
        self.cluster = DIJobCluster(make_job(backoffLimit=limit, **FORMS[form]))
        self.known: dict[str, ManagedPod] = {}
        self.counted: set[str] = set()
        self.recorded: set[str] = set()
        self.succeeded: dict[int, str] = {}
        self.generations: set[tuple[str, str]] = set()
        self.created = 0
        self.final = ""
        self.stepped()

    # --- what may happen ------------------------------------------------------------------------------------

    @rule()
    def reconcile(self) -> None:
        self.cluster.step()
        self.stepped()

    @rule(writes=st.integers(0, 6))
    def crash(self, writes: int) -> None:
        self.cluster.step(killed_after=writes)
        self.stepped()

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds

    @rule()
    def start_pods(self) -> None:
        self.cluster.run()

    @precondition(lambda self: self.running())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 3, 143]))
    def end_pod(self, data: st.DataObject, code: int) -> None:
        self.cluster.end(data.draw(st.sampled_from(self.running())), code)
        self.observe()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def evict_pod(self, data: st.DataObject) -> None:
        self.cluster.end(data.draw(st.sampled_from(self.running())), 1, "Evicted")
        self.observe()

    @precondition(lambda self: self.cluster.pods)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.pods)))
        if "deletionTimestamp" not in self.cluster.pods[name]["metadata"]:
            self.cluster.delete(name)
        self.observe()

    @rule(code=st.sampled_from([0, 1, 143]))
    def end_terminating_pods(self, code: int) -> None:
        self.cluster.finish(code)
        self.observe()

    @rule(size=st.integers(0, 4))
    def resize(self, size: int) -> None:
        """The user scales it, or the scheduler sizes it."""
        if self.form == "tasks":
            if size:
                self.cluster.edit(tasks=[task("learner", max(size - 2, 1)), task("collector", size)])
        elif self.form == "preemptible":
            self.cluster.status["allocation"] = ["n"] * size
        else:
            self.cluster.status["replicas"] = size

    @precondition(lambda self: self.form == "preemptible")
    @rule(holes=st.lists(st.booleans(), min_size=1, max_size=4))
    def allocate(self, holes: list[bool]) -> None:
        self.cluster.status["allocation"] = ["" if hole else "n" for hole in holes]

    @rule(suspended=st.booleans())
    def suspend(self, suspended: bool) -> None:  # noqa: FBT001 - drawn
        self.cluster.edit(suspend=suspended)

    @rule(size=st.integers(0, 4))
    def edit(self, size: int) -> None:
        if self.form != "tasks":
            self.cluster.edit(minReplicas=size)

    @rule()
    def delete_service(self) -> None:
        self.cluster.service = None

    @rule()
    def settle(self) -> None:
        """It settles: nothing is written any more while nothing happens."""
        before = {name: pod["metadata"]["uid"] for name, pod in self.running_by_name().items()}
        wanted = self.wanted()
        for _ in range(60):
            changes = self.cluster.step()
            self.stepped()
            if not any(changes.stages):
                break
        else:
            raise AssertionError("it does not settle")
        if self.cluster.phase in ("Running", "Restarting") and not self.cluster.job["spec"].get("suspend"):
            for name, uid in before.items():
                if name in wanted:
                    assert self.cluster.pods[name]["metadata"]["uid"] == uid, "a running worker was touched"

    # --- what always holds ----------------------------------------------------------------------------------

    def stepped(self) -> None:
        """Check what the controller has just done."""
        for name in self.cluster.created[self.created :]:
            self.check_new_pod(name)
        self.created = len(self.cluster.created)
        self.observe()

    def check_new_pod(self, name: str) -> None:
        pod = self.cluster.pods.get(name)
        if pod is None:
            return
        env, notes = self.cluster.env(name), pod["metadata"]["annotations"]
        rank, generation = notes["diengine/rank"], notes["diengine/generation"]
        host = f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}."
        assert env["DI_NODES"].split(",")[int(env["DI_RANK"])].startswith(host)
        assert env["DI_RANK"] == rank
        assert not self.final, f"{name} was created after the end"
        assert int(rank) not in self.succeeded, f"rank {rank} runs again"
        assert (rank, generation) not in self.generations, f"rank {rank} twice in generation {generation}"
        self.generations.add((rank, generation))

    def observe(self) -> None:
        """Record what there is now, and compare it with what there was."""
        pods = {pod.metadata.uid: pod for pod in self.cluster.view().pods}
        self.known |= pods
        self.check_ranks(pods.values())
        self.check_counted()
        present = {worker["rank"] for worker in self.cluster.status.get("workers", ())}
        for worker in self.cluster.status.get("workers", ()):
            if worker.get("phase") == "Succeeded":
                self.succeeded[worker["rank"]] = worker["pod"]
        self.forget({rank for rank in range(6) if rank not in present})
        if self.cluster.phase in ("Succeeded", "Failed"):
            self.final = self.final or self.cluster.phase
        assert self.cluster.phase == self.final or not self.final

    def forget(self, ranks: set[int]) -> None:
        """A rank that was removed is new when it comes back; so is one that another pod has got."""
        for worker in self.cluster.status.get("workers", ()):
            if self.succeeded.get(worker["rank"], worker["pod"]) != worker["pod"]:
                ranks.add(worker["rank"])
        for rank in ranks:
            self.succeeded.pop(rank, None)
        self.generations = {one for one in self.generations if int(one[0]) not in ranks}

    def check_ranks(self, pods: Any) -> None:  # noqa: ANN401 - of the view
        running: defaultdict[str, list[str]] = defaultdict(list)
        for pod in pods:
            if not has_stopped(pod):
                running[pod.metadata.labels["diengine/rank"]].append(pod.metadata.name)
        assert all(len(names) == 1 for names in running.values()), f"two pods of a rank: {dict(running)}"

    def check_counted(self) -> None:
        listed = self.cluster.status.get("counted", ())
        counted = set(listed)
        assert len(counted) == len(listed), "an end is recorded twice"
        for uid in counted - self.recorded:
            assert uid not in self.counted, "an end is counted twice"
            assert has_stopped(self.known[uid])
        self.recorded = counted
        self.counted |= counted

    def running(self) -> list[str]:
        return sorted(
            name for name, pod in self.cluster.pods.items() if pod["status"].get("phase") == "Running"
        )

    def running_by_name(self) -> dict[str, Any]:
        return {name: self.cluster.pods[name] for name in self.running() if name in self.cluster.live}

    def wanted(self) -> set[str]:
        """Names of live pods whose ranks are wanted whatever the controller does."""
        spec, status = self.cluster.job["spec"], self.cluster.status
        if self.form == "tasks":
            names = ((f"job-{one['type']}", one["replicas"]) for one in spec["tasks"])
            return {f"{name}-{i}" for name, replicas in names for i in range(replicas)}
        if self.form == "preemptible":
            ranks = {str(rank) for rank, node in enumerate(status.get("allocation", ())) if node}
        else:
            ranks = {str(rank) for rank in range(status.get("replicas") or 0)}
        return {name for name in self.cluster.pods if name.rpartition("-")[2] in ranks}

    @invariant()
    def failures_are_paid_once(self) -> None:
        ended = [pod for uid, pod in self.known.items() if uid in self.counted and pod_end(pod) == "failed"]
        assert (self.cluster.status.get("failures") or 0) <= len(ended)
        restarts = sum(worker.get("restarts", 0) for worker in self.cluster.status.get("workers", ()))
        assert restarts <= len(self.counted)

    @invariant()
    def ends_are_released_only_when_counted(self) -> None:
        if self.final or "status" not in self.cluster.job:
            return
        for pod in self.cluster.pods.values():
            released = FINALIZER not in pod["metadata"].get("finalizers", ())
            assert not released or pod["metadata"]["uid"] in self.counted

    @invariant()
    def one_phase_is_true(self) -> None:
        conditions = self.cluster.status.get("conditions", ())
        true = [one["type"] for one in conditions if one["status"] == "True" and one["type"] != "Suspended"]
        assert true == [self.cluster.phase] or not conditions


TestDIJob = DIJobMachine.TestCase
TestDIJob.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
