"""`shoal watch`: a cluster at work, drawn again whenever something changes."""

from pathlib import Path

import click

from shoal.cli.input import connection
from shoal.cli.input.configuring import config_option, read_config


@click.command()
@connection.options
@config_option
@click.option("--until-idle", is_flag=True, help="End when nothing runs and nothing waits.")
def watch(home: Path, kubeconfig: str, context: str, config: Path | None, *, until_idle: bool) -> None:
    r"""Watch a cluster: who is on which node, how jobs stand, why they wait, and what happens.

    It ends with Ctrl-C. Where there is no terminal to draw on, it prints one picture; with --until-idle the
    events on the way there, and the picture at the end.

    \b
    Examples:
      shoal watch
      shoal watch --context lab
      shoal apply -f examples/demo/ && shoal watch --until-idle
    """
    from shoal.cli.output.liveview import watch_cluster

    settings = read_config(config) if config else None
    watch_cluster(connection.find(home, kubeconfig, context), settings, until_idle=until_idle)
