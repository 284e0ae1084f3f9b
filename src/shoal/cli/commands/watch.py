"""`shoal watch`: a live view of a cluster, drawn again whenever something changes."""

from pathlib import Path

import click

from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option


@click.command()
@cluster_options
@config_option
@click.option("--until-idle", is_flag=True, help="Exit when no pod runs or waits.")
def watch(home: Path, kubeconfig: str, context: str, config: Path | None, *, until_idle: bool) -> None:
    r"""Watch a cluster live: the pods on each node, the progress of jobs and why they wait, and events.

    Stop with Ctrl-C. Without a terminal the view is printed once; with --until-idle events are printed as
    they occur, and the view at the end.

    \b
    Examples:
      shoal watch
      shoal watch --context lab
      shoal apply -f examples/demo/ && shoal watch --until-idle
    """
    from shoal.cli.input.planning import read_config
    from shoal.cli.output.live_view import watch_cluster

    scheduler_config = read_config(config) if config else None
    watch_cluster(resolve_access(home, kubeconfig, context), scheduler_config, until_idle=until_idle)
