"""What happens to a TYJob in tests: by its user, its scheduler, its nodes and its pods."""

from collections.abc import Callable
from typing import Any

from tests.kinds.job_cluster import JobCluster
from tests.kinds.tyjob.cluster import TYJobCluster

Act = Callable[[TYJobCluster], object]


def start(*pods: str) -> Act:
    """Give nodes to pods, these or all, and let them run."""

    def act(cluster: TYJobCluster) -> None:
        cluster.allocate(*pods)
        JobCluster.run_all(cluster)

    return act


def allocate(*pods: str) -> Act:
    """Give nodes to pods."""
    return lambda cluster: cluster.allocate(*pods)


def run(*pods: str) -> Act:
    """Let the pods that were created run."""
    return lambda cluster: cluster.run(*pods)


def end(code: int, *pods: str, reason: str = "") -> Act:
    """End pods, some time after they were created."""

    def act(cluster: TYJobCluster) -> None:
        cluster.now += 5
        for pod in pods:
            cluster.end(pod, code, reason)

    return act


def fail_again(times: int, pod: str) -> Act:
    """Let a pod fail that many times, and run again after each failure but the last."""

    def act(cluster: TYJobCluster) -> None:
        for time in range(times):
            if time:
                cluster.now += 60
                JobCluster.run_all(cluster)
            end(3, pod)(cluster)
            cluster.settle()

    return act


def delete(*pods: str) -> Act:
    """Delete pods by hand."""

    def act(cluster: TYJobCluster) -> None:
        cluster.now += 5
        for pod in pods:
            cluster.delete(pod)

    return act


def evict(*pods: str) -> Act:
    """Let the scheduler take pods away."""
    return lambda cluster: cluster.evict(*pods)


def lose(*pods: str) -> Act:
    """Let the node of pods be lost."""
    return lambda cluster: cluster.lose(*pods)


def stop_terminating(cluster: TYJobCluster) -> None:
    """End the pods that were asked to stop."""
    cluster.finish()


def wait(seconds: float) -> Act:
    """Let time pass."""

    def act(cluster: TYJobCluster) -> None:
        cluster.now += seconds

    return act


def edit(**spec: Any) -> Act:  # noqa: ANN401 - as JSON has it
    """Change the spec."""
    return lambda cluster: cluster.edit(**spec)


def resize(workers: int) -> Act:
    """Change the number of workers."""

    def act(cluster: TYJobCluster) -> None:
        cluster.job["spec"]["workerSets"][0]["counts"] = workers
        cluster.edit()

    return act


def report(state: str, reason: str, message: str = "") -> Act:
    """Let the scheduler report on the job."""
    return lambda cluster: cluster.report(state, reason, message)


def fail_image(pod: str, reason: str) -> Act:
    """Bind a pod whose image cannot be pulled."""
    return lambda cluster: cluster.fail_image(pod, reason)


def in_order(*acts: Act) -> Act:
    """Do several things before the controller sees any of them."""

    def act(cluster: TYJobCluster) -> None:
        for one in acts:
            one(cluster)

    return act
