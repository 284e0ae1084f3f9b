"""The command `shoal`: the table of its commands, and what becomes of errors.

A command is imported when it is called, so that `shoal --help` and the small commands start without what
only the large ones need.
"""

import builtins
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

import shoal

_COMMANDS: Final = {
    "annotate": ("labels", "Change annotations of objects."),
    "apply": ("apply", "Make objects as files say, or change them so."),
    "completion": ("completion", "Print what makes a shell complete commands."),
    "cordon": ("drain", "Let no new pods come to nodes."),
    "crds": ("schema", "Print the CustomResourceDefinitions."),
    "create": ("apply", "Make the objects in files."),
    "delete": ("delete", "Delete objects."),
    "describe": ("describe", "Tell of objects: how they stand, and what happened to them."),
    "down": ("embedded", "Stop the embedded cluster."),
    "drain": ("drain", "Empty nodes, for somebody to work on them."),
    "events": ("events", "Print what happened."),
    "exec": ("exec", "Run a command in a container."),
    "explain": ("plan", "Tell why a job waits, and what would let it run."),
    "get": ("get", "Print objects."),
    "label": ("labels", "Change labels of objects."),
    "logs": ("logs", "Print what containers write, of all workers of a job together."),
    "manager": ("manager", "Schedule a cluster."),
    "node": ("embedded", "Play that a node of the embedded cluster is lost."),
    "plan": ("plan", "Plan a cluster, or files: what would run where, and why not."),
    "scale": ("scale", "Change the size of jobs."),
    "status": ("embedded", "Show how the embedded cluster is."),
    "top": ("top", "Print what nodes, pods and pools have and use."),
    "uncordon": ("drain", "Let pods come to nodes again."),
    "up": ("embedded", "Run a cluster on this machine."),
    "validate": ("schema", "Check the objects in files."),
    "version": ("version", "Print the versions of Shoal and of the server."),
    "wait": ("wait", "Wait until something holds of objects."),
    "watch": ("watch", "Watch a cluster at work."),
}
_WHERE: Final = ("-n", "--namespace", "--context", "--kubeconfig", "--home")
_PLUGIN: Final = "kubectl-shoal"
_INTERRUPTED: Final = 130
_FAILED: Final = 1


class _Lazy(click.Group):
    """A group whose commands are functions of the same name in modules of the same name.

    The function has a `_` behind its name where Python means something else by it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Which cluster and namespace may be said before the command too, as with kubectl: move it behind."""
        rest, said = list(args), list[str]()
        while rest and rest[0].partition("=")[0] in _WHERE:
            length = 1 if "=" in rest[0] else 2
            said, rest = said + rest[:length], rest[length:]
        end = rest.index("--") if "--" in rest else len(rest)
        return super().parse_args(ctx, [*rest[:end], *said, *rest[end:]])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module_name, _ = _COMMANDS[cmd_name]
        gc.disable()  # what an import makes stays: to look for garbage in it meanwhile is in vain
        try:
            module = importlib.import_module(f"shoal.cli.commands.{module_name}")
        finally:
            gc.enable()
        command: click.Command = getattr(module, f"{cmd_name}_" if hasattr(builtins, cmd_name) else cmd_name)
        _mark(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


def _mark(command: click.Command) -> None:
    """Let examples stand as they are: click looks for a control character, and docstrings are raw text."""
    for part in (command, *getattr(command, "commands", {}).values()):
        part.help = (part.help or "").replace("\\b\n", "\b\n")


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(shoal.__version__, prog_name="shoal", message="%(prog)s %(version)s")
def cli() -> None:
    """Schedule elastic, gang-shaped training jobs on a shared cluster."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 2 for bad input."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who called us (`>&-`): nobody is there
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot draw a bar gets a question mark
    try:
        code = cli.main(arguments, prog_name=_program(), standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as problem:
        problem.show()
        code = problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:
        code = _FAILED
    except OSError as problem:
        click.echo(f"error: {problem}", err=True)
        code = _FAILED
    _leave(code if isinstance(code, int) else 0)


def _program() -> str:
    """What people call: kubectl runs a plugin by another name than they type."""
    return "kubectl shoal" if os.path.basename(sys.argv[0]) == _PLUGIN else "shoal"  # noqa: PTH119 - no file


def _leave(code: int) -> None:
    """Exit without a last word about a reader that has gone (`shoal plan | head`)."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
