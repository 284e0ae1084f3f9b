"""`shoal plan`: what the scheduler would do with a cluster, or with the objects in files, and why."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from shoal.api.fields import shown
from shoal.api.meta import Time
from shoal.cli import connection, files
from shoal.cli.configuring import config_option, read_config
from shoal.cli.filenames import files_option
from shoal.cli.living import look
from shoal.cli.options import duration
from shoal.cli.planning import plan_output_option, policy_of
from shoal.scheduling.report import report
from shoal.world.rehearsal import rehearse, world_of

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
            from shoal.cli.explaining import explained, print_explanation

            print_explanation(explained(explain, world, steps, settings, policy), output)
            return
    answer = report(steps, settings)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(answer), nl=False)
    else:
        from shoal.cli.drawing import console, draw

        draw(console(), steps[-1], answer, wide=output == "wide")
