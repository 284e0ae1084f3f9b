"""The main loop of a shim: start one container, supervise it until no process of it is left, record its exit.

In the directory of the run it writes `shim.json` (its identity) before the fork, and `exit.json` at the end.
The file `lock` is open on descriptor 4 and stays locked while this process lives. Through descriptor 5 the
daemon receives the identity of the container once it runs.
"""

import os
import select
import time

from shoal.kubelet.shim import process, system
from shoal.kubelet.shim.command import StartError, StartErrorContext, become_command
from shoal.kubelet.shim.logfile import LogFile, Stream
from shoal.kubelet.shim.records import ShimFiles, receive_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CONFIG, LOCK, READY = 3, 4, 5

FLUSH_DELAY = 0.1
"""Seconds after which a partial line is written to the log."""
_MAX_POLL = 3600.0
"""Longest wait in seconds, whatever the grace period: `poll` takes a 32-bit number of milliseconds."""
_REAP_INTERVAL = 0.02
"""Seconds between checks for processes that were killed but are not gone yet."""
_START_ERROR_CODE = 128


def main() -> None:
    """Run one container from start to exit."""
    os.chdir("/")  # do not keep any directory in use
    config = receive_config(CONFIG, LOCK, READY)
    files = ShimFiles(config["directory"], config["cgroups"])
    try:
        files.create()
    except OSError as error:
        os.write(READY, str(error).encode())
        return
    Shim(config, files).run()


class Shim:
    """One container, from just before its start to just after its exit."""

    def __init__(self, config: "dict[str, Any]", files: ShimFiles) -> None:
        self._config, self._files = config, files
        self._directory: str = config["directory"]
        self._log = LogFile(f"{self._directory}/log", config["log_size"], config["log_files"])
        self._streams: list[Stream] = []
        self._pid = 0
        self._running = False
        self._started: float | None = None
        self._deadline: float | None = None
        self._killed = False
        self._status: int | None = None
        self._finished = 0.0
        self._wakeup = system.catch_signals(self._on_signal)

    def run(self) -> None:
        """Start the container, supervise it, record its exit."""
        system.adopt_orphans()
        try:
            self._start()
        except StartError as error:
            self._finish(_START_ERROR_CODE, None, "StartError", str(error))
            return
        self._running = True
        self._report_started(self._files.record_container(self._pid, self._started))
        if self._deadline is not None:  # SIGTERM arrived before the container was started
            self._terminate()
        self._watch()
        self._finish(*self._exit_status())

    def _report_started(self, record: bytes) -> None:
        """Send the container's identity to the daemon.

        If the daemon is dead, the next one reads it from the file.
        """
        try:
            os.write(READY, record)
        except BrokenPipeError:
            return
        finally:
            os.close(READY)

    # --- starting -----------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Fork, and wait until the command is executed; StartError if it never is."""
        readers, writers = zip(*(os.pipe2(os.O_CLOEXEC) for _ in range(3)), strict=True)
        own_pid = os.getpid()
        self._started = time.time()
        self._pid = os.fork()
        if self._pid == 0:
            self._run_child(writers, own_pid)
        for descriptor in writers:
            os.close(descriptor)
        for name, descriptor in (("stdout", readers[0]), ("stderr", readers[1])):
            os.set_blocking(descriptor, False)
            self._streams.append(Stream(name, descriptor, self._log))
        with open(readers[2], "rb") as file:
            failure = file.read().decode("utf-8", "replace")
        if failure:
            os.waitpid(self._pid, 0)
            self._started = None
            raise StartError(failure)

    def _run_child(self, writers: "tuple[int, ...]", parent: int) -> "NoReturn":
        """In the child: become the container's command, or report the error to the shim."""
        try:
            os.setsid()
            system.die_with_parent(parent)
            with StartErrorContext("cannot join the container's cgroups"):
                process.join_cgroups(self._config["cgroups"])
            self._mount()
            for target, descriptor in enumerate((os.open("/dev/null", os.O_RDONLY), *writers[:2])):
                os.dup2(descriptor, target)
            become_command(self._config, parent)
        except BaseException as error:  # noqa: BLE001 - this process must not continue
            os.write(writers[2], (str(error) or repr(error)).encode("utf-8", "replace"))
        os._exit(_START_ERROR_CODE)

    def _mount(self) -> None:
        if not self._config["mounts"]:
            return
        from shoal.kubelet.shim import mounts  # noqa: PLC0415 - most containers have no mounts

        with StartErrorContext("cannot mount the container's volumes"):
            mounts.enter(self._config["mounts"], self._directory)

    # --- watching -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Until all processes of the container are gone: write its log, and enforce its stop deadline."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        streams = {stream.descriptor: stream for stream in self._streams}
        for descriptor in streams:
            poll.register(descriptor, select.POLLIN)
        while not self._reap():
            ready = [descriptor for descriptor, _ in poll.poll(self._poll_timeout())]
            for descriptor in ready:
                stream = streams.get(descriptor)
                if stream is None:
                    os.read(self._wakeup, 512)
                elif not stream.pump() and not stream.open:
                    poll.unregister(descriptor)
            if not ready:
                self._flush()
            self._enforce_deadline()
        for stream in self._streams:
            while stream.pump():
                pass
        self._flush()

    def _poll_timeout(self) -> float:
        """Milliseconds until something must be done without an event."""
        limits = [FLUSH_DELAY if any(stream.has_partial_line for stream in self._streams) else _MAX_POLL]
        if self._status is not None:
            limits.append(_REAP_INTERVAL)
        elif self._deadline is not None and not self._killed:
            limits.append(max(0.0, self._deadline - time.monotonic()))
        return min(limits) * 1000 + 1

    def _flush(self) -> None:
        for stream in self._streams:
            stream.flush()

    def _enforce_deadline(self) -> None:
        """Kill the container when its stop deadline has passed."""
        if self._deadline is not None and not self._killed and time.monotonic() >= self._deadline:
            self._killed = True
            self._kill()

    def _reap(self) -> bool:
        """Reap dead children; after the first process has ended kill the rest.

        Return True if none is left.
        """
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
        """Kill the process group, all children including adopted ones, and all members of the cgroups."""
        if self._status is None:
            system.send_signal(-self._pid, system.SIGKILL)
        for pid in {*process.children(os.getpid()), *process.cgroup_members(self._config["cgroups"])}:
            system.send_signal(pid, system.SIGKILL)

    def _on_signal(self, number: int) -> None:
        """Handle SIGTERM: start to stop the container, or bring the deadline forward."""
        if number != system.SIGTERM:
            return
        requested, current = self._requested_deadline(), self._deadline
        self._deadline = requested if current is None else min(requested, current)
        if current is None:  # send SIGTERM once: many programs abort on the second
            self._terminate()

    def _terminate(self) -> None:
        if self._running and self._status is None:
            system.send_signal(-self._pid, system.SIGTERM)

    def _requested_deadline(self) -> float:
        try:
            with open(f"{self._directory}/stop.json", encoding="ascii") as file:
                return float(file.read())
        except (OSError, ValueError):  # not sent by the daemon: use the container's own grace period
            return time.monotonic() + float(self._config["grace"])

    # --- exit ---------------------------------------------------------------------------------------------

    def _exit_status(self) -> "tuple[int, int | None, str]":
        """Exit code, signal and reason, as Kubernetes reports them."""
        assert self._status is not None  # noqa: S101 - for mypy: set before the last process is gone
        code = os.waitstatus_to_exitcode(self._status)
        number = -code if code < 0 else None
        code = 128 - code if code < 0 else code
        if code and process.oom_killed(self._config["cgroups"]):
            return code, number, "OOMKilled"
        return code, number, "Error" if code else "Completed"

    def _finish(self, code: int, number: "int | None", reason: str, message: str = "") -> None:
        if self._log.dropped_total:
            message = f"{self._log.dropped_total} lines of the log were dropped: {self._log.error}"
        times = {"started": self._started, "finished": self._finished or time.time()}
        self._files.record_exit({"code": code, "signal": number, **times, "reason": reason}, message)
