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
from shoal.cache.world import World
from shoal.cli.input import files
from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.jobnames import NotOneJobError, find
from shoal.cli.input.options import config_option, filename_options, parse_duration
from shoal.cli.input.planning import open_policy, plan_output_option, read_cluster, read_config
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult, report
from shoal.engine.workload import Task, Workload
from shoal.explain.explanation import Explanation
from shoal.explain.explanation import explain as build_explanation
from shoal.explain.trials import Terms
from shoal.kinds.pods import PodRecord
from shoal.policies.contract import Policy


def explain_job(
    job: str, world: World, steps: Sequence[CycleResult], config: SchedulerConfig, policy: Policy | None
) -> Explanation:
    """Explain a job as it stands in the last step; exits with 2 if a name means no job, or many."""
    terms = Terms(config, steps[-1].snapshot.now, policy)
    try:
        workload = _find_workload(job, world, steps[-1], terms)
    except NotOneJobError as problem:
        click.echo(f"error: {printable(str(problem))}", err=True)
        raise click.exceptions.Exit(2) from None
    return build_explanation(world, terms, steps, workload)


def _find_workload(job: str, world: World, step: CycleResult, terms: Terms) -> Workload:
    """The workload that a name means; of a batch Job the first that is not where it should be, if any is."""
    workloads = {workload.key: workload for workload in step.snapshot.workloads}
    batch = {f"Job/{'/'.join(key)}" for key in world.batch_jobs}
    key = find(job, workloads.keys() | batch)
    if key in workloads:
        return workloads[key]
    pods = everybody(world, terms.config, terms.now)
    theirs = [one for one in workloads.values() if key in {_owner_key(pods, one, task) for task in one.tasks}]
    if not theirs:
        raise NotOneJobError(f"{key} has no pod that runs or waits")
    return next((one for one in theirs if step.plan.verdict(one).state != "ScheduledSucceed"), theirs[0])


def _owner_key(pods: Mapping[Key, PodRecord], workload: Workload, task: Task) -> str:
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
        from shoal.cli.output.plan import draw_explanation, open_console

        draw_explanation(open_console(), explanation, wide=output == "wide")


_MAX_CYCLES: Final = 100_000


def _parse_time(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """A time in RFC 3339, as seconds."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, Time).timestamp()
    except msgspec.ValidationError:
        raise click.BadParameter(f"'{shown(value)}' is not a time such as 2026-01-31T12:00:00Z") from None


@click.command()
@filename_options(required=False)
@cluster_options
@click.option(
    "--cycles",
    type=click.IntRange(1, _MAX_CYCLES),
    default=1,
    show_default=True,
    help="Do as planned and plan again, up to so many times, until nothing changes.",
)
@click.option(
    "--step",
    callback=parse_duration,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="How far the clock moves between cycles.",
)
@click.option(
    "--now",
    callback=_parse_time,
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
        world, settings = read_cluster(resolve_access(home, kubeconfig, context), config, now)
        world.put(*views)
    with open_policy(settings) as policy:
        steps = rehearse(world, settings, cycles=cycles, step=step, policy=policy)
        if explain is not None:
            print_explanation(explain_job(explain, world, steps, settings, policy), output)
            return
    answer = report(steps, settings)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(answer), nl=False)
    else:
        from shoal.cli.output.plan import draw_plan, open_console

        draw_plan(open_console(), steps[-1], answer, wide=output == "wide")


@click.command()
@click.argument("job", metavar="JOB")
@cluster_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of the job.")
@config_option
@plan_output_option
def explain(  # noqa: PLR0913 - one parameter an option
    job: str, *, home: Path, kubeconfig: str, context: str, namespace: str, config: Path | None, output: str
) -> None:
    r"""Tell of one job why each node takes it or not, and the smallest changes that would let it run.

    It is the answer of `shoal plan --explain` for the cluster as it is now.

    \b
    Examples:
      shoal explain big
      shoal explain tyjob/big -n team-a
      shoal explain DIJob/team-a/cartpole -o json
    """
    from shoal.cli.commands.plan import explain_job, print_explanation

    world, settings = read_cluster(resolve_access(home, kubeconfig, context), config)
    with open_policy(settings) as policy:
        steps = rehearse(world, settings, policy=policy)
        print_explanation(
            explain_job(_with_namespace(job, namespace), world, steps, settings, policy), output
        )


def _with_namespace(job: str, namespace: str) -> str:
    """A name with its namespace, if one is said apart."""
    match job.split("/"):
        case [kind, name] if namespace:
            return f"{kind}/{namespace}/{name}"
        case [name] if namespace:
            return f"{namespace}/{name}"
    return job
