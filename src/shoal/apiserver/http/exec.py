"""Answers to those who run commands in containers, over WebSockets as kubectl does.

Whatever is wrong is said before a WebSocket is accepted, as the answer to an ordinary request.
"""

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp

from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.exec_session import PROTOCOLS, Command, Session
from shoal.apiserver.http.logs import meant
from shoal.apiserver.http.requests import truth
from shoal.cluster.errors import BadRequestError, MethodNotAllowedError, NotFoundError


async def execute(ask: Ask) -> ASGIApp:
    """A WebSocket with a command at its other end."""
    command = _command(ask.request.query_params)
    container, target = await meant(ask), ask.target
    if not container.placed:
        raise BadRequestError(f"pod {target.name} does not have a host assigned")
    run = ask.kubelet.run_of(target.namespace, target.name, container.name)
    if run.exit is not None:
        raise NotFoundError(f'container not found ("{container.name}")')
    return Session(run, command, _protocol(ask), ask.stopping)


async def attach(ask: Ask) -> ASGIApp:
    """There is nothing to attach to: no container has an input that is kept open."""
    raise MethodNotAllowedError(
        f"containers of pod {ask.target.name} cannot be attached to: `kubectl logs -f` follows what they "
        "write, `kubectl exec -it` runs a command beside them"
    )


async def forward(ask: Ask) -> ASGIApp:
    """No port needs to be forwarded to where it is already."""
    raise MethodNotAllowedError(
        f"ports of pod {ask.target.name} are not forwarded: it runs on this machine, "
        "at the address that `kubectl get pods -o wide` shows"
    )


def _command(query: QueryParams) -> Command:
    tty = truth(query, "tty")
    command = Command(
        argv=query.getlist("command"),
        stdin=truth(query, "stdin"),
        stdout=truth(query, "stdout"),
        stderr=truth(query, "stderr") and not tty,  # a terminal has one stream for both
        tty=tty,
    )
    if not any(command.argv):
        raise BadRequestError("you must specify a command")
    if not (command.stdin or command.stdout or command.stderr):
        raise BadRequestError("you must specify at least 1 of stdin, stdout, stderr")
    return command


def _protocol(ask: Ask) -> str:
    """What is spoken on the WebSocket: the first that both sides know."""
    offered: list[str] | None = ask.request.scope.get("subprotocols")
    if offered is None:
        raise BadRequestError(
            "commands are run over WebSockets: use kubectl 1.31 or newer, which begins with them"
        )
    protocol = next((protocol for protocol in offered if protocol in PROTOCOLS), None)
    if protocol is None:
        said = ", ".join(offered) or "none at all"
        raise BadRequestError(f"the WebSocket must speak {' or '.join(PROTOCOLS)}, not {said}")
    return protocol
