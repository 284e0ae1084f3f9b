"""`shoal plan --explain JOB`: one job, every node, and what would let it run."""

from collections.abc import Sequence

import click
import msgspec

from shoal.api.fields import printable
from shoal.cli.jobnames import NotOneJobError, find
from shoal.explain.explanation import Explanation, explain
from shoal.explain.trials import Terms
from shoal.policies.contract import Policy
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.report import Step
from shoal.world.world import World


def explained(
    job: str, world: World, steps: Sequence[Step], config: SchedulerConfig, policy: Policy | None
) -> Explanation:
    """Explain a job as it stands in the last step; exits with 2 if a name means no job, or many."""
    workloads = {workload.key: workload for workload in steps[-1].snapshot.workloads}
    try:
        workload = workloads[find(job, workloads)]
    except NotOneJobError as problem:
        click.echo(f"error: {printable(str(problem))}", err=True)
        raise click.exceptions.Exit(2) from None
    return explain(world, Terms(config, steps[-1].snapshot.now, policy), steps, workload)


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
