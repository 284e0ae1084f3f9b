"""Runs a policy in a process of its own: it may hang, crash or exit without harm to the scheduler."""

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

TIMEOUT: Final = 10.0
"""Seconds that a policy has for one answer."""


class _Reply(msgspec.Struct):
    """An answer as plain data, or the reason why there is none.

    It crosses the pipe as JSON, not pickled: no code of a policy runs in the scheduler's process.
    """

    answer: Any = None
    error: str = ""


class PolicyProcess:
    """A registered policy that is asked through a pipe.

    Its process starts with the first question, and again with the next question after a failure.
    """

    def __init__(self, name: str, timeout: float = TIMEOUT) -> None:
        """`name` is that of a registered policy; `timeout` is in seconds."""
        self._name, self._timeout = name, timeout
        self._lock = threading.Lock()
        """Guards the fields below: one thread may ask while another one closes."""
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._stop()

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Allocation:
        """See `Policy`; raises PolicyError if there is no answer."""
        answer: Allocation = self._ask("allocate", job, nodes)
        return answer

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, Allocation],
    ) -> Mapping[str, Allocation]:
        """See `Policy`; raises PolicyError if there is no answer."""
        answer: Mapping[str, Allocation] = self._ask("optimize", jobs, nodes, previous)
        return answer

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - any plain data
        pipe = self._pipe or self._start()
        try:
            pipe.send((method, arguments))
            in_time = pipe.poll(self._timeout)
            reply = msgspec.json.decode(pipe.recv_bytes(), type=_Reply) if in_time else None
        except (EOFError, OSError):
            self._stop()
            raise PolicyDiedError("its process ended without an answer") from None
        if reply is None:
            self._stop()
            raise PolicyDiedError(f"it gave no answer within {self._timeout:g} s")
        if reply.error:
            raise PolicyError(reply.error)
        return reply.answer

    def _start(self) -> "Connection[Any, Any]":
        context = multiprocessing.get_context("spawn")
        with self._lock:
            if self._closed:
                raise PolicyDiedError("its process was closed")
            self._pipe, child_pipe = context.Pipe()
            process = context.Process(target=_serve, args=(self._name, child_pipe), daemon=True)
            process.start()
            child_pipe.close()
            self._process = process
            return self._pipe

    def _stop(self) -> None:
        with self._lock:
            if self._process is not None:
                self._kill(self._process)
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = None

    @staticmethod
    def _kill(process: multiprocessing.process.BaseProcess) -> None:
        """Kill a process with its process group, and so the processes that it has started."""
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def _serve(name: str, pipe: "Connection[Any, Any]") -> None:
    """Answer questions until the pipe is closed.

    What the policy prints goes to stderr, so that it does not mix with the output of the command.
    """
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
        except PolicyError as error:
            reply = msgspec.json.encode(_Reply(error=str(error)))
        except Exception as error:  # noqa: BLE001 - an error of user code is its answer
            message = f"it raised {type(error).__name__}: {shown(str(error))}"
            reply = msgspec.json.encode(_Reply(error=message))
        pipe.send_bytes(reply)


def _plain(answer: object) -> object:
    """An answer as plain data.

    Anything but mappings, lists, strings and numbers is refused. A set, for example, has no order, so the
    same answer could give different plans.
    """
    if isinstance(answer, Mapping):
        return {str(key): _plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_plain(value) for value in answer]
    if answer is None or isinstance(answer, str | int | float):
        return answer
    raise PolicyError(f"it answered with {type(answer).__name__} where a list of node names was due")
