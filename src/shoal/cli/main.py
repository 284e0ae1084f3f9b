"""The command `shoal`: the table of its commands, and the handling of errors.

A command's module is imported when the command is called, so that `shoal --help` and small commands start
without the imports of large ones.
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

_COMMANDS: Final = {  # command: (module in shoal.cli.commands, help)
    "annotate": ("labels", "Set or remove annotations of objects."),
    "apply": ("apply", "Apply manifests: create or update objects."),
    "completion": ("completion", "Print the completion script of a shell."),
    "cordon": ("drain", "Mark nodes as unschedulable."),
    "crds": ("schema", "Print the CustomResourceDefinitions."),
    "create": ("apply", "Create the objects in files."),
    "delete": ("delete", "Delete objects."),
    "describe": ("describe", "Show details of objects, and their events."),
    "down": ("embedded", "Stop the embedded cluster."),
    "drain": ("drain", "Drain nodes for maintenance."),
    "events": ("events", "List events."),
    "exec": ("exec", "Run a command in a container."),
    "explain": ("plan", "Explain why a job waits, and what would let it run."),
    "get": ("get", "List objects."),
    "label": ("labels", "Set or remove labels of objects."),
    "logs": ("logs", "Print the logs of a container, or of all pods of a job."),
    "manager": ("manager", "Run the scheduler and the controllers for a cluster."),
    "node": ("embedded", "Simulate the loss of a node of the embedded cluster."),
    "plan": ("plan", "Plan a cluster or the objects in files."),
    "scale": ("scale", "Set the size of jobs."),
    "server": ("server", "Run the DI server for a cluster."),
    "status": ("embedded", "Show the status of the embedded cluster."),
    "stop": ("stop", "End jobs now, as succeeded."),
    "top": ("top", "Show resource usage of nodes, pods and pools."),
    "uncordon": ("drain", "Mark nodes as schedulable."),
    "up": ("embedded", "Run a cluster on this machine."),
    "validate": ("schema", "Validate the objects in files."),
    "version": ("version", "Print the client and server versions."),
    "wait": ("wait", "Wait until objects meet a condition."),
    "watch": ("watch", "Watch a cluster live."),
}
_CLUSTER_OPTIONS: Final = ("-n", "--namespace", "--context", "--kubeconfig", "--home")
_PLUGIN: Final = "kubectl-shoal"
_INTERRUPTED: Final = 130
_FAILED: Final = 1


class _LazyGroup(click.Group):
    """Imports a command's module when the command is called.

    The command is the function of the same name; `_` is appended if the name is a builtin of Python.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move options that select a cluster from before the command to behind it, as kubectl allows."""
        rest, moved = list(args), list[str]()
        while rest and rest[0].partition("=")[0] in _CLUSTER_OPTIONS:
            length = 1 if "=" in rest[0] else 2
            moved, rest = moved + rest[:length], rest[length:]
        end = rest.index("--") if "--" in rest else len(rest)
        return super().parse_args(ctx, [*rest[:end], *moved, *rest[end:]])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module_name, _ = _COMMANDS[cmd_name]
        gc.disable()  # objects created by imports stay: collecting among them is wasted time
        try:
            module = importlib.import_module(f"shoal.cli.commands.{module_name}")
        finally:
            gc.enable()
        command: click.Command = getattr(module, f"{cmd_name}_" if hasattr(builtins, cmd_name) else cmd_name)
        _enable_examples(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


def _enable_examples(command: click.Command) -> None:
    r"""Keep the line breaks of examples: click wants a control character, raw docstrings have `\b`."""
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = (each.help or "").replace("\\b\n", "\b\n")


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(shoal.__version__, prog_name="shoal", message="%(prog)s %(version)s")
def cli() -> None:
    """Schedule elastic, gang-shaped training jobs on a shared cluster."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for failure, 2 for invalid input."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`)
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - open until exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal's encoding lacks become `?`
    try:
        code = cli.main(arguments, prog_name=_program_name(), standalone_mode=False)
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
    _exit(code if isinstance(code, int) else 0)


def _program_name() -> str:
    """Name of the program in help texts: kubectl runs its plugin under another name than the user types."""
    return "kubectl shoal" if os.path.basename(sys.argv[0]) == _PLUGIN else "shoal"  # noqa: PTH119 - no file


def _exit(code: int) -> None:
    """Exit without an error if the reader of the output has gone (`shoal plan | head`)."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
