"""`shoal completion`: what makes a shell complete commands, kinds and names."""

from typing import Final

import click
from click.shell_completion import get_completion_class

_NAME: Final = "shoal"
_VARIABLE: Final = "_SHOAL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print a script that makes a shell complete what is typed after `shoal`.

    It completes commands and options, and from the cluster kinds, names, namespaces and contexts.

    \b
    Examples:
      source <(shoal completion bash)            in ~/.bashrc
      source <(shoal completion zsh)             in ~/.zshrc
      shoal completion fish > ~/.config/fish/completions/shoal.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"{shell} is not a shell that can be helped")
    click.echo(found(context.find_root().command, {}, _NAME, _VARIABLE).source())
