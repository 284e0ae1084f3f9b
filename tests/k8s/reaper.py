"""A process that outlives a test run by a moment, to kill the processes that the run started.

It reads process ids, one per line, from standard input. When that closes, because the run ended or was
killed, it kills those that are still alive. It holds pidfds, so that a reused process id is never killed.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    held = []
    for line in sys.stdin:
        with contextlib.suppress(ProcessLookupError):
            held.append(os.pidfd_open(int(line)))
    for process in held:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
