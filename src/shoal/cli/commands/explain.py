"""`shoal explain JOB`: why a job waits, and what would let it run."""

from pathlib import Path

import click

from shoal.cache.dry_run import rehearse
from shoal.cli.input import connection
from shoal.cli.input.configuring import config_option
from shoal.cli.input.living import look, plan_output_option, policy_of


@click.command()
@click.argument("job", metavar="JOB")
@connection.options
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
    from shoal.cli.commands.plan import explained, print_explanation

    world, settings = look(connection.find(home, kubeconfig, context), config)
    with policy_of(settings) as policy:
        steps = rehearse(world, settings, policy=policy)
        print_explanation(explained(_in_namespace(job, namespace), world, steps, settings, policy), output)


def _in_namespace(job: str, namespace: str) -> str:
    """A name with its namespace, if one is said apart."""
    match job.split("/"):
        case [kind, name] if namespace:
            return f"{kind}/{namespace}/{name}"
        case [name] if namespace:
            return f"{namespace}/{name}"
    return job
