"""The program of every pod: it holds the lock of its slot, and records its starts and ends in a file.

    worker.py DIRECTORY JOB SECONDS CODES STOP_CODE

The n-th run in a slot exits with the n-th of the comma-separated CODES after SECONDS, later runs with the
last one; a run that is asked to stop exits with STOP_CODE at once. It imports the standard library only: a
process starts in a few hundredths of a second.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO, NoReturn

VIOLATIONS = "violations.txt"
SLOTS = "slots"


def slot_name(job: str) -> str:
    """The slot of this process: role and index, index of a batch Job, or else the pod itself."""
    variables = os.environ
    if "SHOAL_ROLE" in variables:
        return f"{job}.{variables['SHOAL_ROLE']}.{variables['SHOAL_INDEX']}"
    index = variables.get("JOB_COMPLETION_INDEX")
    return f"{job}.index.{index}" if index else f"{job}.pod.{variables['SHOAL_POD_NAME']}"


def record(file: IO[str], event: str, code: int | None = None) -> None:
    """Append a line: which pod has started or ended."""
    pod = os.environ["SHOAL_RUN"].partition("/")[0]
    file.write(json.dumps({"pod": pod, "event": event, "code": code, "time": time.time()}) + "\n")
    file.flush()


def lock(directory: Path, slot: str) -> IO[str]:
    """Open and lock the file of a slot; another process that holds it is a violation."""
    file = (directory / SLOTS / slot).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with (directory / VIOLATIONS).open("a") as violations:
            violations.write(f"slot {slot} has two processes: {os.environ['SHOAL_RUN']} is the second\n")
    return file


def main(directory: str, job: str, seconds: str, codes: str, stop_code: str) -> NoReturn:
    """Run until the end or the request to stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    file = lock(Path(directory), slot_name(job))
    file.seek(0)
    runs = sum('"start"' in line for line in file)
    record(file, "start")
    if signal.sigtimedwait([signal.SIGTERM], float(seconds)):
        event, code = "stop", int(stop_code)
    else:
        planned = [int(code) for code in codes.split(",")]
        event, code = "end", planned[min(runs, len(planned) - 1)]
    record(file, event, code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
