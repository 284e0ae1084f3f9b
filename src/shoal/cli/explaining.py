"""`shoal plan --explain JOB`: one job, every node, and what would let it run."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from shoal.api.fields import printable
from shoal.cli.jobnames import NotOneJobError, find
from shoal.explain.explanation import Explanation, explain
from shoal.explain.trials import Terms
from shoal.policies.contract import Policy
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.report import Step
from shoal.scheduling.workload import Task, Workload
from shoal.world.changes import Key
from shoal.world.pods import PodRecord
from shoal.world.population import everybody
from shoal.world.world import World


def explained(
    job: str, world: World, steps: Sequence[Step], config: SchedulerConfig, policy: Policy | None
) -> Explanation:
    """Explain a job as it stands in the last step; exits with 2 if a name means no job, or many."""
    terms = Terms(config, steps[-1].snapshot.now, policy)
    try:
        workload = _meant(job, world, steps[-1], terms)
    except NotOneJobError as problem:
        click.echo(f"error: {printable(str(problem))}", err=True)
        raise click.exceptions.Exit(2) from None
    return explain(world, terms, steps, workload)


def _meant(job: str, world: World, step: Step, terms: Terms) -> Workload:
    """The workload that a name means; of a batch Job the first that is not where it should be, if any is."""
    workloads = {workload.key: workload for workload in step.snapshot.workloads}
    batch = {f"Job/{'/'.join(key)}" for key in world.batch_jobs}
    key = find(job, workloads.keys() | batch)
    if key in workloads:
        return workloads[key]
    pods = everybody(world, terms.config, terms.now)
    theirs = [one for one in workloads.values() if key in {_maker(pods, one, task) for task in one.tasks}]
    if not theirs:
        raise NotOneJobError(f"{key} has no pod that runs or waits")
    return next((one for one in theirs if step.plan.verdict(one).state != "ScheduledSucceed"), theirs[0])


def _maker(pods: Mapping[Key, PodRecord], workload: Workload, task: Task) -> str:
    """Who makes the pod of a task, if that is not the workload itself."""
    pod = pods.get((workload.namespace, task.name))
    return f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}" if pod and pod.owner else ""


def print_explanation(explanation: Explanation, output: str) -> None:
    """Print it as a plan is printed: for people, or for programs."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(explanation), nl=False)
    else:
        from shoal.cli.drawing import console
        from shoal.cli.jobdrawing import draw_job

        draw_job(console(), explanation, wide=output == "wide")
