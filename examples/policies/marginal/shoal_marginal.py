"""Give the next replica to the job with the largest gain in speed-up, as reported by its workers.

The workers of a job report, for every size they have run at, the number of samples per second:

    {"samples": {"1": 100, "2": 190, "4": 320}}

The policy gives free room, one replica after another, to the job whose speed-up gains most by one more. A job
without a report is assumed to scale linearly, so that it is tried at larger sizes.
"""

from collections.abc import Mapping

from shoal.policies import JobInfo, NodeInfo
from shoal.policies.contract import Allocation


class MarginalPolicy:
    """Sizes jobs by the gain of one more replica."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """Let a new job start at its minimum, on nodes that Shoal chooses."""
        return []

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """Keep running replicas on their nodes, and give free room to the largest gain."""
        free = {name: dict(node.free) for name, node in nodes.items()}
        answer = {key: list(previous[key]) for key in jobs}
        while best := _best_step(jobs, answer, free):
            job, node = best
            _give(answer[job.key], node)
            for resource, amount in job.resources.items():
                free[node][resource] -= amount
        return answer


def _best_step(
    jobs: Mapping[str, JobInfo], answer: Mapping[str, Allocation], free: Mapping[str, Mapping[str, int]]
) -> tuple[JobInfo, str] | None:
    """Return the job that gains most by one more replica, and a node for it."""
    steps = []
    for key in sorted(jobs):
        job, size = jobs[key], sum(map(bool, answer[key]))
        most = job.max if job.wanted is None else job.wanted
        node = next((name for name in job.node_filter if _fits(job, free[name])), None)
        if size < most and node is not None:
            steps.append((speedup(job, size + 1) - speedup(job, size), job, node))
    steps = [step for step in steps if step[0] > 0]
    return max(steps, key=lambda step: step[0])[1:] if steps else None


def _give(ranks: list[str], node: str) -> None:
    """Fill the lowest rank that lost its node (""), otherwise add a rank; the others keep their nodes."""
    if "" in ranks:
        ranks[ranks.index("")] = node
    else:
        ranks.append(node)


def speedup(job: JobInfo, size: int) -> float:
    """Speed-up of a job at a size relative to one replica, from the reported rates.

    Linear between two reported sizes, and constant beyond the last.
    """
    rates = {int(at): float(rate) for at, rate in job.profilings.get("samples", {}).items()}
    if len(rates) < 2 or min(rates) < 1 or rates[min(rates)] <= 0:
        return float(size)
    first = min(rates)
    below = max((at for at in rates if at <= size), default=first)
    above = min((at for at in rates if at >= size), default=max(rates))
    slope = (rates[above] - rates[below]) / (above - below) if above > below else 0.0
    return (rates[below] + slope * (size - below)) / (rates[first] / first)


def _fits(job: JobInfo, free: Mapping[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in job.resources.items())
