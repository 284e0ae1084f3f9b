"""A process that outlives a test run by a moment, to end what the run started.

It is given process ids, one a line, on standard input. When that closes, because the run ended or was killed,
it kills those that still live. It holds them by pidfd: no stranger who got the same id later is hit.
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
