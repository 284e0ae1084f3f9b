"""`shoal plan` and `shoal explain`: what the scheduler would do with a cluster or with files, and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from shoal.api.fields import printable, shown
from shoal.api.meta import Time
from shoal.cache.changes import Key
from shoal.cache.dry_run import run_cycles, world_of
from shoal.cache.pod_index import all_pods
from shoal.cache.world import World
from shoal.cli.input import files
from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option, duration_callback, filename_options
from shoal.cli.input.planning import (
    JobNameError,
    find_job,
    open_policy,
    plan_output_option,
    read_cluster,
    read_config,
)
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult, report
from shoal.engine.workload import Task, Workload
from shoal.explain.explanation import Explanation
from shoal.explain.explanation import explain as build_explanation
from shoal.explain.trials import PlanOptions
from shoal.kinds.pods import PodRecord
from shoal.policies.contract import Policy


def explain_job(
    job: str, world: World, steps: Sequence[CycleResult], config: SchedulerConfig, policy: Policy | None
) -> Explanation:
    """Explain a job in the last of several cycles; exits with 2 if the name matches no job, or several."""
    options = PlanOptions(config, steps[-1].snapshot.now, policy)
    try:
        workload = _find_workload(job, world, steps[-1], options)
    except JobNameError as problem:
        click.echo(f"error: {printable(str(problem))}", err=True)
        raise click.exceptions.Exit(2) from None
    return build_explanation(world, options, steps, workload)


def _find_workload(job: str, world: World, step: CycleResult, options: PlanOptions) -> Workload:
    """The workload of a job; for a batch Job the first of its pods that is not scheduled, if there is one."""
    workloads = {workload.key: workload for workload in step.snapshot.workloads}
    batch = {f"Job/{'/'.join(key)}" for key in world.batch_jobs}
    key = find_job(job, workloads.keys() | batch)
    if key in workloads:
        return workloads[key]
    pods = all_pods(world, options.config, options.now)
    owned = [
        each for each in workloads.values() if key in {_owner_key(pods, each, task) for task in each.tasks}
    ]
    if not owned:
        raise JobNameError(f"{key} has no running or waiting pod")
    return next((each for each in owned if step.plan.verdict(each).state != "ScheduledSucceed"), owned[0])


def _owner_key(pods: Mapping[Key, PodRecord], workload: Workload, task: Task) -> str:
    """Key of the controller that owns the pod of a task; empty if there is none."""
    pod = pods.get((workload.namespace, task.name))
    return f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}" if pod and pod.owner else ""


def print_explanation(explanation: Explanation, output: str) -> None:
    """Print an explanation as a table, JSON or YAML."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(explanation), nl=False)
    else:
        from shoal.cli.output.plan import draw_explanation, open_console

        draw_explanation(open_console(), explanation, wide=output == "wide")


_MAX_CYCLES: Final = 100_000


def _parse_time(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse a time in RFC 3339 into seconds since the epoch."""
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
    help="Apply the plan and plan again, at most this often, until nothing changes.",
)
@click.option(
    "--step",
    callback=duration_callback,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="Time that passes between cycles.",
)
@click.option(
    "--now",
    callback=_parse_time,
    metavar="TIME",
    help="Time to plan for (RFC 3339); default now, or for files the latest time in them.",
)
@config_option
@click.option(
    "--explain",
    metavar="JOB",
    help="Explain one job (TYJob/ns/name, or name): which nodes fit, and what would let it run.",
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
    r"""Plan a cluster or the objects in files: where pods would run, and why others wait.

    Without -f, or with --kubeconfig or --context, it reads the live cluster and adds the objects in files.
    With -f alone it reads only the files, such as the output of kubectl get -o yaml. It changes nothing.
    Exits with 2 if an object in a file is invalid; an invalid object of a cluster is named and left out.

    \b
    Examples:
      shoal plan                                 the live cluster
      shoal plan --context lab -f my-job.yaml    the live cluster and one more job
      shoal plan -f world.yaml --cycles 20       until nothing changes
      kubectl get nodes,pods,namespaces,pools,dijobs,tyjobs,trainingjobs,jobs,pdb,priorityclasses \
        -A -o yaml | shoal plan -f -
    """
    loaded = files.load(filenames, recursive=recursive)
    files.report(loaded)
    objects = [obj for _, obj in loaded.views]
    if filenames and not kubeconfig and not context:
        world, scheduler_config = world_of(objects, now), read_config(config)
    else:
        world, scheduler_config = read_cluster(resolve_access(home, kubeconfig, context), config, now)
        world.put(*objects)
    with open_policy(scheduler_config) as policy:
        steps = run_cycles(world, scheduler_config, cycles=cycles, step=step, policy=policy)
        if explain is not None:
            print_explanation(explain_job(explain, world, steps, scheduler_config, policy), output)
            return
    plan_report = report(steps, scheduler_config)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(plan_report), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(plan_report), nl=False)
    else:
        from shoal.cli.output.plan import draw_plan, open_console

        draw_plan(open_console(), steps[-1], plan_report, wide=output == "wide")


@click.command()
@click.argument("job", metavar="JOB")
@cluster_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the job.")
@config_option
@plan_output_option
def explain(  # noqa: PLR0913 - one parameter an option
    job: str, *, home: Path, kubeconfig: str, context: str, namespace: str, config: Path | None, output: str
) -> None:
    r"""Explain why a job waits: which nodes fit it or not, and the smallest changes that would let it run.

    This is `shoal plan --explain` for the live cluster.

    \b
    Examples:
      shoal explain big
      shoal explain tyjob/big -n team-a
      shoal explain DIJob/team-a/cartpole -o json
    """
    world, scheduler_config = read_cluster(resolve_access(home, kubeconfig, context), config)
    with open_policy(scheduler_config) as policy:
        steps = run_cycles(world, scheduler_config, policy=policy)
        print_explanation(
            explain_job(_with_namespace(job, namespace), world, steps, scheduler_config, policy), output
        )


def _with_namespace(job: str, namespace: str) -> str:
    """Add the namespace of -n to a job's name, if it is given."""
    match job.split("/"):
        case [kind, name] if namespace:
            return f"{kind}/{namespace}/{name}"
        case [name] if namespace:
            return f"{namespace}/{name}"
    return job
