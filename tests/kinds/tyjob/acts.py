"""What happens to a TYJob in tests, beside what may happen to any job."""

from tests.kinds.job_cases import Act, end, wait
from tests.kinds.job_cluster import JobCluster
from tests.kinds.tyjob.cluster import TYJobCluster


def start(*pods: str) -> Act:
    """Give nodes to pods, these or all, and let them run."""

    def act(cluster: TYJobCluster) -> None:
        cluster.allocate(*pods)
        JobCluster.run_all(cluster)

    return act


def allocate(*pods: str) -> Act:
    """Give nodes to pods, these or all."""
    return lambda cluster: cluster.allocate(*pods)


def release(*pods: str) -> Act:
    """Let the scheduler take the nodes of pods that do not run."""
    return lambda cluster: cluster.release(*pods)


def take_away(*pods: str) -> Act:
    """Let the scheduler take pods away."""
    return lambda cluster: cluster.take_away(*pods)


def fail_again(times: int, pod: str) -> Act:
    """Let a pod fail that many times, and run again after each failure but the last."""

    def act(cluster: TYJobCluster) -> None:
        for time in range(times):
            if time:
                wait(60)(cluster)
                JobCluster.run_all(cluster)
            end(3, pod)(cluster)
            cluster.settle()

    return act


def resize(workers: int) -> Act:
    """Change the number of workers."""

    def act(cluster: TYJobCluster) -> None:
        cluster.job["spec"]["workerSets"][0]["counts"] = workers
        cluster.edit()

    return act


def report(state: str, reason: str, message: str = "") -> Act:
    """Let the scheduler report on the job."""
    return lambda cluster: cluster.report(state, reason, message)
