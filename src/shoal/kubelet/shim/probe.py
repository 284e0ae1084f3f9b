"""Whether this user can have mounts of their own: tries, and says what is in the way."""

import sys

from shoal.kubelet.shim.mounts import enter


def main() -> None:
    """Bind a directory to a place that is not there, as containers may want it."""
    home = sys.argv[2]
    try:
        enter([(home, "/shoal-probe", True)], home)
    except OSError as problem:
        sys.exit(problem.strerror or str(problem))
