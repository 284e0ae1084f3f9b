"""`shoal exec`: run a command in a container, attached to this terminal."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Final

import click
import msgspec

from shoal.cli.input.completion import complete_names
from shoal.cli.input.selection import default_container, parse_target
from shoal.cli.input.session import Session, session_option
from shoal.client.exec import STATUS, STDERR, STDIN, STDOUT, ExecStream, exit_code
from shoal.cluster.errors import UnavailableError
from shoal.cluster.resources import PODS

_CHUNK: Final = 2**15


async def attach(stream: ExecStream, *, stdin: bool, tty: bool) -> int:
    """Forward input and output until the command exits; its exit code."""
    with _raw_terminal() if tty and stdin and sys.stdin.isatty() else contextlib.nullcontext():
        if tty:
            await _send_terminal_size(stream)
        if stdin:
            loop = asyncio.get_running_loop()
            threading.Thread(target=_forward_stdin, args=(stream, loop), daemon=True).start()
        async for channel, data in stream.messages():
            if channel == STATUS:
                return exit_code(msgspec.json.decode(data, type=dict[str, object]))
            if channel in (STDOUT, STDERR):
                _write(sys.stderr.fileno() if channel == STDERR else sys.stdout.fileno(), data)
    raise UnavailableError("the connection was lost before the command ended")


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Put the terminal in raw mode, so that the command receives every key, Ctrl-C too."""
    before = termios.tcgetattr(sys.stdin)
    try:
        terminal_modes.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _send_terminal_size(stream: ExecStream) -> None:
    """Send the size of the terminal, now and whenever it changes."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def send_size() -> None:
        tasks.add(task := loop.create_task(stream.resize(*shutil.get_terminal_size())))
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGWINCH, send_size)
    await stream.resize(*shutil.get_terminal_size())


def _forward_stdin(stream: ExecStream, loop: asyncio.AbstractEventLoop) -> None:
    """Forward standard input. Runs in a thread, because an event loop cannot wait for files."""
    with contextlib.suppress(RuntimeError, CancelledError):  # the command has exited, and the loop has ended
        while data := os.read(sys.stdin.fileno(), _CHUNK):
            asyncio.run_coroutine_threadsafe(stream.send(STDIN, data), loop).result()
        asyncio.run_coroutine_threadsafe(stream.close_input(), loop).result()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@click.command("exec")
@click.argument("pod", metavar="POD", shell_complete=complete_names("pods"))
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]..."
)
@session_option
@click.option("-c", "--container", default="", metavar="NAME", help="Container name; default the first.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the command.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal.")
def exec_(  # noqa: PLR0913 - one parameter an option
    session: Session, pod: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> None:
    r"""Run a command in a container; exits with the exit code of the command.

    \b
    Examples:
      shoal exec web -- ls -l /tmp
      shoal exec -it web -- sh
      shoal exec -i web -c sidecar -- tee /tmp/file < file
    """
    resource, name = parse_target(session, [pod]) if "/" in pod else (PODS, pod)
    if resource is not PODS:
        raise click.UsageError(f"'{pod}' is not a pod")
    if not container:
        container = default_container(session.client.get(PODS, name, session.namespace))
    code = _execute(session, name, command, container=container, stdin=stdin, tty=tty)
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise click.exceptions.Exit(code)


def _execute(  # noqa: PLR0913 - what to run where, and how it is connected
    session: Session, pod: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> int:
    from shoal.client.exec import open_exec

    http = session.client.http
    credentials = http.credentials()
    options: dict[str, str | bool] = {
        "container": container,
        "stdin": stdin,
        "stdout": True,
        "stderr": not tty,
        "tty": tty,
    }

    async def run() -> int:
        async with open_exec(http, credentials, session.namespace, pod, command, **options) as stream:
            return await attach(stream, stdin=stdin, tty=tty)

    return asyncio.run(run())
