"""What a shim does: start one container, look after it until nothing is left of it, say how it ended.

In the directory of the run it writes `shim.json` (who it is) before it forks, and `exit.json` at the end.
The file `lock` is open on descriptor 4 and locked for as long as this process lives; through descriptor 5 the
daemon is told who the container is, once it runs.
"""

import os
import select
import time

from shoal.kubelet.shim import process, system
from shoal.kubelet.shim.container import StartError, become, said
from shoal.kubelet.shim.logfile import LogFile, Stream
from shoal.kubelet.shim.records import Account, take_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PLAN, LOCK, READY = 3, 4, 5

IDLE = 0.1
"""Seconds after which a line without an end is written as it is."""
_AT_MOST = 3600.0
"""Seconds to wait at most, whatever the grace: the system counts in milliseconds and not very far."""
_AGAIN = 0.02
"""Seconds between two looks at processes that were killed and are not gone."""
_NEVER_RAN = 128


def main() -> None:
    """Run one container from beginning to end."""
    os.chdir("/")  # nobody's directory is kept in use
    plan = take_plan(PLAN, LOCK, READY)
    account = Account(plan["directory"], plan["cgroups"])
    try:
        account.open()
    except OSError as problem:
        os.write(READY, str(problem).encode())
        return
    Shim(plan, account).run()


class Shim:
    """One container, from the moment before it starts to the moment after it has ended."""

    def __init__(self, plan: "dict[str, Any]", account: Account) -> None:
        self._plan, self._account = plan, account
        self._directory: str = plan["directory"]
        self._log = LogFile(f"{self._directory}/log", plan["log_size"], plan["log_files"])
        self._streams: list[Stream] = []
        self._pid = 0
        self._running = False
        self._started: float | None = None
        self._deadline: float | None = None
        self._killed = False
        self._status: int | None = None
        self._finished = 0.0
        self._wakeup = system.catch(self._told)

    def run(self) -> None:
        """Start it, watch it, say how it ended."""
        system.adopt_orphans()
        try:
            self._start()
        except StartError as problem:
            self._settle(_NEVER_RAN, None, "StartError", str(problem))
            return
        self._running = True
        self._tell(self._account.tell_of(self._pid, self._started))
        if self._deadline is not None:  # told to stop before there was anything to stop
            self._terminate()
        self._watch()
        self._settle(*self._verdict())

    def _tell(self, who: bytes) -> None:
        """Tell the daemon who the container is, unless it has died: the next one reads it."""
        try:
            os.write(READY, who)
        except BrokenPipeError:
            return
        finally:
            os.close(READY)

    # --- starting ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Fork, and wait until the command has taken over; StartError if it never does."""
        readers, writers = zip(*(os.pipe2(os.O_CLOEXEC) for _ in range(3)), strict=True)
        me = os.getpid()
        self._started = time.time()
        self._pid = os.fork()
        if self._pid == 0:
            self._descend(writers, me)
        for descriptor in writers:
            os.close(descriptor)
        for name, descriptor in (("stdout", readers[0]), ("stderr", readers[1])):
            os.set_blocking(descriptor, False)
            self._streams.append(Stream(name, descriptor, self._log))
        with open(readers[2], "rb") as file:
            refusal = file.read().decode("utf-8", "replace")
        if refusal:
            os.waitpid(self._pid, 0)
            self._started = None
            raise StartError(refusal)

    def _descend(self, writers: "tuple[int, ...]", parent: int) -> "NoReturn":
        """In the child: become the container, or say why not."""
        try:
            os.setsid()
            system.die_with_parent(parent)
            with said("cannot join its cgroups"):
                process.join(self._plan["cgroups"])
            self._mount()
            for target, descriptor in enumerate((os.open("/dev/null", os.O_RDONLY), *writers[:2])):
                os.dup2(descriptor, target)
            become(self._plan, parent)
        except BaseException as problem:  # noqa: BLE001 - nothing may go on in this process
            os.write(writers[2], (str(problem) or repr(problem)).encode("utf-8", "replace"))
        os._exit(_NEVER_RAN)

    def _mount(self) -> None:
        if not self._plan["mounts"]:
            return
        from shoal.kubelet.shim import mounts  # noqa: PLC0415 - most containers have none

        with said("cannot mount its volumes"):
            mounts.enter(self._plan["mounts"], self._directory)

    # --- watching ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Until nothing of the container is left: keep its log, and end it when it is to end."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        streams = {stream.descriptor: stream for stream in self._streams}
        for descriptor in streams:
            poll.register(descriptor, select.POLLIN)
        while not self._swept():
            ready = [descriptor for descriptor, _ in poll.poll(self._patience())]
            for descriptor in ready:
                stream = streams.get(descriptor)
                if stream is None:
                    os.read(self._wakeup, 512)
                elif not stream.pump() and not stream.open:
                    poll.unregister(descriptor)
            if not ready:
                self._flush()
            self._enforce()
        for stream in self._streams:
            while stream.pump():
                pass
        self._flush()

    def _patience(self) -> float:
        """Milliseconds until something is to be done even if nothing happens."""
        limits = [IDLE if any(stream.waiting for stream in self._streams) else _AT_MOST]
        if self._status is not None:
            limits.append(_AGAIN)
        elif self._deadline is not None and not self._killed:
            limits.append(max(0.0, self._deadline - time.monotonic()))
        return min(limits) * 1000 + 1

    def _flush(self) -> None:
        for stream in self._streams:
            stream.flush()

    def _enforce(self) -> None:
        """Kill what has had its time."""
        if self._deadline is not None and not self._killed and time.monotonic() >= self._deadline:
            self._killed = True
            self._kill()

    def _swept(self) -> bool:
        """Ask after the dead; once the first process is one, the others follow. True if nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                break
            if pid == self._pid:
                self._status, self._finished = status, time.time()
        if self._status is not None:
            self._kill()
        return False

    def _kill(self) -> None:
        """Kill the group, everybody we are the parent of, and who else is in the cgroup."""
        if self._status is None:
            system.kill_quietly(-self._pid, system.SIGKILL)
        for pid in {*process.children(os.getpid()), *process.members(self._plan["cgroups"])}:
            system.kill_quietly(pid, system.SIGKILL)

    def _told(self, number: int) -> None:
        """A signal has come: begin to end the container, or make it quicker."""
        if number != system.SIGTERM:
            return
        wanted, known = self._wanted_deadline(), self._deadline
        self._deadline = wanted if known is None else min(wanted, known)
        if known is None:  # whoever repeats it may only hurry: many programs take a second SIGTERM for panic
            self._terminate()

    def _terminate(self) -> None:
        if self._running and self._status is None:
            system.kill_quietly(-self._pid, system.SIGTERM)

    def _wanted_deadline(self) -> float:
        try:
            with open(f"{self._directory}/stop.json", encoding="ascii") as file:
                return float(file.read())
        except (OSError, ValueError):  # not from the daemon: the container's own grace counts
            return time.monotonic() + float(self._plan["grace"])

    # --- the end -------------------------------------------------------------------------------------------

    def _verdict(self) -> "tuple[int, int | None, str]":
        """Exit code, signal and reason, as Kubernetes has them."""
        assert self._status is not None  # noqa: S101 - for types: nothing is left once the first has ended
        code = os.waitstatus_to_exitcode(self._status)
        number = -code if code < 0 else None
        code = 128 - code if code < 0 else code
        if code and process.ran_out_of_memory(self._plan["cgroups"]):
            return code, number, "OOMKilled"
        return code, number, "Error" if code else "Completed"

    def _settle(self, code: int, number: "int | None", reason: str, message: str = "") -> None:
        if self._log.dropped_ever:
            message = f"{self._log.dropped_ever} lines of its log were dropped: {self._log.problem}"
        times = {"started": self._started, "finished": self._finished or time.time()}
        self._account.close({"code": code, "signal": number, **times, "reason": reason}, message)
