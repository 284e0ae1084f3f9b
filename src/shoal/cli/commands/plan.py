"""`shoal plan --explain JOB`: one job, every node, and what would let it run.

`shoal plan`: what the scheduler would do with a cluster, or with the objects in files, and why.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from shoal.api.fields import printable, shown
from shoal.api.meta import Time
from shoal.cache.changes import Key
from shoal.cache.dry_run import rehearse, world_of
from shoal.cache.pod_index import everybody
from shoal.cache.pods import PodRecord
from shoal.cache.world import World
from shoal.cli.input import connection, files
from shoal.cli.input.configuring import config_option, read_config
from shoal.cli.input.filenames import files_option
from shoal.cli.input.jobnames import NotOneJobError, find
from shoal.cli.input.living import look, plan_output_option, policy_of
from shoal.cli.input.options import duration
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import Step, report
from shoal.engine.workload import Task, Workload
from shoal.explain.explanation import Explanation, explain
from shoal.explain.trials import Terms
from shoal.policies.contract import Policy


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
        from shoal.cli.output.drawing import console
        from shoal.cli.output.jobdrawing import draw_job

        draw_job(console(), explanation, wide=output == "wide")


_MOST_CYCLES: Final = 100_000


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """A time in RFC 3339, as seconds."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, Time).timestamp()
    except msgspec.ValidationError:
        raise click.BadParameter(f"'{shown(value)}' is not a time such as 2026-01-31T12:00:00Z") from None


@click.command()
@files_option(required=False)
@connection.options
@click.option(
    "--cycles",
    type=click.IntRange(1, _MOST_CYCLES),
    default=1,
    show_default=True,
    help="Do as planned and plan again, up to so many times, until nothing changes.",
)
@click.option(
    "--step",
    callback=duration,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="How far the clock moves between cycles.",
)
@click.option(
    "--now",
    callback=_moment,
    metavar="TIME",
    help="The time to plan for (RFC 3339); by default now, or of files the newest time in them.",
)
@config_option
@click.option(
    "--explain",
    metavar="JOB",
    help="Tell of one job why each node takes it or not, and what would let it run: TYJob/ns/name, or name.",
)
@plan_output_option
def plan(  # noqa: PLR0913 - one parameter an option
    filenames: Sequence[str],
    *,
    recursive: bool,
    home: Path,
    kubeconfig: str,
    context: str,
    cycles: int,
    step: float,
    now: float | None,
    config: Path | None,
    explain: str | None,
    output: str,
) -> None:
    r"""Plan a cluster, or the objects in files: what would run where, and why the rest waits.

    Without -f it reads the live cluster, and with --kubeconfig or --context too: what files have is added to
    it. With -f alone it reads what kubectl prints into files. It changes nothing anywhere. Exits with 2 if an
    object in a file is bad; one in a cluster is left out, and named.

    \b
    Examples:
      shoal plan                                 the cluster as it is
      shoal plan --context lab -f my-job.yaml    what if my job came too?
      shoal plan -f world.yaml --cycles 20       how would it end?
      kubectl get nodes,pods,namespaces,pools,dijobs,tyjobs,trainingjobs,jobs,pdb,priorityclasses \
        -A -o yaml | shoal plan -f -
    """
    intake = files.load(filenames, recursive=recursive)
    files.report(intake)
    views = [view for _, view in intake.views]
    if filenames and not kubeconfig and not context:
        world, settings = world_of(views, now), read_config(config)
    else:
        world, settings = look(connection.find(home, kubeconfig, context), config, now)
        world.put(*views)
    with policy_of(settings) as policy:
        steps = rehearse(world, settings, cycles=cycles, step=step, policy=policy)
        if explain is not None:
            print_explanation(explained(explain, world, steps, settings, policy), output)
            return
    answer = report(steps, settings)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(answer), nl=False)
    else:
        from shoal.cli.output.drawing import console, draw

        draw(console(), steps[-1], answer, wide=output == "wide")
