"""`shoal completion`: the shell's completion script."""

from typing import Final

import click
from click.shell_completion import get_completion_class

_NAME: Final = "shoal"
_VARIABLE: Final = "_SHOAL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print the completion script of a shell.

    It completes commands and options, and kinds, names, namespaces and contexts from the cluster.

    \b
    Examples:
      source <(shoal completion bash)            in ~/.bashrc
      source <(shoal completion zsh)             in ~/.zshrc
      shoal completion fish > ~/.config/fish/completions/shoal.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"unsupported shell {shell}; choose bash, zsh or fish")
    click.echo(found(context.find_root().command, {}, _NAME, _VARIABLE).source())
