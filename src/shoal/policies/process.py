"""A policy in a process of its own: it may hang, crash or exit, and whoever asked goes on."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from shoal.api.fields import shown
from shoal.policies import registry
from shoal.policies.contract import Allocation, JobInfo, NodeInfo
from shoal.policies.registry import PolicyDiedError, PolicyError

DEADLINE: Final = 10.0
"""Seconds that a policy has for one answer."""


class _Reply(msgspec.Struct):
    """An answer, as plain data: nothing that a policy makes is run on this side; or why there is none."""

    answer: Any = None
    problem: str = ""


class PolicyProcess:
    """A registered policy, asked through a pipe. It starts when it is asked, anew after a failure."""

    def __init__(self, name: str, deadline: float = DEADLINE) -> None:
        """Ask the policy of this name."""
        self._name, self._deadline = name, deadline
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._changing = threading.Lock()
        """Who asks may be in another thread than who says that it is over."""
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._stop()

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """See `Policy`; PolicyError if there is no answer."""
        answer: Allocation = self._ask("allocate", job, nodes)
        return answer

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """See `Policy`; PolicyError if there is no answer."""
        answer: Mapping[str, Allocation] = self._ask("optimize", jobs, nodes, previous)
        return answer

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever a policy answers
        pipe = self._pipe or self._start()
        try:
            pipe.send((method, arguments))
            in_time = pipe.poll(self._deadline)
            reply = msgspec.json.decode(pipe.recv_bytes(), type=_Reply) if in_time else None
        except (EOFError, OSError):
            self._stop()
            raise PolicyDiedError("its process ended without an answer") from None
        if reply is None:
            self._stop()
            raise PolicyDiedError(f"it gave no answer within {self._deadline:g} s")
        if reply.problem:
            raise PolicyError(reply.problem)
        return reply.answer

    def _start(self) -> "Connection[Any, Any]":
        context = multiprocessing.get_context("spawn")
        with self._changing:
            if self._over:
                raise PolicyDiedError("it is not asked any more")
            self._pipe, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(self._name, theirs), daemon=True)
            process.start()
            theirs.close()
            self._process = process
            return self._pipe

    def _stop(self) -> None:
        with self._changing:
            if self._process is not None:
                self._kill(self._process)
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = None

    @staticmethod
    def _kill(process: multiprocessing.process.BaseProcess) -> None:
        """End a process, and whatever it has started."""
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def _serve(name: str, pipe: "Connection[Any, Any]") -> None:
    """Answer questions until nobody asks any more. What the policy prints must not mix with our output."""
    os.setsid()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    policy: Any = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            policy = registry.load(name) if policy is None else policy
            reply = msgspec.json.encode(_Reply(answer=_plain(getattr(policy, method)(*arguments))))
        except PolicyError as problem:
            reply = msgspec.json.encode(_Reply(problem=str(problem)))
        except Exception as problem:  # noqa: BLE001 - whatever a user's code raises is its answer
            said = f"it raised {type(problem).__name__}: {shown(str(problem))}"
            reply = msgspec.json.encode(_Reply(problem=said))
        pipe.send_bytes(reply)


def _plain(answer: object) -> object:
    """An answer as it goes over the wire; a set, say, has no order, and so no two answers would be alike."""
    if isinstance(answer, Mapping):
        return {str(key): _plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_plain(value) for value in answer]
    if answer is None or isinstance(answer, str | int | float):
        return answer
    raise PolicyError(f"it answered with {type(answer).__name__} where a list of node names was due")
